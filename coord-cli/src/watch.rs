//! `watch`.

use std::{future, io, os::fd::AsFd};

use coord::{Coord, WatchEvent};
use futures::StreamExt;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use crate::{
    Failure, Format,
    args::WatchArgs,
    code,
    output::{Output, entry, printable, printable_text},
};

/// Writes events as they come, each flushed; ends when the reader goes away or the store refuses for good.
pub(crate) async fn watch(coord: &Coord, out: &mut Output<'_>, args: &WatchArgs) -> Result<u8, Failure> {
    let mut events = coord.watch(args.dir.as_str()).await?;
    let as_json = out.streaming_format() == Format::Jsonl;
    let unread = reader_gone()?;
    tokio::pin!(unread);
    loop {
        let event = tokio::select! {
            biased;
            () = &mut unread => break,
            event = events.next() => event,
        };
        let Some(event) = event.transpose()? else { break };
        if matches!(event, WatchEvent::Progress(_)) && !args.progress {
            continue;
        }
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

/// Resolves when nobody can read standard output any more: without it `coord watch | head -1` would go on until the next
/// event finds the pipe closed. Never resolves for a file.
pub(crate) fn reader_gone() -> io::Result<impl Future<Output = ()>> {
    let (gone, told) = oneshot::channel();
    // A thread, since not everything that can be standard output can be registered with the runtime. It ends with the
    // process; a task of the runtime that blocks would hold up its end.
    std::thread::Builder::new().name("coord-stdout".to_owned()).spawn(move || {
        let stdout = io::stdout();
        // Nothing is asked for: errors and hang-ups are always told.
        let mut descriptors = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
        loop {
            match poll(&mut descriptors, PollTimeout::NONE) {
                Ok(1..) => break,
                Ok(_) | Err(Errno::EINTR) => {}
                // Then the next write tells.
                Err(_) => return,
            }
        }
        // Fails if the watch has ended meanwhile.
        let _ = gone.send(());
    })?;
    Ok(async move {
        if told.await.is_err() {
            future::pending::<()>().await;
        }
    })
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
