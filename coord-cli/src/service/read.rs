//! `list` and `watch`.

use coord::registry::{DiscoveryState, Found, Registry};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

use super::show;
use crate::{
    Failure, Format, code,
    exit::say,
    output::{Output, printable_text},
    watch::reader_gone,
};

/// How many services are counted at once.
const AT_ONCE: usize = 16;

pub(super) async fn services(registry: &Registry, out: &mut Output<'_>) -> Result<u8, Failure> {
    let names = registry.services().await?;
    if matches!(out.format(), Format::Auto | Format::Plain) {
        for name in names {
            out.line(&printable_text(&name))?;
        }
        return Ok(code::YES);
    }
    let counted: Vec<(String, Found)> = stream::iter(names)
        .map(async |name| registry.instances(&name).await.map(|found| (name, found)))
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    let available = |found: &Found| found.instances.iter().filter(|instance| instance.is_available()).count();
    let objects = counted.iter().map(|(name, found)| {
        json!({ "name": name, "instances": found.instances.len(), "available": available(found) })
    });
    match out.format() {
        Format::Json => out.json(&json!({ "services": objects.collect::<Vec<_>>() }))?,
        Format::Jsonl => {
            for object in objects {
                out.json(&object)?;
            }
        }
        _ => {
            let mut rows = vec![["NAME", "INSTANCES", "AVAILABLE"].map(str::to_owned).to_vec()];
            rows.extend(counted.iter().map(|(name, found)| {
                vec![printable_text(name), found.instances.len().to_string(), available(found).to_string()]
            }));
            out.table(&rows)?;
        }
    }
    Ok(code::YES)
}

pub(super) async fn instances(registry: &Registry, out: &mut Output<'_>, name: &str) -> Result<u8, Failure> {
    let found = registry.instances(name).await?;
    for problem in &found.problems {
        say(&format!("left out: {problem}"));
    }
    match out.format() {
        Format::Json => {
            out.json(&json!({ "service": name, "instances": show::instances(&found.instances) }))?;
        }
        Format::Jsonl => {
            for instance in found.instances.iter() {
                out.json(&show::instance(instance))?;
            }
        }
        Format::Table => {
            let mut rows = vec![show::HEAD.map(str::to_owned).to_vec()];
            rows.extend(found.instances.iter().map(show::row));
            out.table(&rows)?;
        }
        Format::Auto | Format::Plain => {
            for instance in found.instances.iter() {
                out.line(&show::line(instance))?;
            }
        }
    }
    Ok(if found.instances.is_empty() { code::NO } else { code::YES })
}

/// Writes events as they come, each flushed; ends when the reader goes away.
pub(super) async fn watch(registry: &Registry, out: &mut Output<'_>, name: &str) -> Result<u8, Failure> {
    let service = registry.discover(name)?;
    let (mut changes, mut states) = (service.changes(), service.states());
    let as_json = out.streaming_format() == Format::Jsonl;
    let unread = reader_gone()?;
    tokio::pin!(unread);
    // What every list is until something else is told.
    let mut told = DiscoveryState::Current;
    loop {
        tokio::select! {
            biased;
            () = &mut unread => break,
            event = changes.next() => match event {
                Some(event) if as_json => {
                    // One line whatever the format: `json` would indent.
                    out.line(&show::event_json(&event).to_string())?;
                }
                Some(event) => {
                    for line in show::event_text(&event) {
                        out.line(&line)?;
                    }
                }
                None => break,
            },
            Ok(()) = states.changed() => {
                let now = *states.borrow_and_update();
                if now != told {
                    told = now;
                    let state = show::state(&service.instances());
                    out.line(&if as_json { state.to_string() } else { text(&state) })?;
                }
            }
        }
    }
    Ok(code::YES)
}

fn text(state: &Value) -> String {
    format!("state\t{}", state["state"].as_str().unwrap_or_default())
}
