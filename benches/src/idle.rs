//! What idle waiters take: a line to be gathered, and the memory of this process.

use std::{
    fs,
    time::{Duration, Instant},
};

use coord::{Coord, Retry};

use crate::Result;

/// Waits until so many stand in the line of a lock.
pub(crate) async fn line_is(coord: &Coord, lock: &str, count: usize, patience: Duration) -> Result<()> {
    let deadline = Instant::now() + patience;
    loop {
        let found = match coord.list(lock).await {
            Ok(line) => line.children.len(),
            // A server that lets so many join at once may be late with an answer.
            Err(error) if error.retry() == Retry::Safe => 0,
            Err(error) => return Err(error.into()),
        };
        if found >= count {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("only {found} of {count} got into the line").into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Resident memory of this process, in KiB.
pub(crate) fn resident_kib() -> Result<f64> {
    resident_kib_of("self")
}

/// Resident memory of the process with this number, in KiB.
pub(crate) fn resident_kib_of(process: &str) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).ok_or("this system tells no VmRSS")?;
    Ok(kib.trim().parse::<f64>()?)
}
