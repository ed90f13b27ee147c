//! What was found, row by row.

use serde::{Deserialize, Serialize};

use crate::{
    Result, note,
    run::{args::SuiteName, store::StoreFacts},
    stats::Sample,
};

/// One table of a suite, and what is drawn of it.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// What was done and how it was measured, in Markdown.
    pub(crate) text: &'static str,
    /// What varies from row to row beside store and side.
    pub(crate) at: &'static str,
    pub(crate) charts: &'static [Chart],
}

/// One figure as a drawing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Chart {
    /// Over what varies, both axes logarithmic.
    Lines(&'static str),
    /// One bar a row.
    Bars(&'static str),
}

/// Repetitions of one measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) suite: SuiteName,
    pub(crate) part: String,
    pub(crate) backend: String,
    pub(crate) side: String,
    pub(crate) at: String,
    /// What varies, as a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) x: Option<f64>,
    pub(crate) figures: Vec<Figure>,
}

/// One figure, with its unit in its name.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) sample: Sample,
}

impl Row {
    pub(crate) fn figure(&self, name: &str) -> Option<&Sample> {
        self.figures.iter().find(|figure| figure.name == name).map(|figure| &figure.sample)
    }
}

/// What varies: a number, or a word.
#[derive(Clone, Debug)]
pub(crate) enum At {
    Number(usize),
    Word(&'static str),
}

impl From<usize> for At {
    fn from(number: usize) -> At {
        At::Number(number)
    }
}

impl From<&'static str> for At {
    fn from(word: &'static str) -> At {
        At::Word(word)
    }
}

/// Writes down what one suite finds on one store.
#[derive(Debug)]
pub(crate) struct Pen<'a> {
    pub(crate) rows: &'a mut Vec<Row>,
    pub(crate) left_out: &'a mut Vec<String>,
    pub(crate) suite: SuiteName,
    pub(crate) backend: String,
}

/// What the line on something that was not measured has in it.
fn about(suite: SuiteName, backend: &str) -> String {
    format!("{} on {backend}: ", suite.name())
}

impl Pen<'_> {
    /// Notes what could not be measured, and why.
    pub(crate) fn leave_out(&mut self, what: &str, why: &str) {
        let line = format!("{}{what}: {why}", about(self.suite, &self.backend));
        note(&line);
        if !self.left_out.contains(&line) {
            self.left_out.push(line);
        }
    }

    /// Adds one repetition to the row of this part, side and size.
    pub(crate) fn put(&mut self, part: &str, side: &str, at: impl Into<At>, figures: &[(&str, f64)]) {
        let (at, x) = match at.into() {
            At::Number(number) => (number.to_string(), Some(number as f64)),
            At::Word(word) => (word.to_owned(), None),
        };
        let ours = |row: &Row| {
            row.suite == self.suite
                && row.backend == self.backend
                && row.part == part
                && row.side == side
                && row.at == at
        };
        let index = self.rows.iter().position(ours).unwrap_or_else(|| {
            self.rows.push(Row {
                suite: self.suite,
                part: part.to_owned(),
                backend: self.backend.clone(),
                side: side.to_owned(),
                at,
                x,
                figures: Vec::new(),
            });
            self.rows.len() - 1
        });
        let known = &mut self.rows[index].figures;
        for (name, value) in figures {
            let earlier = known
                .iter()
                .position(|figure| figure.name == *name)
                .map(|at| known[at].sample.values.clone());
            let mut values = earlier.unwrap_or_default();
            values.push(*value);
            let sample = Sample::new(values);
            match known.iter_mut().find(|figure| figure.name == *name) {
                Some(figure) => figure.sample = sample,
                None => known.push(Figure { name: (*name).to_owned(), sample }),
            }
        }
    }
}

/// On what the figures were taken; results from elsewhere are not put beside them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    pub(crate) commit: String,
    pub(crate) build: String,
    pub(crate) compiler: String,
    pub(crate) machine: String,
    pub(crate) system: String,
    pub(crate) drivers: Vec<String>,
    pub(crate) data: String,
}

/// All results in one directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) date: String,
    pub(crate) load_average: String,
    pub(crate) origin: Origin,
    pub(crate) stores: Vec<StoreFacts>,
    /// The command that makes them.
    pub(crate) commands: Vec<String>,
    pub(crate) rows: Vec<Row>,
    /// What was not measured, and why.
    pub(crate) left_out: Vec<String>,
}

impl Results {
    /// Fails if `later` was not taken on the same build, machine, versions and durability.
    pub(crate) fn may_take(&self, later: &Results) -> Result<()> {
        let (old, new) = (&self.origin, &later.origin);
        let facts = [
            ("commit", &old.commit, &new.commit),
            ("build", &old.build, &new.build),
            ("compiler", &old.compiler, &new.compiler),
            ("machine", &old.machine, &new.machine),
            ("system", &old.system, &new.system),
            ("data", &old.data, &new.data),
        ];
        for (what, old, new) in facts {
            if old != new {
                return Err(format!("other {what}: {old:?}, now {new:?}").into());
            }
        }
        if old.drivers != new.drivers {
            return Err(
                format!("other drivers: {}, now {}", old.drivers.join(", "), new.drivers.join(", ")).into()
            );
        }
        for new in &later.stores {
            if let Some(old) = self.stores.iter().find(|old| old.name == new.name && *old != new) {
                let shown = |facts: &StoreFacts| format!("{} ({})", facts.version, facts.durability);
                return Err(format!("another {}: {}, now {}", new.name, shown(old), shown(new)).into());
            }
        }
        Ok(())
    }

    /// Takes in what a later run found, in place of what it found again.
    pub(crate) fn take(&mut self, later: Results) {
        let again =
            |row: &Row| later.rows.iter().any(|new| new.suite == row.suite && new.backend == row.backend);
        self.rows.retain(|row| !again(row));
        // What was left out of them may have been measured now.
        let redone =
            |text: &String| later.rows.iter().any(|new| text.contains(&about(new.suite, &new.backend)));
        self.left_out.retain(|text| !redone(text));
        self.rows.extend(later.rows);
        for store in later.stores {
            if !self.stores.contains(&store) {
                self.stores.push(store);
            }
        }
        for command in later.commands {
            if !self.commands.contains(&command) {
                self.commands.push(command);
            }
        }
        for text in later.left_out {
            if !self.left_out.contains(&text) {
                self.left_out.push(text);
            }
        }
        self.date = later.date;
        self.load_average = later.load_average;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(suite: SuiteName, backend: &str) -> Results {
        let text = |text: &str| text.to_owned();
        let origin = Origin {
            commit: text("c1"),
            build: text("release"),
            compiler: text("rustc 1"),
            machine: text("a machine"),
            system: text("a system"),
            drivers: vec![text("driver 1")],
            data: text("disk"),
        };
        let store = StoreFacts {
            name: text(backend),
            version: text("store 1"),
            durability: text("fsync on"),
            value_max_bytes: 1,
        };
        let mut results = Results {
            date: text("today"),
            load_average: text("0"),
            origin,
            stores: vec![store],
            commands: Vec::new(),
            rows: Vec::new(),
            left_out: Vec::new(),
        };
        pen(&mut results, suite, backend).put("part", "coord", 1, &[("ops/s", 1.0)]);
        results
    }

    fn pen<'a>(results: &'a mut Results, suite: SuiteName, backend: &str) -> Pen<'a> {
        let (rows, left_out) = (&mut results.rows, &mut results.left_out);
        Pen { rows, left_out, suite, backend: backend.to_owned() }
    }

    #[test]
    fn results_are_never_put_beside_those_of_something_else() {
        let first = results(SuiteName::Write, "a");
        assert!(first.may_take(&results(SuiteName::Lock, "a")).is_ok());
        assert!(first.may_take(&results(SuiteName::Write, "b")).is_ok(), "another store is no mixture");
        type Change = fn(&mut Results);
        let changes: [(&str, Change); 9] = [
            ("commit", |other| other.origin.commit += "!"),
            ("build", |other| other.origin.build += "!"),
            ("compiler", |other| other.origin.compiler += "!"),
            ("machine", |other| other.origin.machine += "!"),
            ("system", |other| other.origin.system += "!"),
            ("data", |other| other.origin.data += "!"),
            ("drivers", |other| other.origin.drivers[0] += "!"),
            ("another a: store 1 (", |other| other.stores[0].version += "!"),
            ("another a: store 1 (fsync on)", |other| other.stores[0].durability += "!"),
        ];
        for (what, change) in changes {
            let mut other = results(SuiteName::Lock, "a");
            change(&mut other);
            let why = first.may_take(&other).expect_err(what).to_string();
            assert!(why.contains(what), "{what}: {why}");
        }
    }

    #[test]
    fn what_was_left_out_stays_until_it_is_measured() {
        let mut first = results(SuiteName::Watch, "a");
        pen(&mut first, SuiteName::Watch, "a").leave_out("10 handles", "too many");
        pen(&mut first, SuiteName::Watch, "a").leave_out("10 handles", "too many");
        assert_eq!(first.left_out, ["watch on a: 10 handles: too many"], "once");
        first.take(results(SuiteName::Watch, "b"));
        first.take(results(SuiteName::Write, "a"));
        assert_eq!(first.left_out.len(), 1);
        first.take(results(SuiteName::Watch, "a"));
        assert!(first.left_out.is_empty());
        assert_eq!(first.rows.len(), 3);
    }
}
