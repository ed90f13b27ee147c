//! One entry that several tasks of a process share, one after another or at once.

use std::{mem, sync::Arc};

use bytes::Bytes;
use coord_api::Result;

use super::{Line, Place, Verdict, first_in_line};
use crate::Hold;

/// How far an entry has come that several tasks share.
///
/// It stands behind an async mutex, which its tasks pass in the order in which they came: whoever has the mutex drives
/// the entry on. A task that goes away while it waits leaves the entry where it is, for the next one to go on with.
/// When the last task is gone, the seat is dropped, and the entry leaves the line.
#[derive(Debug, Default)]
pub(crate) enum Seat {
    /// Nobody has joined.
    #[default]
    Empty,
    /// In the line.
    Waiting(Place),
    /// It is our turn.
    Held(Arc<Hold>),
}

impl Seat {
    /// Joins unless we have, and waits for the turn. A place that failed and a hold that is lost are given up.
    ///
    /// # Cancel safety
    /// Safe: the place stays in the seat.
    pub(crate) async fn turn(&mut self, line: &Line) -> Result<Arc<Hold>> {
        loop {
            match self {
                Self::Held(hold) if hold.is_valid() => return Ok(Arc::clone(hold)),
                Self::Held(_) => *self = Self::Empty,
                Self::Empty => *self = Self::Waiting(line.join(Bytes::new()).await?),
                Self::Waiting(place) => match place.turn(&first_in_line).await {
                    Ok(()) => self.granted(),
                    Err(error) => {
                        *self = Self::Empty;
                        return Err(error);
                    }
                },
            }
        }
    }

    /// Asks once. An entry that was made for this leaves again; one that others wait with stays.
    ///
    /// # Cancel safety
    /// Safe: as [`Seat::turn`].
    pub(crate) async fn try_turn(&mut self, line: &Line) -> Result<Option<Arc<Hold>>> {
        loop {
            match self {
                Self::Held(hold) if hold.is_valid() => return Ok(Some(Arc::clone(hold))),
                Self::Held(_) => *self = Self::Empty,
                Self::Empty => match line.try_enter(Bytes::new(), first_in_line).await? {
                    Some(hold) => *self = Self::Held(Arc::new(hold)),
                    None => return Ok(None),
                },
                Self::Waiting(place) => match place.verdict(&first_in_line).await {
                    Ok(Verdict::Granted) => self.granted(),
                    Ok(_) => return Ok(None),
                    Err(error) => {
                        *self = Self::Empty;
                        return Err(error);
                    }
                },
            }
        }
    }

    /// Whether it is our turn, as far as we know.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self, Self::Held(hold) if hold.is_valid())
    }

    /// What is held, leaving the seat empty.
    pub(crate) fn take_hold(&mut self) -> Option<Arc<Hold>> {
        match mem::take(self) {
            Self::Held(hold) => Some(hold),
            other => {
                *self = other;
                None
            }
        }
    }

    fn granted(&mut self) {
        if let Self::Waiting(place) = mem::take(self) {
            *self = Self::Held(Arc::new(Hold::new(place)));
        }
    }
}
