//! Signals for coord, which are meant for the command.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use nix::sys::signal::Signal;
use tokio::signal::unix::{Signal as Arrivals, SignalKind, signal};

/// A signal that arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub(super) number: i32,
    pub(crate) signal: Signal,
}

/// The signals that coord passes on.
const FORWARDED: [Signal; 6] =
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];

/// The signals that coord passes on, from when this is made.
///
/// Those that were ignored when coord started stay so, for coord and for the command: `nohup` and the like rely on it.
#[derive(Debug)]
pub(crate) struct Signals(Vec<(Signal, Arrivals)>);

impl Signals {
    pub(crate) fn install() -> io::Result<Self> {
        let ignored = ignored();
        let install = |kind: Signal| Ok((kind, signal(SignalKind::from_raw(kind as i32))?));
        let wanted = FORWARDED.into_iter().filter(|signal| ignored & (1 << (*signal as i32 - 1)) == 0);
        wanted.map(install).collect::<io::Result<_>>().map(Self)
    }

    /// The next one.
    ///
    /// # Cancel safety
    /// Safe: none is lost.
    pub(crate) async fn next(&mut self) -> Arrived {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Arrived> {
        for (signal, arrivals) in &mut self.0 {
            if Pin::new(arrivals).poll_recv(cx).is_ready() {
                return Poll::Ready(Arrived { number: *signal as i32, signal: *signal });
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
