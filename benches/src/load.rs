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
use tokio::task::JoinHandle;

use crate::{Result, stats::Latency};

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
    /// Whether an operation was recorded.
    any: AtomicBool,
}

/// How long at most is waited for the first operation.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs `op` in `tasks` tasks: for `settle` unrecorded, then for `span`, and longer until one operation was recorded.
pub(crate) async fn run(op: &Op, tasks: usize, settle: Duration, span: Duration) -> Result<Load> {
    let phase = Arc::new(Phase::default());
    let workers: Vec<_> =
        (0..tasks).map(|task| tokio::spawn(work(Arc::clone(op), task, Arc::clone(&phase)))).collect();
    tokio::time::sleep(settle).await;
    let (began, used) = (Instant::now(), cpu_time());
    phase.recording.store(true, Ordering::Relaxed);
    tokio::time::sleep(span).await;
    while !phase.any.load(Ordering::Relaxed)
        && began.elapsed() < PATIENCE
        && !workers.iter().any(JoinHandle::is_finished)
    {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    phase.recording.store(false, Ordering::Relaxed);
    let (span, used) = (began.elapsed(), cpu_time().saturating_sub(used));
    phase.over.store(true, Ordering::Relaxed);
    let mut all = Latency::default();
    for taken in try_join_all(workers).await? {
        all.add(&taken?);
    }
    if all.count() == 0 {
        return Err(format!("no operation ended within {PATIENCE:?}").into());
    }
    let count = all.count() as f64;
    Ok(Load {
        ops_per_s: count / span.as_secs_f64(),
        p50_ms: all.ms(0.5),
        p99_ms: all.ms(0.99),
        cpu_us: used.as_secs_f64() * 1e6 / count.max(1.0),
    })
}

/// How long each operation took that was recorded.
async fn work(op: Op, task: usize, phase: Arc<Phase>) -> Result<Latency> {
    let mut taken = Latency::default();
    while !phase.over.load(Ordering::Relaxed) {
        // A store in this process never makes the task wait: nobody else, and no timer, would get a turn.
        tokio::task::coop::consume_budget().await;
        let began = Instant::now();
        op(task).await?;
        if phase.recording.load(Ordering::Relaxed) {
            taken.record(began.elapsed());
            phase.any.store(true, Ordering::Relaxed);
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
