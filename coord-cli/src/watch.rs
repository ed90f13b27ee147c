//! `watch`.

use coord::{Coord, WatchEvent};
use futures::StreamExt;
use serde_json::{Map, Value, json};

use crate::{
    Failure, Format,
    args::DirArgs,
    code,
    output::{Output, entry, printable, printable_text},
};

/// Writes events as they come, each flushed; ends when the reader goes away or the store refuses for good.
pub(crate) async fn watch(coord: &Coord, out: &mut Output<'_>, args: &DirArgs) -> Result<u8, Failure> {
    let mut events = coord.watch(args.dir.as_str()).await?;
    let as_json = out.streaming_format() == Format::Jsonl;
    while let Some(event) = events.next().await {
        let event = event?;
        if as_json {
            // One line whatever the format: `json` would indent.
            out.line(&json(&event).to_string())?;
        } else {
            for line in text(&event) {
                out.line(&line)?;
            }
        }
    }
    Ok(code::YES)
}

fn json(event: &WatchEvent) -> Value {
    let tagged = |name: &str, rest: Map<String, Value>| {
        let mut map = Map::new();
        map.insert("event".into(), json!(name));
        map.extend(rest);
        Value::Object(map)
    };
    match event {
        WatchEvent::Snapshot { entries, revision } => json!({
            "event": "snapshot",
            "revision": revision.get(),
            "entries": entries.iter().map(entry).collect::<Vec<_>>(),
        }),
        WatchEvent::Put(put) => {
            let mut rest = Map::new();
            rest.insert("revision".into(), json!(put.meta.modified.get()));
            rest.extend(entry(put));
            tagged("put", rest)
        }
        WatchEvent::Delete { key, revision } => {
            json!({ "event": "delete", "revision": revision.get(), "key": key.as_str() })
        }
        WatchEvent::Progress(revision) => json!({ "event": "progress", "revision": revision.get() }),
        // New kinds of events: the reader learns that there was one.
        other => json!({ "event": "other", "revision": other.revision().get() }),
    }
}

fn text(event: &WatchEvent) -> Vec<String> {
    let line = |what: &str, key: &str, value: &str| {
        format!("{what}\t{}\t{}\t{value}", event.revision(), printable_text(key)).trim_end().to_owned()
    };
    match event {
        WatchEvent::Snapshot { entries, .. } => {
            let mut lines = vec![line("snapshot", "", &format!("{} keys", entries.len()))];
            lines.extend(entries.iter().map(|e| line("is", e.key.as_str(), &printable(&e.value))));
            lines
        }
        WatchEvent::Put(put) => vec![line("put", put.key.as_str(), &printable(&put.value))],
        WatchEvent::Delete { key, .. } => vec![line("delete", key.as_str(), "")],
        // Nothing happened; that is news for programs, not for people.
        _ => Vec::new(),
    }
}
