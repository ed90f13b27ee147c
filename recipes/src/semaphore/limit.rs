//! How many permits there are: what was agreed, and what we know of it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use coord_api::{Dir, Entry, Error, ErrorKind, Freshness, Key, Lifetime, Result, Revision, Session};

use crate::{dirs::beside, insist::insist, line::Place};

/// The number of permits of a semaphore.
#[derive(Debug)]
pub(super) struct Limit {
    /// Where it is agreed.
    key: Key,
    known: Mutex<Known>,
}

/// The number as it was when we last looked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) permits: u32,
    /// The revision that set it.
    pub(super) modified: Revision,
}

impl Limit {
    /// Agrees on the number for the semaphore in `dir`, or finds that it is agreed.
    pub(super) async fn agree(session: &Session, dir: &Dir, permits: u32) -> Result<Self> {
        let key = beside(dir)?.key("permits")?;
        let coord = session.coord().clone().with_freshness(Freshness::Latest);
        let entry = match insist(session, || coord.get(&key)).await? {
            Some(entry) => Some(entry),
            None => {
                // Whoever was first: a second create changes nothing, so it may be sent again after a lost reply.
                insist(session, || coord.create(&key, permits.to_string(), Lifetime::Persistent)).await?;
                insist(session, || coord.get(&key)).await?
            }
        };
        let known = read(&key, entry)?;
        if known.permits != permits {
            return Err(Error::invalid("the semaphore was agreed on with another number of permits")
                .with_context("asked", permits)
                .with_context("agreed", known.permits)
                .with_context("key", &key));
        }
        Ok(Self { key, known: Mutex::new(known) })
    }

    pub(super) const fn key(&self) -> &Key {
        &self.key
    }

    pub(super) fn known(&self) -> Known {
        *self.lock()
    }

    /// The number now.
    pub(super) async fn latest(&self, session: &Session) -> Result<u32> {
        let coord = session.coord().clone().with_freshness(Freshness::Latest);
        let entry = insist(session, || coord.get(&self.key)).await?;
        Ok(read(&self.key, entry)?.permits)
    }

    /// What is known in a line whose newest mark is of the change at `marked`: if we have not read that change, we do.
    pub(super) async fn at(&self, place: &Place, marked: Option<Revision>) -> Result<Known> {
        let known = self.known();
        if marked.is_none_or(|marked| marked <= known.modified) {
            return Ok(known);
        }
        // Latest: the number was set before the mark was made, and must not be read from before that.
        self.look(place, Freshness::Latest).await
    }

    /// Looks at the number again.
    pub(super) async fn look(&self, place: &Place, freshness: Freshness) -> Result<Known> {
        let seen = read(&self.key, place.read(&self.key, freshness).await?)?;
        let mut known = self.lock();
        // Another task may have read a newer one meanwhile.
        if seen.modified >= known.modified {
            *known = seen;
        }
        Ok(*known)
    }

    /// Sets the number; the revision that did.
    pub(super) async fn change(&self, session: &Session, permits: u32) -> Result<Revision> {
        let coord = session.coord().clone().with_freshness(Freshness::Latest);
        // Sent again after a lost reply, it finds the number as it should be.
        let change = || async {
            let Some(entry) = coord.get(&self.key).await? else { return Err(malformed(&self.key)) };
            if count(&entry) == Some(permits) {
                return Ok(entry.meta.modified);
            }
            match coord.compare_and_set(&self.key, entry.meta.version, permits.to_string()).await? {
                Some(written) => Ok(written.revision),
                None => Err(Error::unavailable("the number of permits is being changed by others, too")),
            }
        };
        insist(session, change).await
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(key: &Key, entry: Option<Entry>) -> Result<Known> {
    let entry = entry.ok_or_else(|| malformed(key))?;
    let permits = count(&entry).ok_or_else(|| malformed(key))?;
    Ok(Known { permits, modified: entry.meta.modified })
}

fn count(entry: &Entry) -> Option<u32> {
    let text = std::str::from_utf8(&entry.value).ok()?;
    text.parse().ok().filter(|permits| *permits > 0)
}

fn malformed(key: &Key) -> Error {
    Error::new(ErrorKind::Malformed, "the agreed number of permits is gone, or is no number")
        .with_context("key", key)
}
