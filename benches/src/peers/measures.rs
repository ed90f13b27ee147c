//! What is compared, and what the ratios shall be.

use std::time::{Duration, Instant};

use coord_testbed::{Kind, Server};

use crate::{
    Result,
    idle::resident_kib_of,
    note,
    peers::{
        args::{Measure, PeersArgs, Role},
        packages::{Packages, Peer},
        party::{Gauge, Party, Turn},
        table::{Found, Table},
    },
    report::Bound::{AtLeast, AtMost},
};

/// How long a JVM runs before it is measured.
const JVM_WARM_UP: f64 = 8.0;

/// One server, and what is found on it.
pub(crate) struct Bench<'a> {
    pub(crate) args: &'a PeersArgs,
    pub(crate) server: &'a Server,
    pub(crate) gauge: &'a Gauge,
    pub(crate) packages: &'a Packages,
    pub(crate) table: &'a mut Table,
}

pub(crate) async fn run(measure: Measure, bench: &mut Bench<'_>) -> Result<()> {
    let kind = bench.server.kind();
    note(&format!("{kind}: {measure:?}"));
    match measure {
        Measure::Uncontended => uncontended(bench).await,
        Measure::Contended => contended(bench).await,
        Measure::Held if kind == Kind::Redis => held(bench).await,
        Measure::Processes if kind == Kind::ZooKeeper => processes(bench).await,
        Measure::Fairness => fairness(bench).await,
        Measure::Watchers => watchers(bench).await,
        Measure::Burst => burst(bench).await,
        Measure::Bulk if kind == Kind::ZooKeeper => bulk(bench).await,
        Measure::Idle if kind == Kind::ZooKeeper => idle(bench).await,
        Measure::Held | Measure::Processes | Measure::Bulk | Measure::Idle => {
            note(&format!("{kind}: {measure:?}: no peer to compare with"));
            Ok(())
        }
    }
}

async fn uncontended(bench: &mut Bench<'_>) -> Result<()> {
    let what = bench.title("uncontended lock, cycles/s");
    let mut peers = bench.peers();
    if bench.server.kind() == Kind::ZooKeeper {
        peers.push(Peer::Kazoo);
    }
    let found = bench.turns(&what, &Role::lock("uncontended", 1), &peers, 1, &bench.spans(0.3, 2.5)).await?;
    bench.table.compare(&what, &found, rate, |peer| match peer {
        Peer::Curator | Peer::RedisPy => Some(AtLeast(1.0)),
        Peer::EtcdClient => Some(AtLeast(0.95)),
        _ => None,
    });
    Ok(())
}

async fn contended(bench: &mut Bench<'_>) -> Result<()> {
    for count in bench.args.pick(&[8, 64][..], &[2][..]).iter().copied() {
        let what = bench.title(&format!("{count} contenders in one process, acquisitions/s"));
        let role = Role::lock(&format!("contended-{count}"), count);
        let found = bench.turns(&what, &role, &bench.peers(), 1, &bench.spans(0.5, 2.5)).await?;
        let few = count <= 8;
        bench.table.compare(&what, &found, rate, |peer| match peer {
            Peer::Curator => Some(AtLeast(if few { 1.5 } else { 2.0 })),
            Peer::EtcdClient => Some(AtLeast(if few { 10.0 } else { 1.7 })),
            // A lock without a line: whoever gives it back takes it again.
            _ => None,
        });
        let what = bench.title(&format!("{count} contenders in one process, p99 hand-off ms"));
        bench.table.compare(&what, &found, of("hand_off_p99_ms"), |peer| match peer {
            Peer::Curator => Some(AtMost(0.5)),
            Peer::EtcdClient => Some(AtMost(0.05)),
            _ => None,
        });
    }
    Ok(())
}

async fn held(bench: &mut Bench<'_>) -> Result<()> {
    for count in bench.args.pick(&[8, 64][..], &[2][..]).iter().copied() {
        let load = format!("{count} contenders, 2 ms inside, 5 ms between");
        let what = bench.title(&format!("{load}, p99 ms from acquire to released"));
        let role = Role::Lock { name: format!("held-{count}"), contenders: count, hold_ms: 2, think_ms: 5 };
        let found = bench.turns(&what, &role, &bench.peers(), 1, &bench.spans(1.0, 6.0)).await?;
        bench.table.compare(&what, &found, of("cycle_p99_ms"), |_| Some(AtMost(0.1)));
        let what = bench.title(&format!("{load}, acquisitions/s"));
        bench.table.compare(&what, &found, rate, |_| None);
    }
    Ok(())
}

async fn processes(bench: &mut Bench<'_>) -> Result<()> {
    for count in bench.args.pick(&[8, 64][..], &[2][..]).iter().copied() {
        let what = bench.title(&format!("{count} contenders in a process each, acquisitions/s"));
        let role = Role::lock(&format!("processes-{count}"), 1);
        let found = bench.turns(&what, &role, &[Peer::Curator], count, &bench.spans(0.5, 3.0)).await?;
        bench.table.compare(&what, &found, rate, |_| Some(AtLeast(1.0)));
        for (name, counter) in [("received", "packets in"), ("sent", "packets out")] {
            let what =
                bench.title(&format!("{count} contenders in a process each, packets {name} by the server"));
            let each = |turn: &Turn| turn.work_an_acquisition(counter);
            bench.table.compare(&format!("{what} an acquisition"), &found, each, |_| None);
        }
    }
    Ok(())
}

async fn fairness(bench: &mut Bench<'_>) -> Result<()> {
    for count in bench.args.pick(&[8, 64][..], &[2][..]).iter().copied() {
        let span = bench.args.span(15.0).as_secs_f64();
        let what = bench.title(&format!("{count} contenders, most − fewest acquisitions in {span} s"));
        let role = Role::lock(&format!("fair-{count}"), count);
        let line = bench.spans(0.5, 15.0);
        let turn = bench.once(&role, bench.gauge, &bench.server.url(), &line).await?;
        bench.table.alone(&what, vec![turn.figure("most") - turn.figure("fewest")], Some(AtMost(2.0)));
    }
    Ok(())
}

async fn watchers(bench: &mut Bench<'_>) -> Result<()> {
    let count = bench.args.pick(1000, 10);
    let role = Role::Watch { watchers: count };
    // Twenty a second.
    let updates = bench.args.pick(60, 5);
    let line = format!("{updates} 50000");
    let what = bench.title(&format!("p50 ms until {count} watchers of one key have an update"));
    let complete = bench.title(&format!("updates that each of {count} watchers saw, %"));
    let found = if bench.server.kind() == Kind::Redis {
        let turn = bench.once(&role, bench.gauge, &bench.server.url(), &line).await?;
        bench.table.alone(&what, vec![turn.figure("p50_ms")], None);
        Found { ours: vec![turn], ..Found::default() }
    } else {
        let found = bench.turns(&what, &role, &bench.peers(), 1, &line).await?;
        bench.table.compare(&what, &found, of("p50_ms"), |peer| match peer {
            Peer::Curator => Some(AtMost(0.03)),
            _ => Some(AtMost(0.25)),
        });
        found
    };
    if bench.server.kind() == Kind::ZooKeeper {
        bench.table.compare(&complete, &found, of("complete_percent"), |_| None);
    } else {
        let ours = found.ours.iter().map(of("complete_percent")).collect();
        bench.table.alone(&complete, ours, Some(AtLeast(100.0)));
    }
    let proxy = bench.server.proxied().await?;
    let url = proxy.url();
    let turn = bench.once(&role, &Gauge::Proxy(proxy), &url, &line).await?;
    let what = bench.title(&format!("requests to the server an update, {count} watchers"));
    let each = turn.work("requests") / f64::from(updates);
    bench.table.alone(&what, vec![each], Some(AtMost(2.0)));
    Ok(())
}

async fn burst(bench: &mut Bench<'_>) -> Result<()> {
    let (many, updates) = (bench.args.pick(100, 5), bench.args.pick(2000, 50));
    let line = format!("{updates} 0");
    let mut found = Found::default();
    let url = bench.server.url();
    let mut one = Vec::new();
    for _ in 0..bench.args.pairs() {
        let role = Role::Watch { watchers: many };
        found.ours.push(bench.once(&role, bench.gauge, &url, &line).await?);
        one.push(bench.once(&Role::Watch { watchers: 1 }, bench.gauge, &url, &line).await?);
    }
    // ZooKeeper's watches tell that a node changed and not how: values are read, and coalesced.
    let whole = (bench.server.kind() != Kind::ZooKeeper).then_some(AtLeast(100.0));
    let seen = found.ours.iter().map(of("seen_percent")).collect();
    let what = bench.title(&format!("burst of {updates} updates, seen by {many} watchers, %"));
    bench.table.alone(&what, seen, whole);
    found.others.push((Peer::Coord, "coord, 1 watcher".to_owned(), one));
    let what = bench.title(&format!("burst of {updates}, updates/s by the writer, {many} watchers"));
    bench.table.compare(&what, &found, of("updates_s"), |_| Some(AtLeast(0.9)));
    Ok(())
}

async fn bulk(bench: &mut Bench<'_>) -> Result<()> {
    let count = bench.args.pick(1000, 20);
    let what = bench.title(&format!("{count} registrations at once, registrations/s"));
    let found = bench.turns(&what, &Role::Register, &[Peer::Curator], 1, &count.to_string()).await?;
    bench.table.compare(&what, &found, of("registrations_s"), |_| Some(AtLeast(3.0)));
    Ok(())
}

async fn idle(bench: &mut Bench<'_>) -> Result<()> {
    let what = bench.title("ms from the start of a process to its first lock");
    if let Err(why) = bench.packages.name(Peer::Curator).map(str::to_owned) {
        bench.table.missing(&what, why);
        return Ok(());
    }
    let mut found = Found::default();
    let mut curator = Vec::new();
    for pair in 0..=bench.args.pairs() {
        let pause = bench.args.span(1.0);
        let (ours, theirs) =
            (idle_one(bench, Peer::Coord, pause).await?, idle_one(bench, Peer::Curator, pause).await?);
        // The first of each reads its files from the disk.
        if pair > 0 {
            found.ours.push(ours);
            curator.push(theirs);
        }
    }
    found.others.push((Peer::Curator, bench.packages.name(Peer::Curator)?.to_owned(), curator));
    bench.table.compare(&what, &found, of("first_lock_ms"), |_| Some(AtMost(0.1)));
    let what = bench.title("resident MB of an idle client that has had a lock");
    bench.table.compare(&what, &found, of("resident_mb"), |_| Some(AtMost(0.2)));
    Ok(())
}

async fn idle_one(bench: &Bench<'_>, peer: Peer, pause: Duration) -> Result<Turn> {
    let command = bench.packages.command(peer, bench.server, &bench.server.url(), &Role::FirstLock)?;
    let began = Instant::now();
    let party = Party::start(vec![command]).await?;
    let first_lock_ms = began.elapsed().as_secs_f64() * 1e3;
    tokio::time::sleep(pause).await;
    let resident_mb = resident_kib_of(&party.pid()?.to_string())? * 1024.0 / 1e6;
    party.stop().await?;
    Ok(Turn::of([("first_lock_ms", first_lock_ms), ("resident_mb", resident_mb)]))
}

fn of(name: &str) -> impl Fn(&Turn) -> f64 + '_ {
    move |turn: &Turn| turn.figure(name)
}

fn rate(turn: &Turn) -> f64 {
    turn.figure("acquisitions_s")
}

impl Bench<'_> {
    fn title(&self, what: &str) -> String {
        format!("{}: {what}", self.server.kind())
    }

    /// The usual peer on this store.
    fn peers(&self) -> Vec<Peer> {
        vec![match self.server.kind() {
            Kind::Etcd => Peer::EtcdClient,
            Kind::Redis | Kind::Valkey => Peer::RedisPy,
            _ => Peer::Curator,
        }]
    }

    /// The line that asks for a repetition of a lock, given in seconds.
    fn spans(&self, settle: f64, span: f64) -> String {
        let (settle, span) = (self.args.span(settle), self.args.span(span));
        format!("{} {}", settle.as_millis(), span.as_millis())
    }

    /// Ours alone, in a process that ends with it.
    async fn once(&self, role: &Role, gauge: &Gauge, url: &str, line: &str) -> Result<Turn> {
        let command = self.packages.command(Peer::Coord, self.server, url, role)?;
        let mut party = Party::start(vec![command]).await?;
        let turn = party.turn(gauge, line).await?;
        party.stop().await?;
        alone_inside(turn)
    }

    /// Ours and the peers that are installed, in turns: A B A B. Nothing if there is no peer.
    async fn turns(
        &mut self,
        measure: &str,
        role: &Role,
        peers: &[Peer],
        processes: usize,
        line: &str,
    ) -> Result<Found> {
        let mut parties = Vec::new();
        for peer in [Peer::Coord].iter().chain(peers).copied() {
            match self.packages.name(peer) {
                Err(why) => self.table.missing(measure, why),
                Ok(name) => {
                    let url = self.server.url();
                    let command = |_| self.packages.command(peer, self.server, &url, role);
                    let commands = (0..processes).map(command).collect::<Result<Vec<_>>>()?;
                    parties.push((peer, name.to_owned(), Party::start(commands).await?, Vec::new()));
                }
            }
        }
        if parties.len() < 2 {
            return Ok(Found::default());
        }
        for (peer, _, party, _) in &mut parties {
            if *peer == Peer::Curator && !self.args.smoke {
                let warm_up = match role {
                    Role::Lock { .. } => self.spans(0.0, JVM_WARM_UP),
                    _ => line.to_owned(),
                };
                party.turn(self.gauge, &warm_up).await?;
            }
        }
        for _ in 0..self.args.pairs() {
            for (peer, _, party, turns) in &mut parties {
                let turn = party.turn(self.gauge, line).await?;
                turns.push(if *peer == Peer::Coord { alone_inside(turn)? } else { turn });
            }
        }
        let mut found = Found::default();
        for (peer, name, party, turns) in parties {
            party.stop().await?;
            match peer {
                Peer::Coord => found.ours = turns,
                _ => found.others.push((peer, name, turns)),
            }
        }
        Ok(found)
    }
}

/// Fails if two held our lock at once.
fn alone_inside(turn: Turn) -> Result<Turn> {
    if turn.figure("overlaps") > 0.0 { Err("two held the lock at once".into()) } else { Ok(turn) }
}
