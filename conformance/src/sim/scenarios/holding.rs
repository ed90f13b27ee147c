//! What all recipes with guards are asked, and what is recorded of it.

use std::time::Duration;

use coord_api::{Entry, Result};
use coord_recipes::Hold as Guard;

use crate::{
    checkers::facts::{Hold, Mode},
    sim::client::Client,
};

/// One call of `acquire`, and the hold that it may give.
pub(super) struct Asking<'c> {
    me: &'c Client,
    ask: u64,
    granted: bool,
}

impl<'c> Asking<'c> {
    pub(super) fn new(me: &'c Client, name: &str, owner: u64, mode: Mode) -> Self {
        let ask = me.next_id();
        me.record(Hold::Asked { ask, name: name.to_owned(), owner, mode, group: None });
        Self { me, ask, granted: false }
    }

    /// `acquire` gave this guard.
    pub(super) fn granted(&mut self, guard: &Guard) {
        let (entry, taken_away) = {
            let recorder = self.me.node().world.recorder();
            let entry = recorder.entry_of(guard.key());
            (entry, recorder.is_disowned(entry))
        };
        // What an operator took away before the client knew that it was granted was never promised.
        if taken_away {
            return;
        }
        self.granted = true;
        self.me.record(Hold::Granted { ask: self.ask, token: guard.token().get(), entry });
    }

    /// Works under the guard for a while, and stops when it is lost.
    pub(super) async fn work(&self, guard: &Guard) {
        if self.me.chance(60) {
            // Longer than a session that is cut off.
            let _ = tokio::time::timeout(Duration::from_secs(5), guard.lost()).await;
        }
        for _ in 0..self.me.range(1, 5) {
            if !self.believes(guard) {
                // Must come at once, or this client does not finish.
                return guard.lost().await;
            }
            self.me.write_fenced(guard.token().get());
            self.me.idle(1, 120).await;
        }
    }

    /// Asks the guard whether it is valid, and records what it believes.
    pub(super) fn believes(&self, guard: &Guard) -> bool {
        let valid = guard.is_valid();
        if valid && self.granted {
            self.me.record(Hold::Believed { ask: self.ask });
        }
        valid
    }

    /// Before `release` is called, or the guard dropped. Whether it was valid.
    pub(super) fn releasing(&self, guard: &Guard) -> bool {
        let valid = guard.is_valid();
        if valid && self.granted {
            self.me.record(Hold::Releasing { ask: self.ask });
        }
        valid
    }

    /// Behind `release`.
    pub(super) fn ended(self, valid: bool) {
        if self.granted {
            self.me.record(Hold::Ended { ask: self.ask, lost: !valid });
        } else {
            self.me.record(Hold::Refused { ask: self.ask });
        }
    }

    /// `acquire` gave no guard.
    pub(super) fn refused(self) {
        self.me.record(Hold::Refused { ask: self.ask });
    }
}

/// How a client asks: once, for a time, or for as long as it takes.
pub(super) enum Patience {
    Once,
    For(Duration),
    Ever,
}

impl Patience {
    pub(super) fn draw(me: &Client) -> Self {
        let time = me.range(0, 1500);
        match me.range(0, 10) {
            0 => Self::Once,
            1 | 2 => Self::For(Duration::from_millis(time)),
            _ => Self::Ever,
        }
    }
}

/// Releases, or drops the guard, and records it.
pub(super) async fn end<G, F>(me: &Client, asking: Asking<'_>, guard: G, release: impl FnOnce(G) -> F)
where
    G: std::ops::Deref<Target = Guard>,
    F: Future<Output = Result<()>>,
{
    let valid = asking.releasing(&guard);
    if me.chance(150) {
        drop(guard);
    } else {
        // What is left when this fails goes with the session.
        let _ = me.perhaps_cancelled(release(guard)).await;
    }
    asking.ended(valid);
}

/// Entries directly in `dir`, all of one mode.
pub(super) fn entry_in(entry: &Entry, dir: &str, mode: Mode) -> Option<(String, Mode)> {
    (entry.key.parent().as_str() == dir).then(|| (dir.to_owned(), mode))
}
