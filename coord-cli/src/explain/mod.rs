//! `explain`: who has it, who waits, in the same words on every store.

mod line;
mod show;

use clap::Args;
use coord::{Coord, Dir, Entry, Freshness, Key};
use futures::{StreamExt, TryStreamExt, stream};

use crate::{Failure, code, output::Output, walk::AT_ONCE};
use line::{Line, Part, State};

/// Arguments of `explain`.
#[derive(Args, Debug)]
pub struct ExplainArgs {
    /// The lock, semaphore, election or other recipe: a path such as /locks/orders
    #[arg(value_parser = crate::args::key)]
    pub name: String,
}

/// Tells who holds and who waits; exit 1 if nobody holds.
pub(crate) async fn explain(coord: Coord, out: &mut Output<'_>, args: &ExplainArgs) -> Result<u8, Failure> {
    let coord = coord.with_freshness(Freshness::Latest);
    let name = Key::parse(&args.name)?;
    let dir = name.as_dir();
    let itself = coord.get(&name).await?;
    let children = coord.list(&dir).await?.children;
    let reads = stream::iter(children).map(|child| {
        let coord = &coord;
        async move { coord.get(&child.key).await.map(|entry| (child, entry)) }
    });
    let read: Vec<_> = reads.buffered(AT_ONCE).try_collect().await?;
    let permits = permits(&coord, &dir).await?;
    let parts = itself.into_iter().map(Part::key);
    let parts = parts.chain(read.into_iter().map(|(child, entry)| match entry {
        Some(entry) => Part::child(&child, entry),
        None => Part::below(child.key),
    }));
    // On etcd every key in the directory of a line is a place in it, as it is for etcd's own clients.
    let line = Line::judge(parts.collect(), permits, coord.info().name == "etcd");
    show::line(out, &coord, &name, &line)?;
    Ok(if line.parts.iter().any(|part| part.state == State::Holds) { code::YES } else { code::NO })
}

/// How many permits a semaphore of this name has; `None` if none was agreed on.
async fn permits(coord: &Coord, dir: &Dir) -> Result<Option<u32>, Failure> {
    // Too long a name has no directory beside it.
    let Ok(key) = Key::parse(&format!("{dir}.meta/permits")) else { return Ok(None) };
    let number = |entry: Entry| std::str::from_utf8(&entry.value).ok()?.parse().ok();
    Ok(coord.get(&key).await?.and_then(number))
}
