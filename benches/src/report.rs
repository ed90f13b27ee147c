//! What was found, as JSON for programs and Markdown for people.

use std::{
    fmt::{self, Write as _},
    path::Path,
};

use serde::Serialize;

use crate::{Result, args::Data, counters::Counters, facts::Facts, stats::Sample};

/// All that a run found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) facts: Facts,
    pub(crate) claims: Vec<Claim>,
    pub(crate) round_trips: Vec<RoundTrips>,
    pub(crate) throughput: Vec<Throughput>,
    pub(crate) contended: Vec<Contended>,
    pub(crate) waiters: Vec<Waiting>,
    /// What was not measured, and why.
    pub(crate) left_out: Vec<String>,
}

/// A promise and what was found.
#[derive(Debug, Serialize)]
pub(crate) struct Claim {
    pub(crate) what: String,
    pub(crate) bound: Bound,
    pub(crate) found: Sample,
    /// A count without noise: a run that breaks it fails.
    pub(crate) exact: bool,
    pub(crate) met: bool,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    /// Whether the median is within it.
    pub(crate) fn holds(self, found: &Sample) -> bool {
        match self {
            Bound::AtLeast(least) => found.median >= least,
            Bound::AtMost(most) => found.median <= most,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::AtLeast(least) => write!(f, "≥ {least}"),
            Bound::AtMost(most) => write!(f, "≤ {most}"),
        }
    }
}

impl Claim {
    pub(crate) fn new(what: impl Into<String>, bound: Bound, found: Sample, exact: bool) -> Claim {
        let met = bound.holds(&found);
        Claim { what: what.into(), bound, found, exact, met }
    }
}

/// One way to take or give back an uncontended lock.
#[derive(Debug, Serialize)]
pub(crate) struct RoundTrips {
    pub(crate) store: &'static str,
    pub(crate) step: &'static str,
    /// Whether the process has a mirror of the directory.
    pub(crate) mirror: bool,
    /// Time over a slow link, in round trips of that link; whole ones are waited for one after another.
    pub(crate) link_round_trips: Sample,
    /// Requests that the proxy counted.
    pub(crate) requests: Sample,
}

/// One side of a comparison of single operations.
#[derive(Debug, Serialize)]
pub(crate) struct Throughput {
    pub(crate) store: &'static str,
    pub(crate) operation: &'static str,
    pub(crate) tasks: usize,
    pub(crate) side: &'static str,
    pub(crate) ops_per_s: Sample,
    pub(crate) p50_ms: Sample,
    pub(crate) p99_ms: Sample,
    /// Processor time of the client for one operation.
    pub(crate) cpu_us: Sample,
    /// Requests of ours for one operation, counted by a proxy.
    pub(crate) requests: Option<f64>,
    /// Our operations a second divided by this side's, pair by pair.
    pub(crate) ours_over_this: Option<Sample>,
}

/// What the server does for one acquisition among several contenders.
#[derive(Debug, Serialize)]
pub(crate) struct Contended {
    pub(crate) store: &'static str,
    pub(crate) contenders: usize,
    pub(crate) acquisitions: u64,
    /// Of the contender with the fewest and with the most.
    pub(crate) fewest: u64,
    pub(crate) most: u64,
    /// Times that two held it at once.
    pub(crate) overlaps: u64,
    /// Server work for one acquisition.
    pub(crate) work: Counters,
}

/// Memory of waiters.
#[derive(Debug, Serialize)]
pub(crate) struct Waiting {
    pub(crate) store: &'static str,
    pub(crate) waiters: usize,
    pub(crate) own_sessions: bool,
    /// Resident memory of the process with the lock held and nobody waiting, in megabytes of 10^6 bytes.
    pub(crate) before_mb: f64,
    /// What the waiters added.
    pub(crate) growth_mb: f64,
}

impl Report {
    pub(crate) fn new(facts: Facts) -> Report {
        Report {
            facts,
            claims: Vec::new(),
            round_trips: Vec::new(),
            throughput: Vec::new(),
            contended: Vec::new(),
            waiters: Vec::new(),
            left_out: Vec::new(),
        }
    }

    /// Exact promises that are broken.
    pub(crate) fn broken(&self) -> impl Iterator<Item = &Claim> {
        self.claims.iter().filter(|claim| claim.exact && !claim.met)
    }

    pub(crate) fn write(&self, dir: &Path, data: Data) -> Result<()> {
        std::fs::create_dir_all(dir)?;
        let file = |extension: &str| dir.join(format!("speed-{}.{extension}", data.name()));
        std::fs::write(file("json"), serde_json::to_string_pretty(self)? + "\n")?;
        Ok(std::fs::write(file("md"), self.markdown())?)
    }

    /// The whole report as Markdown.
    pub(crate) fn markdown(&self) -> String {
        let mut out = String::from("# Speed\n\n");
        out += &facts(&self.facts);
        self.claims_to(&mut out);
        self.round_trips_to(&mut out);
        self.throughput_to(&mut out);
        self.contended_to(&mut out);
        self.waiters_to(&mut out);
        if !self.left_out.is_empty() {
            out += "\n## Not measured\n\n";
            self.left_out.iter().for_each(|text| out += &format!("- {text}\n"));
        }
        out
    }

    fn claims_to(&self, out: &mut String) {
        if self.claims.is_empty() {
            return;
        }
        *out += "\n## Promises\n\n| promise | bound | found | |\n|---|---|---|---|\n";
        for claim in &self.claims {
            let bound = claim.bound;
            let met = if claim.met { "met" } else { "**missed**" };
            let _ = writeln!(out, "| {} | {bound} | {} | {met} |", claim.what, shown(&claim.found));
        }
    }

    fn round_trips_to(&self, out: &mut String) {
        if self.round_trips.is_empty() {
            return;
        }
        *out += "\n## Uncontended lock\n\nRound trips: the time of the call over a link that delays both ways, \
                 divided by the link's round trip; requests that are sent together share one. \
                 Requests: counted by the proxy on that link.\n\n\
                 | store | step | mirror | round trips | requests |\n|---|---|---|---|---|\n";
        for row in &self.round_trips {
            let mirror = if row.mirror { "yes" } else { "no" };
            let (trips, requests) = (shown(&row.link_round_trips), shown(&row.requests));
            let _ = writeln!(out, "| {} | {} | {mirror} | {trips} | {requests} |", row.store, row.step);
        }
    }

    fn throughput_to(&self, out: &mut String) {
        if self.throughput.is_empty() {
            return;
        }
        *out += "\n## get and put\n\nValues of 100 bytes, one connection a side. Client CPU: processor time of the \
                 client's process for one operation.\n\n\
                 | store | operation | tasks | side | ops/s | p50 ms | p99 ms | client CPU µs | coord / this |\n\
                 |---|---|---|---|---|---|---|---|---|\n";
        for row in &self.throughput {
            let ratio = row.ours_over_this.as_ref().map(shown).unwrap_or_default();
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {ratio} |",
                row.store,
                row.operation,
                row.tasks,
                row.side,
                shown(&row.ops_per_s),
                number(row.p50_ms.median),
                number(row.p99_ms.median),
                number(row.cpu_us.median),
            );
        }
    }

    fn contended_to(&self, out: &mut String) {
        if self.contended.is_empty() {
            return;
        }
        *out += "\n## Contended lock\n\nAll contenders in one process, each with a session of its own, nothing done \
                 inside the lock, through a proxy that counts requests and leaves pings out.\n\n\
                 | store | contenders | acquisitions | fewest–most | overlaps | server work an acquisition |\n\
                 |---|---|---|---|---|---|\n";
        for row in &self.contended {
            let work: Vec<_> =
                row.work.iter().map(|(name, count)| format!("{} {name}", number(*count))).collect();
            let _ = writeln!(
                out,
                "| {} | {} | {} | {}–{} | {} | {} |",
                row.store,
                row.contenders,
                row.acquisitions,
                row.fewest,
                row.most,
                row.overlaps,
                work.join(", "),
            );
        }
    }

    fn waiters_to(&self, out: &mut String) {
        if self.waiters.is_empty() {
            return;
        }
        *out += "\n## Idle waiters on one lock in one process\n\n\
                 | store | waiters | sessions | resident before, MB | growth, MB |\n|---|---|---|---|---|\n";
        for row in &self.waiters {
            let sessions = if row.own_sessions { "one each" } else { "one for all" };
            let (before, growth) = (number(row.before_mb), number(row.growth_mb));
            let _ = writeln!(out, "| {} | {} | {sessions} | {before} | {growth} |", row.store, row.waiters);
        }
    }
}

/// The head of a report.
pub(crate) fn facts(facts: &Facts) -> String {
    let mut out = String::new();
    let rows = [
        ("date", facts.date.clone()),
        ("commit", facts.commit.clone()),
        ("build", format!("{}, {}", facts.build, facts.compiler)),
        ("machine", format!("{}; servers and clients share it", facts.machine)),
        ("system", facts.system.clone()),
        ("load average before", facts.load_average.clone()),
        ("servers", facts.servers.join("; ")),
        ("drivers", facts.drivers.join(", ")),
        ("repetitions", format!("{}, sides interleaved (A B A B)", facts.pairs)),
    ];
    for (name, value) in rows {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(out, "- {name}: {value}");
    }
    out + "\nFigures are medians, with the smallest and largest repetition in brackets.\n"
}

/// Median and spread.
pub(crate) fn shown(sample: &Sample) -> String {
    if sample.values.len() < 2 {
        return number(sample.median);
    }
    format!("{} [{}, {}]", number(sample.median), number(sample.min), number(sample.max))
}

/// With as many digits as mean something.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
