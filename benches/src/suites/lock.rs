//! Locks: a cycle that nobody contends, and many contenders, fair against naive.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use coord::{
    Coord, Key, Lifetime, Lock, Retry, Seen, Session,
    layers::{ChaosLayer, ChaosPlan, Method},
};
use futures::future::try_join_all;
use tokio::sync::watch;

use crate::{
    Result,
    race::Race,
    run::{Chart, Part, Pen, Plan, Store, Work},
    stats::Latency,
};

pub(crate) const PARTS: &[Part] = &[
    Part {
        name: "uncontended",
        title: "A lock that nobody contends",
        text: "One client takes the lock and gives it back, again and again. *Fair*: `Lock`. *Naive*: creates one \
               ephemeral key and deletes it, as `SET NX` locks do: no line, and no fairness.",
        at: "contenders",
        charts: &[Chart::Bars("cycles/s")],
    },
    Part {
        name: "contended",
        title: "A lock that many contend",
        text: "All contenders in one process, nothing done inside the lock; each of the first 64 has a session of its \
               own, and more share these. All have come before the first gets it. *Fair*: `Lock`, which wakes one waiter a release. *Naive*: all try to create \
               one key, and whoever fails waits until it is gone and tries again: the herd. For each \
               acquisition, with its release: tries, attempts to create an entry; wake-ups, waits that were begun and \
               so had to be ended by somebody; requests and bytes of the server. Hand-off: from the call that gives \
               back to the next holder's return. Most − fewest: acquisitions of the luckiest contender less those of \
               the unluckiest.",
        at: "contenders",
        charts: &[
            Chart::Lines("tries an acquisition"),
            Chart::Lines("wake-ups an acquisition"),
            Chart::Lines("acquisitions/s"),
            Chart::Lines("hand-off p99 ms"),
        ],
    },
];

const LOCK: &str = "/lock/fair";
const KEY: &str = "/lock/naive";
/// Outlives any repetition, and renews rarely enough not to show in the counts.
const TTL: Duration = Duration::from_secs(30);
const SESSIONS_MAX: usize = 64;
const SIDES: [(&str, Style); 2] = [("fair", Style::Fair), ("naive", Style::Naive)];

#[derive(Clone, Copy, Debug)]
enum Style {
    Fair,
    Naive,
}

pub(crate) async fn repetition(store: &Store, plan: Plan, pen: &mut Pen<'_>) -> Result<()> {
    let coord = store.open().await?;
    for (side, style) in SIDES {
        let figures = uncontended(&coord, style, plan.span(0.5)).await?;
        pen.put("uncontended", side, 1, &figures);
    }
    for count in plan.pick(&[2, 8, 64, 1000][..], &[2, 8][..]).iter().copied() {
        for (side, style) in SIDES {
            let figures = contended(store, &coord, style, count, plan).await?;
            pen.put("contended", side, count, &figures);
        }
    }
    Ok(coord.close().await?)
}

async fn uncontended(coord: &Coord, style: Style, span: Duration) -> Result<[(&'static str, f64); 3]> {
    let session = coord.session(TTL).await?;
    let lock = Lock::new(&session, LOCK)?;
    let key = Key::parse(KEY)?;
    let mut taken = Latency::default();
    let mut began = None;
    // The first cycle also makes the directory, on ZooKeeper: it does not count.
    while began.is_none_or(|began: Instant| began.elapsed() < span) {
        let cycle = Instant::now();
        match style {
            Style::Fair => lock.acquire().await?.release().await?,
            Style::Naive => {
                if session.coord().create(&key, "", Lifetime::Session).await?.is_none() {
                    return Err("somebody else has the lock".into());
                }
                session.coord().delete(&key).await?;
            }
        }
        match began {
            Some(_) => taken.record(cycle.elapsed()),
            None => began = Some(Instant::now()),
        }
    }
    let seconds = began.map(|began| began.elapsed().as_secs_f64()).unwrap_or(f64::NAN);
    session.close().await?;
    Ok([("cycles/s", taken.count() as f64 / seconds), ("p50 ms", taken.ms(0.5)), ("p99 ms", taken.ms(0.99))])
}

async fn contended(
    store: &Store,
    coord: &Coord,
    style: Style,
    count: usize,
    plan: Plan,
) -> Result<Vec<(&'static str, f64)>> {
    let calls = ChaosPlan::new();
    let coord = &coord.clone().layer(&ChaosLayer::new(calls.clone()));
    let mut sessions: Vec<Session> = Vec::new();
    while sessions.len() < count.min(SESSIONS_MAX) {
        let few = (count.min(SESSIONS_MAX) - sessions.len()).min(16);
        sessions.extend(try_join_all((0..few).map(|_| coord.session(TTL))).await?);
    }
    let race = Arc::new(Race::of(count));
    // Held until all have come: what they take to come is not measured.
    let gate = coord.session(TTL).await?;
    let held = match style {
        Style::Fair => Some(Lock::new(&gate, LOCK)?.acquire().await?),
        Style::Naive => {
            gate.coord().create(KEY, "gate", Lifetime::Session).await?.ok_or("somebody else has the lock")?;
            None
        }
    };
    let (ending, over) = watch::channel(false);
    let contending: Vec<_> = (0..count)
        .map(|me| {
            let (session, race, over) =
                (sessions[me % sessions.len()].clone(), Arc::clone(&race), over.clone());
            tokio::spawn(contend(session, style, race, me, over))
        })
        .collect();
    gather(coord, style, count, &race).await?;
    if let Some(held) = held {
        held.release().await?;
    }
    gate.close().await?;
    tokio::time::sleep(plan.span(0.2)).await;
    let (tried, waited) = (race.tries(), calls.calls(Method::Wait));
    let before = Work::read(store.server()).await;
    race.record(true);
    let began = Instant::now();
    tokio::time::sleep(plan.span(0.6)).await;
    // A smoke run, and a herd, may need longer for the first.
    while race.counts().iter().all(|count| *count == 0) && began.elapsed() < TTL {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    race.record(false);
    let seconds = began.elapsed().as_secs_f64();
    let (tries, waits) = (race.tries() - tried, calls.calls(Method::Wait) - waited);
    let after = Work::read(store.server()).await;
    ending.send_replace(true);
    for ended in try_join_all(contending).await? {
        ended?;
    }
    for session in sessions {
        session.close().await?;
    }
    let counts = race.counts();
    let all = counts.iter().sum::<u64>() as f64;
    let spread = counts.iter().max().zip(counts.iter().min()).map_or(0, |(most, fewest)| most - fewest);
    let hand_offs = race.hand_offs();
    let mut figures = vec![
        ("acquisitions/s", all / seconds),
        ("tries an acquisition", tries as f64 / all.max(1.0)),
        ("wake-ups an acquisition", waits as f64 / all.max(1.0)),
        ("most − fewest", spread as f64),
        ("overlaps", race.overlaps() as f64),
    ];
    if hand_offs.count() > 0 {
        figures.extend([("hand-off p50 ms", hand_offs.ms(0.5)), ("hand-off p99 ms", hand_offs.ms(0.99))]);
    }
    figures.extend(after.each(before, all));
    Ok(figures)
}

/// Waits until all contenders have come.
async fn gather(coord: &Coord, style: Style, count: usize, race: &Race) -> Result<()> {
    let began = Instant::now();
    loop {
        let here = match style {
            Style::Naive => usize::try_from(race.tries())?,
            // With the one who holds it.
            Style::Fair => match coord.list(LOCK).await {
                Ok(line) => line.children.len().saturating_sub(1),
                // A server that lets so many join at once may be late with an answer.
                Err(error) if error.retry() == Retry::Safe => 0,
                Err(error) => return Err(error.into()),
            },
        };
        if here >= count {
            return Ok(());
        }
        if began.elapsed() > TTL {
            return Err(format!("only {here} of {count} contenders came").into());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Takes the lock and gives it back until it is over. Whoever waits then goes away.
async fn contend(
    session: Session,
    style: Style,
    race: Arc<Race>,
    me: usize,
    mut over: watch::Receiver<bool>,
) -> Result<()> {
    let lock = Lock::new(&session, LOCK)?;
    let key = Key::parse(KEY)?;
    while !*over.borrow() {
        // In memory nobody would make way otherwise.
        tokio::task::coop::consume_budget().await;
        match style {
            Style::Fair => {
                race.tried();
                let guard = tokio::select! {
                    guard = lock.acquire() => guard?,
                    _ = over.wait_for(|over| *over) => return Ok(()),
                };
                race.entered(me);
                race.leaves();
                guard.release().await?;
            }
            Style::Naive => {
                tokio::select! {
                    taken = naive(&session, &key, &race, me) => taken?,
                    _ = over.wait_for(|over| *over) => return Ok(()),
                }
                race.entered(me);
                race.leaves();
                while let Err(error) = session.coord().delete(&key).await {
                    if error.retry() == Retry::Never {
                        return Err(error.into());
                    }
                }
            }
        }
    }
    Ok(())
}

/// Creates the key, whenever it is gone.
async fn naive(session: &Session, key: &Key, race: &Race, me: usize) -> Result<()> {
    let mine = me.to_string();
    loop {
        race.tried();
        match session.coord().create(key, mine.clone(), Lifetime::Session).await {
            Ok(Some(_)) => return Ok(()),
            Ok(None) => session.coord().wait(&Seen::Exists(key.clone())).await?,
            Err(error) if error.retry() == Retry::Never => return Err(error.into()),
            // The herd overloads its store. The key may have been created all the same.
            Err(_) => {
                if let Ok(Some(entry)) = session.coord().get(key).await
                    && entry.value == mine
                {
                    return Ok(());
                }
            }
        }
    }
}
