//! The processes of one side of a comparison, which take their turn together.

use std::{collections::BTreeMap, process::Stdio, time::Instant};

use coord_testbed::Proxy;
use tokio::{
    io::AsyncWriteExt,
    process::{ChildStdin, Command},
};

use crate::{
    Result,
    counters::{Counters, Reader, growth},
    process::{PATIENCE, Process},
};

/// How many processes start at once.
const TOGETHER: usize = 8;

/// What counts the server's work.
pub(crate) enum Gauge {
    /// The server itself.
    Server(Reader),
    /// A proxy before it, which leaves pings out.
    Proxy(Proxy),
}

impl Gauge {
    pub(crate) async fn read(&self) -> Result<Counters> {
        match self {
            Gauge::Server(reader) => reader.read().await,
            Gauge::Proxy(proxy) => Ok([("requests", proxy.requests() as f64)].into()),
        }
    }
}

/// What one turn gave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turn {
    figures: BTreeMap<String, f64>,
    /// What the server did between BEGIN and END.
    work: Counters,
    /// Between the readings of the server's counters.
    seconds: f64,
}

impl Turn {
    pub(crate) fn of(figures: impl IntoIterator<Item = (&'static str, f64)>) -> Turn {
        let figures = figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Turn { figures, ..Turn::default() }
    }

    pub(crate) fn figure(&self, name: &str) -> f64 {
        self.figures.get(name).copied().unwrap_or(f64::NAN)
    }

    /// So many of what the server counts under this name.
    pub(crate) fn work(&self, name: &str) -> f64 {
        self.work.get(name).copied().unwrap_or(f64::NAN)
    }

    /// The same for each acquisition.
    pub(crate) fn work_an_acquisition(&self, name: &str) -> f64 {
        self.work(name) / self.seconds / self.figure("acquisitions_s")
    }
}

/// One process.
struct Side {
    process: Process,
    input: ChildStdin,
}

impl Side {
    fn start(mut command: Command) -> Result<Side> {
        command.stdin(Stdio::piped());
        let mut process = Process::start(command)?;
        let input = process.child.stdin.take().ok_or("the process has no input")?;
        Ok(Side { process, input })
    }

    async fn expect(&mut self, word: &str) -> Result<()> {
        let line = self.process.line().await?;
        if line == word { Ok(()) } else { Err(format!("a process said {line:?} and not {word}").into()) }
    }
}

/// Processes of one client. Dropping them kills them.
pub(crate) struct Party {
    sides: Vec<Side>,
}

impl Party {
    /// Starts them; all are connected when this returns.
    pub(crate) async fn start(commands: Vec<Command>) -> Result<Party> {
        let mut sides: Vec<Side> = Vec::with_capacity(commands.len());
        let mut commands = commands.into_iter();
        loop {
            let begun = sides.len();
            for command in commands.by_ref().take(TOGETHER) {
                sides.push(Side::start(command)?);
            }
            if sides.len() == begun {
                return Ok(Party { sides });
            }
            for side in &mut sides[begun..] {
                side.expect("READY").await?;
            }
        }
    }

    /// The first of them.
    pub(crate) fn pid(&self) -> Result<u32> {
        self.sides
            .first()
            .and_then(|side| side.process.child.id())
            .ok_or_else(|| "the process is gone".into())
    }

    /// One repetition by all of them at the same time.
    pub(crate) async fn turn(&mut self, gauge: &Gauge, line: &str) -> Result<Turn> {
        for side in &mut self.sides {
            side.input.write_all(format!("{line}\n").as_bytes()).await?;
        }
        for side in &mut self.sides {
            side.expect("BEGIN").await?;
        }
        let (before, began) = (gauge.read().await?, Instant::now());
        for side in &mut self.sides {
            side.expect("END").await?;
        }
        let (seconds, after) = (began.elapsed().as_secs_f64(), gauge.read().await?);
        let mut figures = BTreeMap::new();
        for side in &mut self.sides {
            add(&mut figures, &side.process.line().await?)?;
        }
        Ok(Turn { figures, work: growth(&before, &after, 1.0), seconds })
    }

    /// Ends them, by the end of their input.
    pub(crate) async fn stop(self) -> Result<()> {
        let mut processes = Vec::new();
        for Side { process, input } in self.sides {
            drop(input);
            processes.push(process);
        }
        for mut process in processes {
            if tokio::time::timeout(PATIENCE, process.child.wait()).await.is_err() {
                process.child.kill().await?;
            }
        }
        Ok(())
    }
}

/// Adds what one process tells, `NAME=NUMBER NAME=NUMBER`, to what the others told.
fn add(figures: &mut BTreeMap<String, f64>, line: &str) -> Result<()> {
    for word in line.split_whitespace() {
        let told = word.split_once('=').and_then(|(name, value)| Some((name, value.parse::<f64>().ok()?)));
        let Some((name, value)) = told else { return Err(format!("a process said {line:?}").into()) };
        let known = figures.entry(name.to_owned());
        known
            .and_modify(|known| {
                *known = match name {
                    "fewest" => known.min(value),
                    name if name.ends_with("_s") || name == "overlaps" => *known + value,
                    _ => known.max(value),
                }
            })
            .or_insert(value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_processes_are_added_and_the_worst_of_the_rest_counts() {
        let mut figures = BTreeMap::new();
        add(&mut figures, "acquisitions_s=10 fewest=3 most=4 cycle_p99_ms=NaN").expect("figures");
        add(&mut figures, "acquisitions_s=20.5 fewest=2 most=9 cycle_p99_ms=7").expect("figures");
        assert_eq!(figures["acquisitions_s"], 30.5);
        assert_eq!((figures["fewest"], figures["most"], figures["cycle_p99_ms"]), (2.0, 9.0, 7.0));
        assert!(add(&mut figures, "Exception in thread main").is_err());
    }
}
