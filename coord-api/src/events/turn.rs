//! One try to hold something, as those who listen see it.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Event, Reporter, Turn, Watched, session::Holding};
use crate::FencingToken;

/// Tells of one try to hold something, for recipes: waiting, acquired, and how that ended.
///
/// Dropped, it tells the end that fits: gave up, released or lost. A try that neither waited nor acquired is not told.
#[derive(Debug)]
pub struct TurnReport {
    reporter: Reporter,
    watched: Arc<Watched>,
    turn: Turn,
    began: Instant,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Joining,
    Waiting,
    /// With the number of the holding.
    Holding(u64),
}

impl TurnReport {
    pub(crate) const fn new(reporter: Reporter, watched: Arc<Watched>, turn: Turn, began: Instant) -> Self {
        Self { reporter, watched, turn, began, stage: Stage::Joining }
    }

    /// It is not our turn, and we wait. Told once.
    pub fn waiting(&mut self) {
        if let Stage::Joining = self.stage {
            self.stage = Stage::Waiting;
            self.reporter.tell(|| Event::Waiting(self.turn.clone()));
        }
    }

    /// It is ours.
    pub fn acquired(&mut self, token: FencingToken) {
        let now = Instant::now();
        self.reporter.tell(|| Event::Acquired {
            turn: self.turn.clone(),
            token,
            waited: now - self.began,
            contended: matches!(self.stage, Stage::Waiting),
        });
        let holding = Holding { turn: self.turn.clone(), token, since: now };
        self.stage = Stage::Holding(self.watched.hold(holding));
    }

    /// We give it back. Told once, and not after a loss.
    pub fn released(&self) {
        let Stage::Holding(id) = self.stage else { return };
        if self.watched.is_lost() {
            return self.lost();
        }
        if let Some(Holding { turn, token, since }) = self.watched.take(id) {
            self.reporter.tell(|| Event::Released { turn, token, held: since.elapsed() });
        }
    }

    /// It was taken from us. Told once.
    pub fn lost(&self) {
        if let Stage::Holding(id) = self.stage {
            self.watched.tell_lost(id, &self.reporter);
        }
    }
}

impl Drop for TurnReport {
    fn drop(&mut self) {
        match self.stage {
            Stage::Joining => {}
            Stage::Waiting => {
                self.reporter
                    .tell(|| Event::GaveUp { turn: self.turn.clone(), waited: self.began.elapsed() });
            }
            Stage::Holding(_) => self.released(),
        }
    }
}
