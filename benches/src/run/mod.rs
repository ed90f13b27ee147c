//! `run`: the same work on several stores, repetition by repetition, and what came of it on disk.

mod args;
mod charts;
mod child;
mod costs;
mod record;
mod relay;
mod report;
mod store;
mod work;

use std::path::{Path, PathBuf};

use crate::{Result, facts::Facts, note, suites};

pub(crate) use args::{Plan, Run, SuiteName};
pub(crate) use child::{ChildArgs, Running, Task, child};
pub(crate) use record::{Chart, Part, Pen};
pub(crate) use relay::Relay;
pub(crate) use store::{NAMESPACE, Store};
pub(crate) use work::Work;

use record::{Origin, Results};

/// Measures what was asked for, and writes it down; false if it ended early.
pub(crate) async fn run(args: &Run) -> Result<bool> {
    let (plan, suites) = (args.plan(), args.suites());
    let mut stores = Vec::new();
    for backend in args.backends() {
        note(&format!("{backend}: opening"));
        stores.push(Store::start(&backend, args.data).await?);
    }
    let outcome = on_stores(args, plan, &suites, &stores).await;
    for store in stores {
        let name = store.name().to_owned();
        // What was started goes as a whole; what belongs to others is left as it was.
        for ended in [store.clear().await, store.stop().await] {
            if let Err(error) = ended {
                note(&format!("{name}: cleaning up: {error}"));
            }
        }
    }
    outcome
}

async fn on_stores(args: &Run, plan: Plan, suites: &[SuiteName], stores: &[Store]) -> Result<bool> {
    let mut found = begin(args, plan, stores);
    let earlier = if args.all { None } else { read(&args.out)? };
    if let Some(earlier) = &earlier {
        earlier.may_take(&found).map_err(|why| {
            format!("{} holds results that these may not be mixed with: {why}. Give another --out, or measure --all", args.out.display())
        })?;
    }
    let refused = refusals(suites, stores);
    if !refused.is_empty() && !args.suites.is_empty() {
        return Err(refused.into_iter().map(|(.., why)| why).collect::<Vec<_>>().join("\n").into());
    }
    found.left_out.extend(refused.iter().map(|(.., why)| why.clone()));
    let ended = measure(plan, suites, stores, &refused, &mut found).await;
    if let Err(why) = &ended {
        found.left_out.push(format!("everything after this: {why}"));
        note(&format!("the run ends here: {why}"));
    }
    let results = match earlier {
        Some(mut earlier) => {
            earlier.take(found);
            earlier
        }
        None => found,
    };
    write(&results, &args.out)?;
    note(&format!("written to {}", args.out.display()));
    Ok(ended.is_ok())
}

/// Which suite cannot run on which store, and why.
fn refusals<'a>(suites: &[SuiteName], stores: &'a [Store]) -> Vec<(SuiteName, &'a str, String)> {
    let mut refused = Vec::new();
    for suite in suites {
        for store in stores {
            if let Some(why) = suites::refuses(*suite, store) {
                refused.push((*suite, store.name(), format!("{} on {}: {why}", suite.name(), store.name())));
            }
        }
    }
    refused
}

/// Every repetition of a suite visits all stores before the next: what disturbs the machine disturbs all of them.
async fn measure(
    plan: Plan,
    suites: &[SuiteName],
    stores: &[Store],
    refused: &[(SuiteName, &str, String)],
    found: &mut Results,
) -> Result<()> {
    for store in stores {
        suites::warm_up(plan, store).await?;
    }
    for suite in suites {
        let repetitions = if suite.repeats() { plan.repetitions } else { 1 };
        for repetition in 1..=repetitions {
            let plan = plan.of(repetition);
            for store in stores {
                if refused.iter().any(|(refused, name, _)| refused == suite && *name == store.name()) {
                    continue;
                }
                note(&format!("{} on {}: {repetition} of {repetitions}", suite.name(), store.name()));
                let mut pen = Pen {
                    rows: &mut found.rows,
                    left_out: &mut found.left_out,
                    suite: *suite,
                    backend: store.name().to_owned(),
                };
                let told = tokio::select! {
                    done = suites::repetition(*suite, store, plan, &mut pen) => done,
                    died = store.dies() => died,
                    _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
                };
                told.map_err(|error| format!("{} on {}: {error}", suite.name(), store.name()))?;
                store.clear().await?;
            }
        }
    }
    Ok(())
}

/// Results with nothing in them yet.
fn begin(args: &Run, plan: Plan, stores: &[Store]) -> Results {
    let facts = Facts::gather(args.data, plan.repetitions);
    let words = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    Results {
        date: facts.date,
        load_average: facts.load_average,
        origin: Origin {
            commit: facts.commit,
            build: facts.build.to_owned(),
            compiler: facts.compiler,
            machine: facts.machine,
            system: facts.system,
            drivers: facts.drivers,
            data: facts.data.to_owned(),
        },
        stores: stores.iter().map(|store| store.facts.clone()).collect(),
        commands: vec![format!("cargo run --release -p coord-benches -- {words}")],
        rows: Vec::new(),
        left_out: Vec::new(),
    }
}

fn file(out: &Path) -> PathBuf {
    out.join("results.json")
}

/// What an earlier run left, if there was one.
fn read(out: &Path) -> Result<Option<Results>> {
    match std::fs::read(file(out)) {
        Ok(text) => {
            let results = serde_json::from_slice(&text);
            Ok(Some(results.map_err(|error| format!("{}: {error}", file(out).display()))?))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{}: {error}", file(out).display()).into()),
    }
}

fn write(results: &Results, out: &Path) -> Result<()> {
    std::fs::create_dir_all(out)?;
    std::fs::write(file(out), serde_json::to_string_pretty(results)? + "\n")?;
    if let Some(sheet) = costs::sheet(&results.rows) {
        std::fs::write(out.join("costs.md"), sheet)?;
    }
    let drawn = charts::draw(results, &out.join("charts"))?;
    Ok(std::fs::write(out.join("report.md"), report::markdown(results, &drawn))?)
}
