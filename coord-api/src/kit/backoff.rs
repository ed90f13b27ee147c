//! How long to wait before trying again.

use std::time::Duration;

use super::Runtime;

/// Doubling delays with jitter, from 50 ms to a cap.
#[derive(Debug)]
pub struct Backoff {
    next: Duration,
    cap: Duration,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(50);

    /// Delays that double up to `cap`.
    #[must_use]
    pub fn new(cap: Duration) -> Self {
        Self { next: Self::FIRST.min(cap), cap }
    }

    /// The next delay: between half and all of the doubling value, so that many clients spread out.
    #[must_use]
    pub fn next_delay(&mut self, runtime: &Runtime) -> Duration {
        let now = self.next;
        self.next = now.saturating_mul(2).min(self.cap);
        now.div_f64(2.0).saturating_add(now.mul_f64(runtime.unit() / 2.0))
    }

    /// Waits for the next delay.
    pub async fn sleep(&mut self, runtime: &Runtime) {
        let delay = self.next_delay(runtime);
        tokio::time::sleep(delay).await;
    }

    /// Starts over after a success.
    pub fn reset(&mut self) {
        self.next = Self::FIRST.min(self.cap);
    }
}
