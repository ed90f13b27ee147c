//! One line for each comparison, as Markdown for people and JSON for programs.

use std::{fmt::Write as _, path::Path};

use serde::Serialize;

use crate::{
    Result,
    args::Data,
    facts::Facts,
    peers::{packages::Peer, party::Turn},
    report::{self, Bound, shown},
    stats::Sample,
};

/// All that a run found.
#[derive(Debug, Serialize)]
pub(crate) struct Table {
    pub(crate) facts: Facts,
    rows: Vec<Row>,
    /// What was not measured, and why.
    not_measured: Vec<NotMeasured>,
}

/// A measure of ours, and the same of another client.
#[derive(Debug, Serialize)]
struct Row {
    measure: String,
    ours: Sample,
    peer: Option<Other>,
    /// Of the ratio; where there is no peer, of ours.
    reach: Option<Bound>,
    met: Option<bool>,
}

#[derive(Debug, Serialize)]
struct Other {
    name: String,
    found: Sample,
    /// Ours divided by this, pair by pair.
    ratio: Sample,
}

#[derive(Debug, Serialize)]
struct NotMeasured {
    measure: String,
    why: String,
    /// Nothing is wrong but that a package is missing.
    missing: bool,
}

/// What the sides of one comparison gave, turn by turn.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) ours: Vec<Turn>,
    pub(crate) others: Vec<(Peer, String, Vec<Turn>)>,
}

impl Table {
    pub(crate) fn new(facts: Facts) -> Table {
        Table { facts, rows: Vec::new(), not_measured: Vec::new() }
    }

    /// A line for each peer. `reach` bounds the ratio.
    pub(crate) fn compare(
        &mut self,
        measure: &str,
        found: &Found,
        figure: impl Fn(&Turn) -> f64,
        reach: impl Fn(Peer) -> Option<Bound>,
    ) {
        let ours: Vec<f64> = found.ours.iter().map(&figure).collect();
        for (peer, name, turns) in &found.others {
            let theirs: Vec<f64> = turns.iter().map(&figure).collect();
            let ratio = Sample::new(ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect());
            let reach = reach(*peer);
            self.rows.push(Row {
                measure: measure.to_owned(),
                ours: Sample::new(ours.clone()),
                met: reach.map(|reach| reach.holds(&ratio)),
                peer: Some(Other { name: name.clone(), found: Sample::new(theirs), ratio }),
                reach,
            });
        }
    }

    /// A line that has no peer. `reach` bounds our figure.
    pub(crate) fn alone(&mut self, measure: &str, figures: Vec<f64>, reach: Option<Bound>) {
        let (measure, ours) = (measure.to_owned(), Sample::new(figures));
        let met = reach.map(|reach| reach.holds(&ours));
        self.rows.push(Row { measure, ours, peer: None, reach, met });
    }

    /// A package that this needs is missing.
    pub(crate) fn missing(&mut self, measure: &str, why: String) {
        self.not_measured.push(NotMeasured { measure: measure.to_owned(), why, missing: true });
    }

    /// Something went wrong.
    pub(crate) fn failed(&mut self, measure: &str, why: String) {
        self.not_measured.push(NotMeasured { measure: measure.to_owned(), why, missing: false });
    }

    /// Whether all was measured, but for what needs a missing package if those may be left out.
    pub(crate) fn is_whole(&self, without_missing: bool) -> bool {
        self.not_measured.iter().all(|left| left.missing && without_missing)
    }

    pub(crate) fn write(&self, dir: &Path, data: Data) -> Result<()> {
        std::fs::create_dir_all(dir)?;
        let file = |extension: &str| dir.join(format!("peers-{}.{extension}", data.name()));
        std::fs::write(file("json"), serde_json::to_string_pretty(self)? + "\n")?;
        Ok(std::fs::write(file("md"), self.markdown())?)
    }

    pub(crate) fn markdown(&self) -> String {
        let mut out = String::from("# Against other clients\n\n") + &report::facts(&self.facts);
        out += "\nRatio: ours divided by the peer's, pair by pair. Reach: what the ratio shall be; where there is no \
                peer, what ours shall be.\n\n\
                | measure | ours | peer | ratio | reach | met |\n|---|---|---|---|---|---|\n";
        for row in &self.rows {
            let peer = row.peer.as_ref();
            let theirs =
                peer.map_or("–".to_owned(), |peer| format!("{}: {}", peer.name, shown(&peer.found)));
            let ratio = peer.map_or("–".to_owned(), |peer| shown(&peer.ratio));
            let reach = row.reach.map_or("–".to_owned(), |reach| reach.to_string());
            let met = match row.met {
                Some(true) => "yes",
                Some(false) => "**no**",
                None => "–",
            };
            let (measure, ours) = (&row.measure, shown(&row.ours));
            // Writing to a string cannot fail.
            let _ = writeln!(out, "| {measure} | {ours} | {theirs} | {ratio} | {reach} | {met} |");
        }
        if !self.not_measured.is_empty() {
            out += "\n## Not measured\n\n";
            for left in &self.not_measured {
                let _ = writeln!(out, "- {}: {}", left.measure, left.why);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(values: [f64; 3]) -> Vec<Turn> {
        values.into_iter().map(|value| Turn::of([("rate", value)])).collect()
    }

    #[test]
    fn ratios_are_taken_pair_by_pair() {
        let mut table = Table::new(Facts::gather(Data::Memory, 3));
        let theirs = (Peer::Curator, "Curator".to_owned(), turns([10.0, 40.0, 20.0]));
        let found = Found { ours: turns([20.0, 20.0, 30.0]), others: vec![theirs] };
        table.compare("cycles/s", &found, |turn| turn.figure("rate"), |_| Some(Bound::AtLeast(1.6)));
        let line = "| cycles/s | 20.0 [20.0, 30.0] | Curator: 20.0 [10.0, 40.0] | 1.50 [0.500, 2.00] | ≥ 1.6 | **no** |";
        assert!(table.markdown().contains(line), "{}", table.markdown());
    }

    #[test]
    fn only_what_is_missing_may_be_left_out() {
        let mut table = Table::new(Facts::gather(Data::Memory, 1));
        assert!(table.is_whole(false));
        table.missing("cycles/s", "pip install redis".to_owned());
        assert!(table.is_whole(true) && !table.is_whole(false));
        table.failed("cycles/s", "a process has ended".to_owned());
        assert!(!table.is_whole(true));
    }
}
