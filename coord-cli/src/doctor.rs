//! `doctor`.

use std::time::{Duration, Instant};

use coord::{BackendInfo, Coord, Error};
use serde_json::{Value, json};

use crate::{
    Failure, Format, code,
    exit::next_step,
    output::{Output, printable_text},
    store::Source,
};

/// Reads to take the time of.
const READS: usize = 20;
/// A key to read. It need not exist, and nothing is written.
const PROBE: &str = "/coord-doctor";

/// What was found.
struct Findings {
    url: String,
    from: String,
    info: Option<BackendInfo>,
    /// Sorted.
    reads: Vec<Duration>,
    problems: Vec<(String, Option<&'static str>)>,
}

/// Connects, looks, and tells. Writes nothing to the store.
pub(crate) async fn doctor(source: &Source, out: &mut Output<'_>) -> Result<u8, Failure> {
    let (config, from) = source.config()?;
    let mut findings =
        Findings { url: config.url().to_string(), from, info: None, reads: Vec::new(), problems: Vec::new() };
    match coord::connect_with(&config).await {
        Ok(coord) => {
            findings.info = Some(coord.info());
            if let Err(error) = time_reads(&coord, &mut findings.reads).await {
                findings.problem(&error);
            }
            findings.reads.sort();
            if let Err(error) = coord.close().await {
                findings.problem(&error);
            }
        }
        Err(error) => findings.problem(&error),
    }
    match out.format() {
        Format::Json | Format::Jsonl => out.json(&findings.json())?,
        Format::Auto | Format::Table | Format::Plain => out.table(&findings.rows())?,
    }
    Ok(if findings.problems.is_empty() { code::YES } else { code::NO })
}

async fn time_reads(coord: &Coord, reads: &mut Vec<Duration>) -> Result<(), Error> {
    for _ in 0..READS {
        let began = Instant::now();
        coord.get(PROBE).await?;
        reads.push(began.elapsed());
    }
    Ok(())
}

impl Findings {
    fn problem(&mut self, error: &Error) {
        self.problems.push((error.to_string(), next_step(error.kind())));
    }

    /// The fastest, the median and the slowest read.
    fn times(&self) -> Option<[Duration; 3]> {
        let middle = *self.reads.get(self.reads.len() / 2)?;
        Some([*self.reads.first()?, middle, *self.reads.last()?])
    }

    fn json(&self) -> Value {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let seconds = |time: Duration| time.as_secs_f64();
        let info = self.info.as_ref();
        json!({
            "ok": self.problems.is_empty(),
            "url": self.url,
            "configured_by": self.from,
            "backend": info.map(|info| info.name),
            "server": info.map(|info| info.server.as_str()),
            "round_trip": self.times().map(|[fastest, median, slowest]| json!({
                "reads": self.reads.len(),
                "min_us": micros(fastest),
                "median_us": micros(median),
                "max_us": micros(slowest),
            })),
            "limits": info.map(|info| json!({
                "value_max_bytes": info.limits.value_max_bytes,
                "request_max_bytes": info.limits.request_max_bytes,
                "txn_max_ops": info.limits.txn_max_ops,
                "session_ttl_min_s": seconds(info.limits.session_ttl_min),
                "session_ttl_max_s": seconds(info.limits.session_ttl_max),
            })),
            "guarantees": info.map(|info| json!({
                "watch_every_change": info.guarantees.watch_every_change,
                "watch_resumes": info.guarantees.watch_resumes,
                "check_survives_recreate": info.guarantees.check_survives_recreate,
                "linearizable_reads": info.guarantees.linearizable_reads,
                "durability": format!("{:?}", info.guarantees.durability).to_lowercase(),
                "can_lose_acknowledged_writes": info.guarantees.can_lose_acknowledged_writes,
            })),
            "warnings": info.map_or(&[][..], |info| &info.warnings),
            "problems": self.problems.iter()
                .map(|(what, next)| json!({ "what": what, "next": next }))
                .collect::<Vec<_>>(),
        })
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        let mut row = |name: &str, text: String| rows.push(vec![name.to_owned(), printable_text(&text)]);
        row("url", format!("{} (from {})", self.url, self.from));
        if let Some(info) = &self.info {
            row("backend", info.name.to_owned());
            row(
                "server",
                if info.server.is_empty() { "does not say".to_owned() } else { info.server.clone() },
            );
        }
        if let Some([fastest, median, slowest]) = self.times() {
            let ms = |time: Duration| time.as_secs_f64() * 1e3;
            row(
                "round trip",
                format!(
                    "{:.2} ms, the median of {} reads ({:.2} to {:.2})",
                    ms(median),
                    self.reads.len(),
                    ms(fastest),
                    ms(slowest)
                ),
            );
        }
        if let Some(info) = &self.info {
            let (limits, promises) = (&info.limits, &info.guarantees);
            row("limits", format!("values to {} bytes", limits.value_max_bytes));
            row(
                "",
                format!("requests to {} bytes, {} operations", limits.request_max_bytes, limits.txn_max_ops),
            );
            row("", format!("sessions from {:?} to {:?}", limits.session_ttl_min, limits.session_ttl_max));
            let yes = |holds: bool, yes: &str, no: &str| if holds { yes } else { no }.to_owned();
            row("guarantees", format!("an acknowledged write survives: {}", survives(info)));
            row(
                "",
                yes(promises.linearizable_reads, "reads see every acknowledged write", "plain reads may lag"),
            );
            row(
                "",
                yes(
                    promises.watch_every_change,
                    "a watch tells every change",
                    "a watch may tell only the latest of several changes",
                ),
            );
            row(
                "",
                yes(
                    promises.watch_resumes,
                    "a watch resumes from history, while it lasts",
                    "a watch that was cut starts from a snapshot",
                ),
            );
            row(
                "",
                yes(
                    promises.check_survives_recreate,
                    "a version is never used twice",
                    "versions restart when a key is deleted and created again",
                ),
            );
            for warning in &info.warnings {
                row("warning", warning.clone());
            }
        }
        for (what, next) in &self.problems {
            row("wrong", what.clone());
            if let Some(next) = next {
                row("next", (*next).to_owned());
            }
        }
        row("verdict", self.verdict());
        rows
    }

    fn verdict(&self) -> String {
        let warnings = self.info.as_ref().map_or(0, |info| info.warnings.len());
        match (self.problems.is_empty(), warnings) {
            (false, _) => "something is wrong".to_owned(),
            (true, 0) => "ok".to_owned(),
            (true, 1) => "ok, with 1 warning".to_owned(),
            (true, _) => format!("ok, with {warnings} warnings"),
        }
    }
}

fn survives(info: &BackendInfo) -> String {
    let durable = match info.guarantees.durability {
        coord::Durability::Process => "nothing, it is in memory",
        coord::Durability::Restart => "a restart of the store, not the loss of its host",
        coord::Durability::Quorum => "the loss of any minority of the servers",
        _ => "see the backend's page",
    };
    let loss = if info.guarantees.can_lose_acknowledged_writes {
        "; it can be lost in a failover, so compare fencing tokens"
    } else {
        ""
    };
    format!("{durable}{loss}")
}
