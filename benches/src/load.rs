//! One operation, again and again, by many tasks.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures::future::{BoxFuture, try_join_all};

use crate::{Result, stats::percentile};

/// An operation; told which task asks.
pub(crate) type Op = Arc<dyn Fn(usize) -> BoxFuture<'static, Result<()>> + Send + Sync>;

/// What one repetition gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) ops_per_s: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// Processor time of this process for one operation.
    pub(crate) cpu_us: f64,
}

#[derive(Default)]
struct Phase {
    recording: AtomicBool,
    over: AtomicBool,
}

/// Runs `op` in `tasks` tasks: for `settle` unrecorded, then for `span`.
pub(crate) async fn run(op: &Op, tasks: usize, settle: Duration, span: Duration) -> Result<Load> {
    let phase = Arc::new(Phase::default());
    let workers: Vec<_> =
        (0..tasks).map(|task| tokio::spawn(work(Arc::clone(op), task, Arc::clone(&phase)))).collect();
    tokio::time::sleep(settle).await;
    let (began, used) = (Instant::now(), cpu_time());
    phase.recording.store(true, Ordering::Relaxed);
    tokio::time::sleep(span).await;
    phase.recording.store(false, Ordering::Relaxed);
    let (span, used) = (began.elapsed(), cpu_time().saturating_sub(used));
    phase.over.store(true, Ordering::Relaxed);
    let mut all = Vec::new();
    for taken in try_join_all(workers).await? {
        all.extend(taken?);
    }
    let count = all.len() as f64;
    Ok(Load {
        ops_per_s: count / span.as_secs_f64(),
        p50_ms: percentile(&mut all, 50) as f64 / 1000.0,
        p99_ms: percentile(&mut all, 99) as f64 / 1000.0,
        cpu_us: used.as_secs_f64() * 1e6 / count.max(1.0),
    })
}

/// Microseconds of each operation that was recorded.
async fn work(op: Op, task: usize, phase: Arc<Phase>) -> Result<Vec<u64>> {
    let mut taken = Vec::with_capacity(4096);
    while !phase.over.load(Ordering::Relaxed) {
        let began = Instant::now();
        op(task).await?;
        if phase.recording.load(Ordering::Relaxed) {
            taken.push(u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX));
        }
    }
    Ok(taken)
}

/// Processor time that this process has used; zero where the system does not tell.
pub(crate) fn cpu_time() -> Duration {
    let Ok(stat) = fs::read_to_string("/proc/self/stat") else { return Duration::ZERO };
    // After the name in parentheses, which may hold anything, user and system time are the 12th and 13th, in
    // hundredths of a second.
    let Some((_, rest)) = stat.rsplit_once(") ") else { return Duration::ZERO };
    let ticks = rest.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>();
    Duration::from_millis(10 * ticks)
}
