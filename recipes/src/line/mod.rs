//! The line: join it, wait for the verdict, leave it.
//!
//! Every recipe that lets some wait for others is this engine with another rule. An entry in a directory is a place
//! in the line; the store's order is the line's. Three things are true at every await point:
//!
//! * **One entry an acquire.** A retried or ambiguous join uses the same nonce and finds itself again.
//! * **Nothing left behind.** Joining and leaving run in tasks of their own. A caller who goes away drops the
//!   [`Place`], and a dropped place leaves the line by itself.
//! * **No grant on old news.** A verdict is given on a listing that shows our own entry, while our session surely
//!   lives.

mod place;
mod stragglers;

use std::time::Duration;

use bytes::Bytes;
use coord_api::{Child, Dir, Error, IntoDir, Key, Result, Session, Tag};

use crate::Hold;

pub(crate) use place::Place;
use place::join;

/// Whether it is our turn.
pub(crate) enum Verdict {
    /// It is.
    Granted,
    /// Not before one of these entries is gone.
    ///
    /// They must be such that the turn cannot come while all of them are there: nothing else wakes the waiter.
    Behind(Vec<Key>),
}

/// One line, as one kind of participant of one session sees it.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    session: Session,
    dir: Dir,
    tag: Tag,
}

impl Line {
    /// The line in the directory `name`. Warns once in the log if the store can lose acknowledged writes.
    pub(crate) fn new(session: &Session, name: impl IntoDir, tag: &'static str) -> Result<Self> {
        let dir = name.into_dir()?;
        if dir.is_root() {
            return Err(Error::invalid("this recipe needs a directory of its own, not the root"));
        }
        session.coord().warn_if_exclusion_is_weak();
        Ok(Self { session: session.clone(), dir, tag: Tag::new(tag)? })
    }

    pub(crate) const fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Joins with an entry of this value and waits for the turn, however long.
    ///
    /// `rule` gives the verdict from the line and our index in it.
    pub(crate) async fn enter(
        &self,
        value: Bytes,
        rule: impl Fn(&[Child], usize) -> Verdict + Sync,
    ) -> Result<Hold> {
        let mut place = join(&self.session, &self.dir, &self.tag, value).await?;
        place.turn(&rule).await?;
        Ok(Hold::new(place))
    }

    /// Joins and asks once; leaves again if it is not our turn.
    pub(crate) async fn try_enter(
        &self,
        value: Bytes,
        rule: impl Fn(&[Child], usize) -> Verdict + Sync,
    ) -> Result<Option<Hold>> {
        let mut place = join(&self.session, &self.dir, &self.tag, value).await?;
        match place.verdict(&rule).await? {
            Verdict::Granted => Ok(Some(Hold::new(place))),
            Verdict::Behind(_) => {
                place.leave().await?;
                Ok(None)
            }
        }
    }

    /// Waits for the turn, but not longer than `timeout`; zero means one try.
    pub(crate) async fn enter_timeout(
        &self,
        value: Bytes,
        rule: impl Fn(&[Child], usize) -> Verdict + Sync,
        timeout: Duration,
    ) -> Result<Option<Hold>> {
        if timeout.is_zero() {
            return self.try_enter(value, rule).await;
        }
        match tokio::time::timeout(timeout, self.enter(value, rule)).await {
            Ok(entered) => entered.map(Some),
            Err(_) => Ok(None),
        }
    }
}

/// It is the turn of the first in line; everybody else waits for the one ahead.
pub(crate) fn first_in_line(line: &[Child], at: usize) -> Verdict {
    match at.checked_sub(1).map(|ahead| &line[ahead]) {
        None => Verdict::Granted,
        Some(ahead) => Verdict::Behind(vec![ahead.key.clone()]),
    }
}
