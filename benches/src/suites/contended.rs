//! What the server does for one acquisition among several contenders of one process.

use std::time::Duration;

use coord_testbed::{Kind, Server};
use etcd_client::{Client, Compare, CompareOp, Txn, TxnOp};

use crate::{
    Result,
    args::Speed,
    contest::{Contender, Contest, Pace},
    counters::{Counters, Reader, growth},
    report::{Bound, Claim, Contended, Report},
    stand,
    stats::Sample,
};

/// Counts our server work where nobody else works: through a proxy that leaves pings out.
pub(crate) async fn run(speed: &Speed, server: &Server, report: &mut Report) -> Result<()> {
    let store = server.kind().name();
    let reader = Reader::new(server).await?;
    let proxy = server.proxied().await?;
    let coord = stand::open(&proxy.url()).await?;
    let contenders = Contender::ours(&coord, "/locks/counted", speed.contenders).await?;
    let (settle, span) = (speed.span(0.5, 0.5).min(Duration::from_secs(1)), speed.span(3.0, 1.5));
    let mut contest = Contest::begin(&contenders, Pace::default());
    tokio::time::sleep(settle).await;
    let (before, asked) = (reader.read().await?, proxy.requests());
    contest.record(span).await;
    let asked = proxy.requests() - asked;
    let after = reader.read().await?;
    let figures = contest.end().await?;
    let acquisitions = (figures.acquisitions as f64).max(1.0);
    let mut work = growth(&before, &after, acquisitions);
    let requests = asked as f64 / acquisitions;
    let comparison = match server.kind() {
        Kind::Etcd => ranges_of_a_comparison(server, &reader).await?,
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
            let ranges = of(&work, "ranges") - 2.0 * comparison;
            claim("ranges beyond the two comparisons of", 0.1, ranges);
            claim("Range calls", 0.05, of(&work, "Range calls"));
            claim("puts and deletes", 2.1, of(&work, "puts") + of(&work, "deletes"));
            claim("requests", 2.1, requests);
        }
        Kind::Redis | Kind::Valkey => claim("scripts", 2.1, of(&work, "scripts")),
        _ => claim("requests", 2.1, requests),
    }
    claim("overlaps", 0.0, figures.overlaps as f64);
    work.insert("requests by the proxy", requests);
    report.contended.push(Contended {
        store,
        contenders: speed.contenders,
        acquisitions: figures.acquisitions,
        fewest: figures.fewest,
        most: figures.most,
        overlaps: figures.overlaps,
        work,
    });
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
