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
mod rule;
mod seat;
mod stragglers;

use std::time::Duration;

use bytes::Bytes;
use coord_api::{Child, Dir, IntoDir, Lifetime, Result, Session, Tag, events::Recipe};
use tokio::time::Instant;

use crate::{Hold, dirs::own};

pub(crate) use place::{Place, delete_surely};
pub(crate) use rule::{Rule, Verdict, first_in_line};
pub(crate) use seat::Seat;

/// One line, as one kind of participant of one session sees it.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    session: Session,
    dir: Dir,
    tag: Tag,
    /// As what those who listen hear of it; `None` for lines that only recipes know.
    told_as: Option<Recipe>,
}

impl Line {
    /// The line in the directory `name`. Warns once in the log if the store can lose acknowledged writes.
    pub(crate) fn new(session: &Session, name: impl IntoDir, tag: &'static str) -> Result<Self> {
        let dir = own(name, "this recipe needs a directory of its own, not the root")?;
        session.coord().warn_if_exclusion_is_weak();
        Ok(Self { session: session.clone(), dir, tag: Tag::new(tag)?, told_as: None })
    }

    /// The same, telling those who listen of each try.
    pub(crate) fn told_as(self, recipe: Recipe) -> Self {
        Self { told_as: Some(recipe), ..self }
    }

    pub(crate) const fn dir(&self) -> &Dir {
        &self.dir
    }

    pub(crate) const fn session(&self) -> &Session {
        &self.session
    }

    /// Joins with an entry of this value, under the tag of this line, without asking for the turn.
    ///
    /// # Cancel safety
    /// Safe: if the future is dropped, the join ends or is undone in the background.
    pub(crate) async fn join(&self, value: Bytes) -> Result<Place> {
        self.join_as(self.tag.clone(), value, Lifetime::Session).await
    }

    /// The same under another tag, or to stay beyond the session.
    pub(crate) async fn join_as(&self, tag: Tag, value: Bytes, lifetime: Lifetime) -> Result<Place> {
        let began = Instant::now();
        let mut place = place::join(&self.session, &self.dir, tag, value, lifetime).await?;
        if let Some(recipe) = self.told_as {
            place.tell(self.session.report(recipe, self.dir.clone(), began));
        }
        Ok(place)
    }

    /// Joins with an entry of this value and waits for the turn, however long.
    ///
    /// `rule` gives the verdict from the line and our index in it.
    pub(crate) async fn enter(
        &self,
        value: Bytes,
        rule: impl Fn(&[Child], usize) -> Verdict + Sync,
    ) -> Result<Hold> {
        let place = self.join(value).await?;
        place.hold(&rule).await
    }

    /// Joins and asks once; leaves again if it is not our turn.
    pub(crate) async fn try_enter(
        &self,
        value: Bytes,
        rule: impl Fn(&[Child], usize) -> Verdict + Sync,
    ) -> Result<Option<Hold>> {
        let place = self.join(value).await?;
        place.try_hold(&rule).await
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
        in_time(timeout, self.enter(value, rule)).await
    }
}

/// What `entering` gives, or `None` if the time ran out first.
pub(crate) async fn in_time<T>(
    timeout: Duration,
    entering: impl Future<Output = Result<T>>,
) -> Result<Option<T>> {
    match tokio::time::timeout(timeout, entering).await {
        Ok(entered) => entered.map(Some),
        Err(_) => Ok(None),
    }
}
