//! Signals for coord, which are meant for the command.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use nix::sys::signal::Signal;
use tokio::signal::unix::{Signal as Arrivals, SignalKind, signal};

use crate::Failure;

/// The signals that coord passes on.
const FORWARDED: [Signal; 6] =
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];

/// Whether a signal asks to end. The others mean what the command says they mean.
pub(crate) const fn ends(signal: Signal) -> bool {
    matches!(signal, Signal::SIGTERM | Signal::SIGINT | Signal::SIGHUP | Signal::SIGQUIT)
}

/// The signals that coord passes on, from when this is made.
///
/// Those that were ignored when coord started stay so, for coord and for the command: `nohup` and the like rely on it.
#[derive(Debug)]
pub(crate) struct Signals {
    arrivals: Vec<(Signal, Arrivals)>,
    asked_to_end: bool,
}

impl Signals {
    pub(crate) fn install() -> io::Result<Self> {
        let ignored = ignored();
        let install = |kind: Signal| Ok((kind, signal(SignalKind::from_raw(kind as i32))?));
        let wanted = FORWARDED.into_iter().filter(|signal| ignored & (1 << (*signal as i32 - 1)) == 0);
        let arrivals = wanted.map(install).collect::<io::Result<_>>()?;
        Ok(Self { arrivals, asked_to_end: false })
    }

    /// The next one.
    ///
    /// # Cancel safety
    /// Safe: none is lost.
    pub(crate) async fn next(&mut self) -> Signal {
        let signal = std::future::poll_fn(|cx| self.poll(cx)).await;
        self.asked_to_end |= ends(signal);
        signal
    }

    /// The next one that asks to end. The others are dropped: no command is there that they could be for.
    ///
    /// # Cancel safety
    /// Safe: none is lost.
    pub(crate) async fn ending(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if ends(signal) {
                return signal;
            }
        }
    }

    /// Whether one that asks to end has come, at any time.
    pub(super) const fn asked_to_end(&self) -> bool {
        self.asked_to_end
    }

    /// Waits for `work`, unless a signal comes first: no matter which, it ends the waiting.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Failure> {
        tokio::select! {
            biased;
            signal = self.next() => Err(Failure::Signal(signal)),
            done = work => Ok(done),
        }
    }

    /// The same, but only a signal that asks to end does so.
    pub(crate) async fn unless_ending<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Failure> {
        tokio::select! {
            biased;
            signal = self.ending() => Err(Failure::Signal(signal)),
            done = work => Ok(done),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Signal> {
        for (signal, arrivals) in &mut self.arrivals {
            if Pin::new(arrivals).poll_recv(cx).is_ready() {
                return Poll::Ready(*signal);
            }
        }
        Poll::Pending
    }
}

/// The signals that this process ignores, as the system shows them: bit n - 1 is signal n.
#[cfg(target_os = "linux")]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(not(target_os = "linux"))]
const fn ignored() -> u64 {
    0
}
