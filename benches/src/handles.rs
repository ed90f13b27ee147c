//! Many handles on one store, or why there cannot be so many.

use std::{
    fs,
    time::{Duration, Instant},
};

use coord::Coord;
use futures::{StreamExt, TryStreamExt, future::try_join_all, stream};

use crate::{Result, run::Store};

/// Opened or closed at once: servers take only so many new connections at a time.
const FEW: usize = 16;
/// How long all of them may take to open.
const PATIENCE: Duration = Duration::from_secs(60);

/// Opens so many. Where that cannot be, none is left open, and the error says why.
pub(crate) async fn open(store: &Store, count: usize) -> Result<Vec<Coord>, String> {
    let (began, before) = (Instant::now(), descriptors());
    let mut handles = Vec::with_capacity(count);
    let why = loop {
        let few = (count - handles.len()).min(FEW);
        match try_join_all((0..few).map(|_| store.open())).await {
            Ok(more) => handles.extend(more),
            Err(error) => break format!("{} were open when one failed: {error}", handles.len()),
        }
        if handles.len() == count {
            return Ok(handles);
        }
        if let Some(why) =
            too_many_descriptors(before, descriptors(), descriptors_max(), handles.len(), count)
        {
            break why;
        }
        if began.elapsed() > PATIENCE {
            break format!("{} were open after {} s", handles.len(), PATIENCE.as_secs());
        }
    };
    // That they cannot be so many is worse than whatever closing tells.
    let _ = close(handles).await;
    Err(why)
}

/// Closes them.
pub(crate) async fn close(handles: Vec<Coord>) -> Result<()> {
    let closing = stream::iter(handles).map(|coord| async move { coord.close().await });
    Ok(closing.buffer_unordered(FEW).try_for_each(async |()| Ok(())).await?)
}

/// Whether `count` handles would need more descriptors than `most`, as `open` of them have made `now` from `before`.
/// What is not known is no obstacle.
fn too_many_descriptors(
    before: Option<usize>,
    now: Option<usize>,
    most: Option<usize>,
    open: usize,
    count: usize,
) -> Option<String> {
    let (before, now, most) = (before?, now?, most?);
    let needed = before + now.saturating_sub(before) * count / open.max(1);
    (needed > most).then(|| {
        format!("they need some {needed} file descriptors of this process, which may have {most} (ulimit -n)")
    })
}

/// How many files and sockets this process has open.
fn descriptors() -> Option<usize> {
    Some(fs::read_dir("/proc/self/fd").ok()?.count())
}

/// How many it may have open.
fn descriptors_max() -> Option<usize> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_reckoned_before_they_run_out() {
        let asked = |count| too_many_descriptors(Some(20), Some(52), Some(1024), 16, count);
        assert_eq!(asked(502), None, "two each, and 20 of others");
        let why = asked(503).expect("two too many");
        assert!(why.contains("1026 file descriptors") && why.contains("may have 1024"), "{why}");
        assert_eq!(too_many_descriptors(None, Some(52), Some(1024), 16, 10_000), None);
    }

    #[test]
    fn a_process_knows_its_descriptors() {
        let (open, most) = (descriptors().expect("open ones"), descriptors_max().expect("a limit"));
        assert!(0 < open && open < most, "{open} of {most}");
    }
}
