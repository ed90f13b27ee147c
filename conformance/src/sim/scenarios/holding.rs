//! What all recipes with guards are asked, and what is recorded of it.

use std::time::Duration;

use coord_api::{Entry, Result, Session};
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
        Self::record(me, name, owner, mode, None)
    }

    /// A part of a multi-lock.
    pub(super) fn of_group(me: &'c Client, name: &str, owner: u64, group: u64) -> Self {
        Self::record(me, name, owner, Mode::Exclusive, Some(group))
    }

    fn record(me: &'c Client, name: &str, owner: u64, mode: Mode, group: Option<u64>) -> Self {
        let ask = me.next_id();
        me.record(Hold::Asked { ask, name: name.to_owned(), owner, mode, group });
        Self { me, ask, granted: false }
    }

    /// `acquire` gave this guard.
    pub(super) fn granted(&mut self, guard: &Guard) {
        // What an operator took away before the client knew that it was granted was never promised.
        if self.taken_away(guard) {
            return;
        }
        let entry = self.me.node().world.recorder().entry_of(guard.key());
        self.granted = true;
        self.me.record(Hold::Granted { ask: self.ask, token: guard.token().get(), entry });
    }

    /// Works under the guard for a while, and stops when it is lost.
    pub(super) async fn work(&self, guard: &Guard) {
        if self.me.chance(60) {
            // Longer than a session that is cut off, and asked all the time.
            for _ in 0..100 {
                if !self.believes(guard) {
                    break;
                }
                let _ = tokio::time::timeout(Duration::from_millis(50), guard.lost()).await;
            }
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

    /// The client knows that it is lost, before it gives anything back.
    pub(super) fn lost<T>(self) -> Option<T> {
        self.ended(false);
        None
    }

    /// Whether an operator took the guard's entry away.
    pub(super) fn taken_away(&self, guard: &Guard) -> bool {
        let recorder = self.me.node().world.recorder();
        recorder.is_disowned(recorder.entry_of(guard.key()))
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

/// Rounds with a session that is replaced when it is lost.
pub(super) async fn rounds<F>(me: Client, round: impl Fn(Client, Session) -> F)
where
    F: Future<Output = ()>,
{
    let mut session = me.session().await;
    for _ in 0..me.steps() {
        me.idle(0, 400).await;
        me.fresh(&mut session).await;
        round(me.clone(), session.clone()).await;
    }
    // What does not arrive is made good by the ttl.
    let _ = session.close().await;
}

/// Works under what was acquired, if anything was, and ends it.
pub(super) async fn hold<G, F>(
    me: &Client,
    mut asking: Asking<'_>,
    acquired: Option<Result<Option<G>>>,
    release: impl FnOnce(G) -> F,
) where
    G: std::ops::Deref<Target = Guard>,
    F: Future<Output = Result<()>>,
{
    match acquired {
        Some(Ok(Some(guard))) => {
            asking.granted(&guard);
            asking.work(&guard).await;
            end(me, asking, guard, release).await;
        }
        _ => asking.refused(),
    }
}

/// Releases, or drops the guard, and records it.
pub(super) async fn end<G, F>(me: &Client, asking: Asking<'_>, guard: G, release: impl FnOnce(G) -> F)
where
    G: std::ops::Deref<Target = Guard>,
    F: Future<Output = Result<()>>,
{
    let asking = if asking.releasing(&guard) { Some(asking) } else { asking.lost() };
    if me.chance(150) {
        drop(guard);
    } else {
        // What is left when this fails goes with the session.
        let _ = me.perhaps_cancelled(release(guard)).await;
    }
    if let Some(asking) = asking {
        asking.ended(true);
    }
}

/// Entries directly in `dir`, all of one mode.
pub(super) fn entry_in(entry: &Entry, dir: &str, mode: Mode) -> Option<(String, Mode)> {
    (entry.key.parent().as_str() == dir).then(|| (dir.to_owned(), mode))
}
