//! Leading, and ending it.

use std::{collections::BTreeMap, ops::Deref, sync::Arc, time::Duration};

use coord_api::{Child, Error, ErrorKind, FencingToken, Key, Result, Seen};
use tokio::sync::{oneshot, watch};

use super::{candidate::Stand, giveway, participant};
use crate::{Hold, insist::insist};

/// A term as the leader.
///
/// Ends by [`Leadership::resign`] or [`Leadership::hand_over`], or in the background when it is dropped. What it can do
/// while it lasts is in [`Hold`]: [`lost`](Hold::lost), [`is_valid`](Hold::is_valid), [`commit`](Hold::commit).
#[derive(Debug)]
#[must_use = "dropping the leadership resigns: bind it to a name (`let leadership`); `let _` drops it at once"]
pub struct Leadership {
    hold: Arc<Hold>,
    stand: Stand,
    /// Whether the body of a run was asked to stop.
    ending: watch::Sender<bool>,
    /// Ends the task that tells of the loss, when it is dropped.
    _over: oneshot::Sender<()>,
}

impl Leadership {
    pub(super) fn begin(stand: Stand, hold: Hold) -> Self {
        let hold = Arc::new(hold);
        let candidate = Arc::clone(stand.candidate());
        candidate.began(&hold);
        let (over, ended) = oneshot::channel();
        // The candidate's state must not depend on somebody who polls `lost`.
        hold.session().coord().runtime().spawn({
            let hold = Arc::clone(&hold);
            async move {
                tokio::select! {
                    biased;
                    _ = ended => {}
                    () = hold.lost() => candidate.ended(hold.token()),
                }
            }
        });
        Self { hold, stand, ending: watch::Sender::new(false), _over: over }
    }

    /// The epoch: larger than that of every earlier leader, on every store (promise G1).
    ///
    /// Send it with everything you do as the leader, and let receivers refuse an epoch smaller than one they have
    /// seen.
    #[must_use]
    pub fn epoch(&self) -> FencingToken {
        self.hold.token()
    }

    /// The id of the candidate that leads.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.stand.candidate().id
    }

    /// Stops leading, leaves the line and reports.
    ///
    /// Tries until the store confirms or the session is over, also if the future is dropped.
    ///
    /// # Errors
    /// [`SessionLost`](ErrorKind::SessionLost) and the like if the store did not confirm before the session ended;
    /// another leads then, or will when the store ends the session.
    ///
    /// # Cancel safety
    /// Safe: resigning goes on in the background.
    pub async fn resign(self) -> Result<()> {
        self.end().await
    }

    /// The same for a term that others look at.
    pub(super) async fn end(&self) -> Result<()> {
        let ended = self.hold.release().await;
        self.stand.end();
        ended
    }

    /// Resolves once the term is over, or [`Candidate::run_while_leader`](super::Candidate::run_while_leader) wants
    /// its body to stop for a candidate of higher priority.
    ///
    /// # Cancel safety
    /// Safe: nothing is consumed.
    pub async fn ending(&self) {
        let mut ending = self.ending.subscribe();
        tokio::select! {
            biased;
            // We have the sender, so this does not fail.
            _ = ending.wait_for(|ending| *ending) => {}
            () = self.lost() => {}
        }
    }

    pub(super) fn tell_ending(&self) {
        self.ending.send_replace(true);
    }

    pub(super) fn shared_hold(&self) -> Arc<Hold> {
        Arc::clone(&self.hold)
    }

    /// Makes the candidate `to` the next in line, and resigns.
    ///
    /// Candidates between step behind it by themselves, as those of this library do. If it is not next in time, nothing
    /// has changed: we still lead. It leads next unless it goes away in the very moment.
    ///
    /// # Errors
    /// [`Timeout`](ErrorKind::Timeout) if `to` was not next within the bound: it does not stand, or stands behind a
    /// candidate that does not step back. [`LockLost`](ErrorKind::LockLost) or
    /// [`SessionLost`](ErrorKind::SessionLost) if the leadership was lost meanwhile, or as [`Leadership::resign`].
    ///
    /// # Cancel safety
    /// Safe: the wish is taken back and we lead on, unless resigning had begun, which goes on.
    pub async fn hand_over(&self, to: &str, within: Duration) -> Result<()> {
        match tokio::time::timeout(within, self.until_next(to)).await {
            Ok(next) => next?,
            Err(_) => {
                return Err(Error::new(ErrorKind::Timeout, "the candidate is not next in line; we lead on")
                    .with_operation("hand_over")
                    .with_context("candidate", to)
                    .with_context("election", &self.stand.candidate().election.dir));
            }
        }
        self.end().await
    }

    /// Returns once a candidate of higher priority is next in line.
    ///
    /// For leaders who end their term then, at a good moment: nobody else ends it. Lower ones ahead of it step back by
    /// themselves.
    ///
    /// # Errors
    /// What the store refuses for good; [`SessionLost`](ErrorKind::SessionLost).
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn outranked(&self) -> Result<()> {
        let candidate = self.stand.candidate();
        let (session, dir, notes) = (self.session(), &candidate.election.dir, candidate.election.notes()?);
        let coord = session.coord();
        loop {
            let left = insist(session, || coord.list(&notes)).await?;
            let line = insist(session, || coord.list(dir)).await?;
            if let Some(next) = self.behind_us(&line.children)?.first()
                && giveway::priority(&left.children, next) > candidate.options.priority
            {
                return Ok(());
            }
            let (notes, line) =
                (Seen::Children(notes.clone(), left.revision), Seen::Children(dir.clone(), line.revision));
            insist(session, || async {
                tokio::select! {
                    biased;
                    woken = coord.wait(&notes) => woken,
                    woken = coord.wait(&line) => woken,
                }
            })
            .await?;
        }
    }

    /// Returns once the candidate of this id stands right behind us.
    async fn until_next(&self, to: &str) -> Result<()> {
        let election = &self.stand.candidate().election;
        let (session, notes) = (self.session(), election.notes()?);
        let coord = session.coord();
        // The wish goes with this future.
        let mut wish: Option<(Key, giveway::Note)> = None;
        // An entry never changes who it is.
        let mut ids: BTreeMap<Key, Option<String>> = BTreeMap::new();
        loop {
            self.session().ensure_valid()?;
            let line = insist(session, || coord.list(&election.dir)).await?;
            let behind = self.behind_us(&line.children)?;
            let mut target = None;
            for child in behind {
                if !ids.contains_key(&child.key) {
                    let seen = insist(session, || participant(coord, child.key.clone())).await?;
                    ids.insert(child.key.clone(), seen.map(|seen| seen.participant.id));
                }
                if ids.get(&child.key).is_some_and(|id| id.as_deref() == Some(to)) {
                    target = Some(child);
                    break;
                }
            }
            match target {
                Some(child) if behind.first() == Some(child) => return Ok(()),
                Some(child) if wish.as_ref().is_none_or(|(wished, _)| *wished != child.key) => {
                    let note = giveway::wish(session, &notes, self.key(), &child.key).await?;
                    wish = Some((child.key.clone(), note));
                }
                _ => {}
            }
            let line = Seen::Children(election.dir.clone(), line.revision);
            tokio::select! {
                biased;
                () = self.lost() => self.check().await?,
                woken = insist(session, || coord.wait(&line)) => woken?,
            }
        }
    }

    /// The line behind our own entry.
    fn behind_us<'a>(&self, line: &'a [Child]) -> Result<&'a [Child]> {
        match line.iter().position(|child| child.key == *self.key()) {
            Some(at) => Ok(&line[at + 1..]),
            None => Err(Error::new(ErrorKind::LockLost, "our entry in the line is gone")
                .with_context("key", self.key())),
        }
    }
}

impl Deref for Leadership {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.hold
    }
}
