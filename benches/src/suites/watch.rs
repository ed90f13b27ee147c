//! What one-shot and streaming watches see of updates, and when they have caught up.

use std::time::{Duration, Instant};

use coord::{Coord, Entry, Key, Revision, Seen, WatchEvent, WatchStream};
use futures::{StreamExt, future::try_join_all};
use tokio::{sync::mpsc, task::JoinHandle};

use crate::{
    Result, handles,
    run::{Chart, Part, Pen, Plan, Store, Work},
    stats::Latency,
};

pub(crate) const PARTS: &[Part] = &[
    Part {
        name: "burst",
        title: "One-shot and streaming watches in a burst",
        text: "One writer changes one key as fast as the store acknowledges, for a second and at most 2,000 times, or 200 with 10,000 watchers; all watchers are in one process \
               and share a handle. *One-shot* is `get`, `wait` until that is no longer true, and `get` again, as ZooKeeper's \
               watches are used; *streaming* is `watch`. Seen: the part of the updates that a watcher got one by one, \
               on average; the rest was coalesced, and the last always arrives. Caught up: from the last \
               acknowledgement until the last watcher has the last value. Server requests and bytes are those of an \
               update, with the write itself.",
        at: "watchers",
        charts: &[Chart::Lines("seen %"), Chart::Lines("caught up ms"), Chart::Lines("updates/s")],
    },
    Part {
        name: "shared",
        title: "One server watch for many watchers, or one each",
        text: "Updates one after another, each sent when all streaming watchers have the one before; 50, or as many \
               as 5 s take. *Shared*: on one handle, so one watch at the server. *Separate*: a handle each, as if each \
               were a process; ten thousand of these once. From the call that writes until the last watcher has the \
               value.",
        at: "watchers",
        charts: &[Chart::Lines("p50 ms")],
    },
];

const KEY: &str = "/watch/key";
/// Behind the number of the last update.
const LAST: char = '!';

#[derive(Clone, Copy)]
enum Style {
    OneShot,
    Streaming,
}

impl Style {
    const ALL: [(&'static str, Style); 2] =
        [("one-shot, re-armed", Style::OneShot), ("streaming", Style::Streaming)];
}

/// A watcher that will miss no later update.
enum Armed {
    OneShot(Coord, Revision),
    Streaming(WatchStream),
}

/// Updates that reach so many watchers say as much as more would.
const DELIVERIES_MAX: usize = 2_000_000;
/// More handles than this take long to open.
const OFTEN_MAX: usize = 1000;

pub(crate) async fn repetition(store: &Store, plan: Plan, pen: &mut Pen<'_>) -> Result<()> {
    let writer = store.open().await?;
    let watchers = store.open().await?;
    for count in plan.pick(&[1, 100, 1000, 10_000][..], &[1, 10][..]).iter().copied() {
        let most = plan.pick((DELIVERIES_MAX / count).min(2000), 20);
        for (side, style) in Style::ALL {
            let figures = burst(store, &writer, &watchers, style, (count, most), plan.span(1.0)).await?;
            pen.put("burst", side, count, &figures);
        }
    }
    let most = (plan.pick(50, 5), plan.span(5.0));
    for count in plan.pick(&[1, 100, 1000, 10_000][..], &[1, 3][..]).iter().copied() {
        let figures = one_by_one(store, &writer, vec![watchers.clone(); count], most).await?;
        pen.put("shared", "shared", count, &figures);
        if count > OFTEN_MAX && !plan.is_first {
            continue;
        }
        match handles::open(store, count).await {
            Ok(separate) => {
                let figures = one_by_one(store, &writer, separate.clone(), most).await?;
                pen.put("shared", "separate", count, &figures);
                handles::close(separate).await?;
            }
            Err(why) => pen.leave_out(&format!("{count} watchers with a handle each"), &why),
        }
    }
    handles::close(vec![writer, watchers]).await
}

async fn burst(
    store: &Store,
    writer: &Coord,
    watchers: &Coord,
    style: Style,
    (count, most): (usize, usize),
    span: Duration,
) -> Result<Vec<(&'static str, f64)>> {
    writer.put(KEY, "0").await?;
    let armed = try_join_all((0..count).map(|_| arm(watchers, style))).await?;
    let watching: Vec<JoinHandle<Result<usize>>> =
        armed.into_iter().map(|armed| tokio::spawn(follow(armed, None))).collect();
    let before = Work::read(store.server()).await;
    let began = Instant::now();
    let mut updates: usize = 0;
    while began.elapsed() < span && updates + 1 < most {
        updates += 1;
        writer.put(KEY, updates.to_string()).await?;
    }
    updates += 1;
    writer.put(KEY, last(updates)).await?;
    let written = began.elapsed();
    let acknowledged = Instant::now();
    let mut seen = 0;
    for watcher in watching {
        seen += watcher.await??;
    }
    let caught_up = acknowledged.elapsed();
    let part = seen as f64 / (count as f64 * updates as f64);
    let mut figures = vec![
        ("seen %", 100.0 * part),
        ("coalesced %", 100.0 * (1.0 - part)),
        ("caught up ms", ms(caught_up)),
        ("updates/s", updates as f64 / written.as_secs_f64()),
    ];
    figures.extend(Work::read(store.server()).await.each(before, updates as f64));
    Ok(figures)
}

/// One update after another to a watcher on each of `handles`: at most so many, and none after so long.
async fn one_by_one(
    store: &Store,
    writer: &Coord,
    handles: Vec<Coord>,
    (most, span): (usize, Duration),
) -> Result<Vec<(&'static str, f64)>> {
    writer.put(KEY, "0").await?;
    let armed = try_join_all(handles.iter().map(|coord| arm(coord, Style::Streaming))).await?;
    let (told, mut heard) = mpsc::unbounded_channel();
    let watching: Vec<_> =
        armed.into_iter().map(|armed| tokio::spawn(follow(armed, Some(told.clone())))).collect();
    drop(told);
    let before = Work::read(store.server()).await;
    let (first, mut taken, mut number) = (Instant::now(), Latency::default(), 0);
    loop {
        number += 1;
        let began = Instant::now();
        let is_last = number == most || first.elapsed() > span;
        let value = if is_last { last(number) } else { number.to_string() };
        writer.put(KEY, value).await?;
        let mut behind = handles.len();
        while behind > 0 {
            match heard.recv().await {
                Some(told) if told == number => behind -= 1,
                // A snapshot told it before.
                Some(_) => {}
                None => return Err("a watch has ended".into()),
            }
        }
        taken.record(began.elapsed());
        if is_last {
            break;
        }
    }
    for watcher in watching {
        watcher.await??;
    }
    let mut figures = vec![("p50 ms", taken.ms(0.5)), ("p99 ms", taken.ms(0.99))];
    figures.extend(Work::read(store.server()).await.each(before, number as f64));
    Ok(figures)
}

async fn arm(coord: &Coord, style: Style) -> Result<Armed> {
    Ok(match style {
        Style::OneShot => {
            let entry = coord.get(KEY).await?.ok_or("the watched key is gone")?;
            Armed::OneShot(coord.clone(), entry.meta.modified)
        }
        Style::Streaming => {
            let mut changes = coord.watch("/watch").await?;
            match changes.next().await {
                Some(Ok(_)) => Armed::Streaming(changes),
                Some(Err(error)) => return Err(error.into()),
                None => return Err("the watch has ended".into()),
            }
        }
    })
}

/// The value of the last update, by which watchers know that it is.
fn last(number: usize) -> String {
    format!("{number}{LAST}")
}

/// Follows until the last value; how many updates it saw. Tells of each, if somebody wants to hear of it.
async fn follow(armed: Armed, told: Option<mpsc::UnboundedSender<usize>>) -> Result<usize> {
    let mut seen = 0;
    let mut reached = |entry: &Entry| -> Result<Option<usize>> {
        let text = std::str::from_utf8(&entry.value)?;
        let number = text.trim_end_matches(LAST);
        seen += 1;
        if let Some(told) = &told {
            // Nobody listens any more if the measurement has failed.
            let _ = told.send(number.parse()?);
        }
        Ok((number != text).then_some(seen))
    };
    match armed {
        Armed::OneShot(coord, mut at) => {
            let key = Key::parse(KEY)?;
            loop {
                coord.wait(&Seen::Value(key.clone(), at)).await?;
                let entry = coord.get(&key).await?.ok_or("the watched key is gone")?;
                // `wait` may return early.
                if entry.meta.modified != at {
                    at = entry.meta.modified;
                    if let Some(seen) = reached(&entry)? {
                        return Ok(seen);
                    }
                }
            }
        }
        Armed::Streaming(mut changes) => {
            while let Some(event) = changes.next().await {
                let entry = match event? {
                    WatchEvent::Put(entry) => Some(entry),
                    // After a gap: the newest value, and those between are lost.
                    WatchEvent::Snapshot { entries, .. } => entries.into_iter().next(),
                    _ => None,
                };
                if let Some(entry) = entry
                    && let Some(seen) = reached(&entry)?
                {
                    return Ok(seen);
                }
            }
            Err("the watch has ended".into())
        }
    }
}

fn ms(taken: Duration) -> f64 {
    taken.as_secs_f64() * 1e3
}
