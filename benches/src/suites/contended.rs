//! Contenders of one process for one lock, against Curator and etcd's own lock service.

use std::{sync::Arc, time::Duration};

use coord_testbed::{Kind, Server};
use etcd_client::{Client, Compare, CompareOp, Txn, TxnOp};

use crate::{
    Result,
    args::Speed,
    contest::{self, Contender, Figures},
    counters::{Counters, Reader, growth},
    curator::{self, Curator},
    report::{Bound, Claim, Contended, Report},
    stand,
    stats::Sample,
};

/// Who is compared with us.
enum Peer {
    Curator(Box<Curator>),
    EtcdService(Arc<[Contender]>),
}

impl Peer {
    async fn of(server: &Server, contenders: usize) -> Result<Option<Peer>> {
        Ok(match server.kind() {
            Kind::ZooKeeper => Curator::start(server.addr(), "/curator/lock", contenders)
                .await?
                .map(|curator| Peer::Curator(Box::new(curator))),
            Kind::Etcd => {
                let endpoint = format!("http://{}", server.addr());
                Some(Peer::EtcdService(Contender::etcds(&endpoint, "service-lock", contenders).await?))
            }
            _ => None,
        })
    }

    fn name(&self) -> String {
        match self {
            Peer::Curator(curator) => format!("{} InterProcessMutex", curator.version()),
            Peer::EtcdService(_) => "etcd's lock service".to_owned(),
        }
    }

    async fn run(&mut self, reader: &Reader, times: (Duration, Duration)) -> Result<Figures> {
        match self {
            Peer::Curator(curator) => curator.run(reader, times.0, times.1).await,
            Peer::EtcdService(contenders) => contest::run(contenders, reader, times, None).await,
        }
    }
}

pub(crate) async fn run(speed: &Speed, server: &Server, report: &mut Report) -> Result<()> {
    let store = server.kind().name();
    let reader = Reader::new(server).await?;
    let times = (speed.span(0.5, 0.3).min(Duration::from_secs(1)), speed.span(8.0, 1.0));
    count(speed, server, &reader, report).await?;

    let coord = stand::open(&server.url()).await?;
    let ours = Contender::ours(&coord, "/locks/contended", speed.contenders).await?;
    let mut peer = Peer::of(server, speed.contenders).await?;
    match &mut peer {
        Some(Peer::Curator(curator)) => {
            // The first seconds of a JVM are interpreted.
            let warm_up = Duration::from_secs(if speed.smoke { 1 } else { 8 });
            curator.run(&reader, Duration::ZERO, warm_up).await?;
            report.facts.servers.push(format!("peer: {}", curator.version()));
        }
        None if server.kind() == Kind::ZooKeeper => {
            report.left_out.push(format!("Curator, which is not installed: {}", curator::INSTALL));
        }
        _ => {}
    }
    let (mut our_figures, mut peer_figures) = (Vec::new(), Vec::new());
    for _ in 0..speed.pairs() {
        if let Some(peer) = &mut peer {
            peer_figures.push(peer.run(&reader, times).await?);
        }
        our_figures.push(contest::run(&ours, &reader, times, None).await?);
    }
    let ratio = Sample::new(
        our_figures.iter().zip(&peer_figures).map(|(ours, peer)| ours.per_s / peer.per_s).collect(),
    );
    let contenders = speed.contenders;
    if let Some(peer) = peer {
        let least = if server.kind() == Kind::Etcd { 10.0 } else { 1.5 };
        let name = peer.name();
        let what = format!("{store}: acquisitions of {contenders} contenders over {name}");
        report.claims.push(Claim::new(what, Bound::AtLeast(least), ratio.clone(), false));
        report.contended.push(row(store, name, contenders, &peer_figures, Some(ratio)));
        if let Peer::EtcdService(contenders) = peer {
            for contender in contenders.iter() {
                contender.end().await?;
            }
        }
    }
    report.contended.push(row(store, "coord".to_owned(), contenders, &our_figures, None));
    Ok(coord.close().await?)
}

/// Counts our server work where nobody else works: through a proxy that leaves pings out.
async fn count(speed: &Speed, server: &Server, reader: &Reader, report: &mut Report) -> Result<()> {
    let store = server.kind().name();
    let proxy = server.proxied().await?;
    let coord = stand::open(&proxy.url()).await?;
    let ours = Contender::ours(&coord, "/locks/counted", speed.contenders).await?;
    let requests = || proxy.requests();
    let times = (speed.span(0.5, 0.5).min(Duration::from_secs(1)), speed.span(3.0, 1.5));
    let figures = contest::run(&ours, reader, times, Some(&requests)).await?;
    let comparison = match server.kind() {
        Kind::Etcd => ranges_of_a_comparison(server, reader).await?,
        _ => 0.0,
    };
    let promised = !matches!(server.kind(), Kind::Redis | Kind::Valkey);
    let mut claim = |what: &str, most: f64, found: f64| {
        let what = format!("{store}: {what} an acquisition, {} contenders", speed.contenders);
        // Redis is not promised: its scripts are shown against the same bound.
        let exact = promised || most == 0.0;
        report.claims.push(Claim::new(what, Bound::AtMost(most), Sample::new(vec![found]), exact));
    };
    let of = |work: &Counters, name: &str| work.get(name).copied().unwrap_or(f64::NAN);
    match server.kind() {
        Kind::Etcd => {
            // Two transactions, each with one comparison. Room for the counters' being read a moment before and after.
            let ranges = of(&figures.work, "ranges") - 2.0 * comparison;
            claim("ranges beyond the two comparisons of", 0.1, ranges);
            claim("Range calls", 0.05, of(&figures.work, "Range calls"));
            claim("puts and deletes", 2.1, of(&figures.work, "puts") + of(&figures.work, "deletes"));
            claim("requests", 2.1, figures.requests.unwrap_or(f64::NAN));
        }
        Kind::Redis | Kind::Valkey => claim("scripts", 2.1, of(&figures.work, "scripts")),
        _ => claim("requests", 2.1, figures.requests.unwrap_or(f64::NAN)),
    }
    claim("overlaps", 0.0, figures.overlaps as f64);
    let mut counted = row(
        store,
        "coord, through the counting proxy".to_owned(),
        speed.contenders,
        std::slice::from_ref(&figures),
        None,
    );
    if let Some(requests) = figures.requests {
        counted.work.insert("requests by the proxy", requests);
    }
    report.contended.push(counted);
    Ok(coord.close().await?)
}

/// How many ranges etcd counts for the comparison of a transaction that reads nothing: it looks the key up.
async fn ranges_of_a_comparison(server: &Server, reader: &Reader) -> Result<f64> {
    const PUTS: u8 = 20;
    let mut client = Client::connect([format!("http://{}", server.addr())], None).await?;
    let before = reader.read().await?;
    for number in 0..PUTS {
        let key = format!("comparison/{number}");
        let absent = Compare::create_revision(key.as_str(), CompareOp::Equal, 0);
        client.txn(Txn::new().when([absent]).and_then([TxnOp::put(key, "", None)])).await?;
    }
    let each = growth(&before, &reader.read().await?, f64::from(PUTS));
    Ok(each.get("ranges").copied().unwrap_or(0.0))
}

fn row(
    store: &'static str,
    side: String,
    contenders: usize,
    figures: &[Figures],
    ours_over_this: Option<Sample>,
) -> Contended {
    let sample = |figure: fn(&Figures) -> f64| Sample::new(figures.iter().map(figure).collect());
    Contended {
        store,
        side,
        contenders,
        per_s: sample(|figures| figures.per_s),
        hand_off_p50_ms: sample(|figures| figures.hand_off_p50_ms),
        hand_off_p99_ms: sample(|figures| figures.hand_off_p99_ms),
        fewest: figures.iter().map(|figures| figures.fewest).min().unwrap_or(0),
        most: figures.iter().map(|figures| figures.most).max().unwrap_or(0),
        overlaps: figures.iter().map(|figures| figures.overlaps).sum(),
        work: figures.last().map(|figures| figures.work.clone()).unwrap_or_default(),
        ours_over_this,
    }
}
