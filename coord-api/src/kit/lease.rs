//! The local deadline of a session.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

use crate::SessionState;

/// A moment, taken before a renewal is sent.
///
/// Two clocks: the monotonic one stands still while the machine is suspended, the boot-time one does not. Whichever
/// says that more time passed is believed.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    at: Instant,
    boot: Duration,
}

impl Stamp {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        Self { at: Instant::now(), boot: boot_time() }
    }
}

#[cfg(target_os = "linux")]
fn boot_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// Elsewhere the monotonic clock has to do.
#[cfg(not(target_os = "linux"))]
fn boot_time() -> Duration {
    Duration::ZERO
}

/// The state of a session as its owner may believe it (promises G2 and G3).
///
/// The driver calls [`Lease::renewed`] for every acknowledged renewal with the moment it was *sent*; a task of the
/// driver awaits [`Lease::expired`]. A lost lease stays lost, whatever is acknowledged later.
#[derive(Debug)]
pub struct Lease {
    ttl: Duration,
    suspends: bool,
    last: Mutex<Stamp>,
    state: watch::Sender<SessionState>,
}

impl Lease {
    /// A live lease of `ttl`, granted by a request sent at `sent`.
    #[must_use]
    pub fn new(ttl: Duration, sent: Stamp) -> Self {
        Self { ttl, suspends: true, last: Mutex::new(sent), state: watch::Sender::new(SessionState::Live) }
    }

    /// The same for a clock that tests control: time spent in suspend does not count.
    #[must_use]
    pub fn simulated(ttl: Duration) -> Self {
        Self { suspends: false, ..Self::new(ttl, Stamp::now()) }
    }

    /// The time to live as granted.
    #[must_use]
    pub const fn ttl(&self) -> Duration {
        self.ttl
    }

    /// How long after the send time the lease counts: nine tenths of the ttl, so that a server whose clock runs
    /// up to a tenth faster than ours does not free it before we know.
    #[must_use]
    pub fn span(&self) -> Duration {
        self.ttl - self.ttl / 10
    }

    /// Until when nobody else can own what the session owns; in the past once lost.
    #[must_use]
    pub fn valid_until(&self) -> Instant {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_lost() {
            return last.at;
        }
        if self.suspends {
            let now = Stamp::now();
            let monotonic = now.at.saturating_duration_since(last.at);
            let asleep = now.boot.saturating_sub(last.boot).saturating_sub(monotonic);
            return last.at + self.span().saturating_sub(asleep);
        }
        last.at + self.span()
    }

    /// Whether the lease is lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        *self.state.borrow() == SessionState::Lost
    }

    /// The state and its changes.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<SessionState> {
        self.state.subscribe()
    }

    /// A renewal that was sent at `sent` was acknowledged. `false` if it came too late: the lease is lost.
    pub fn renewed(&self, sent: Stamp) -> bool {
        // The deadline may have passed without a timer having run yet, as after a freeze: final all the same.
        if Instant::now() >= self.valid_until() {
            self.lose();
        }
        self.state.send_if_modified(|state| {
            if *state == SessionState::Lost {
                return false;
            }
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            if sent.at > last.at {
                *last = sent;
            }
            std::mem::replace(state, SessionState::Live) != SessionState::Live
        });
        !self.is_lost()
    }

    /// A renewal is late, or the connection is down.
    pub fn suspend(&self) {
        self.state.send_if_modified(|state| {
            *state == SessionState::Live && {
                *state = SessionState::Suspended;
                true
            }
        });
    }

    /// The session is over, for good.
    pub fn lose(&self) {
        self.state
            .send_if_modified(|state| std::mem::replace(state, SessionState::Lost) != SessionState::Lost);
    }

    /// Loses the lease once its deadline has passed, however often it was moved; returns once the lease is lost.
    pub async fn expired(&self) {
        let mut state = self.state.subscribe();
        loop {
            if *state.borrow_and_update() == SessionState::Lost {
                return;
            }
            let until = self.valid_until();
            if Instant::now() >= until {
                self.lose();
                return;
            }
            tokio::select! {
                biased;
                _ = state.changed() => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn the_deadline_counts_from_the_send_time() {
        let lease = Lease::simulated(TTL);
        let sent = Stamp::now();
        tokio::time::advance(Duration::from_secs(8)).await;
        assert!(lease.renewed(sent));
        assert_eq!(lease.valid_until(), sent.at + Duration::from_secs(9));
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_after_the_deadline_does_not_resurrect() {
        let lease = Lease::simulated(TTL);
        let sent = Stamp::now();
        // No timer has run: the clock alone decides.
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(!lease.renewed(Stamp::now()) && !lease.renewed(sent));
        assert_eq!(*lease.state().borrow(), SessionState::Lost);
    }

    #[tokio::test(start_paused = true)]
    async fn expiry_follows_renewals_and_an_older_send_time_does_not_shorten() {
        let lease = Lease::simulated(TTL);
        let first = Stamp::now();
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(lease.renewed(Stamp::now()) && lease.renewed(first));
        let began = Instant::now();
        lease.expired().await;
        assert_eq!(began.elapsed(), Duration::from_secs(9));
    }
}
