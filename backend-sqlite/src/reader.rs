//! The thread that reads, and feeds the copies of directories from the log.

use std::{mem, sync::Arc};

use coord_api::{
    Dir, Error, ErrorKind, Listing, Revision,
    kit::{Change, Hub, Hubs},
};
use rusqlite::Connection;

use crate::{
    bell::Ears,
    error::{Fault, is_final, replaced},
    query::{self, Found, Step},
    queue::Turn,
    store::Store,
};

/// Most jobs that are done before the next look at the log.
const BATCH: usize = 64;

/// How a copy begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// With everything there is.
    Whole,
    /// With what changed after this revision, if the log still has it.
    After(Revision),
}

#[derive(Debug)]
pub(crate) struct Reader {
    conn: Connection,
    store: Arc<Store>,
    feeds: Vec<Feed>,
    /// What the copies have reached; `None` while there are none.
    at: Option<Revision>,
    /// The driver's number for the commits that were looked at.
    version: Option<i64>,
    ears: Option<Ears>,
}

/// One copy that follows the log.
#[derive(Debug)]
struct Feed {
    hub: Arc<Hub>,
    /// Where it is found.
    hubs: Hubs,
    /// What it still has to begin with.
    begin: Option<Begin>,
    /// It lacks rows that cannot be read, or the beginning.
    partial: bool,
}

impl Reader {
    pub(crate) const fn new(conn: Connection, store: Arc<Store>) -> Self {
        Self { conn, store, feeds: Vec::new(), at: None, version: None, ears: None }
    }

    /// Works until the queue is closed and empty.
    pub(crate) fn run(mut self) {
        loop {
            let pause = (!self.feeds.is_empty()).then_some(self.store.poll);
            let Turn::Go(jobs) = self.store.reads.take(pause, BATCH) else { return };
            for job in jobs {
                if job.claim.take() {
                    (job.work)(&mut self);
                }
            }
            self.look();
        }
    }

    /// The connection, if the file is still the one that it leads to.
    pub(crate) fn conn(&self) -> Result<&Connection, Fault> {
        self.store.identity.ensure_same()?;
        Ok(&self.conn)
    }

    /// Feeds a new copy from now on.
    pub(crate) fn attach(&mut self, hub: Arc<Hub>, hubs: Hubs, begin: Begin) {
        if self.ears.is_none() {
            // Before the first look: what is committed after that is heard.
            self.ears = Ears::listen(&self.store);
        }
        self.feeds.push(Feed { hub, hubs, begin: Some(begin), partial: true });
        self.look();
    }

    /// A watcher wants a snapshot that its copy does not have, or a test that there be a gap.
    pub(crate) fn reload(&mut self, which: impl Fn(&Hub) -> bool) {
        for feed in self.feeds.iter_mut().filter(|feed| which(&feed.hub)) {
            feed.begin = Some(Begin::Whole);
        }
        self.look();
    }

    /// Nobody uses a copy any more.
    pub(crate) fn detach(&mut self, hub: &Arc<Hub>) {
        self.feeds.retain(|feed| !Arc::ptr_eq(&feed.hub, hub));
        self.rest();
    }

    fn rest(&mut self) {
        if self.feeds.is_empty() {
            (self.at, self.version, self.ears) = (None, None, None);
        }
    }

    /// Brings all copies to the newest revision. Tells whether they are there.
    pub(crate) fn look(&mut self) -> bool {
        if self.feeds.is_empty() {
            return true;
        }
        let followed = self.follow().map_err(Fault::into_error);
        let there = followed.is_ok();
        match followed {
            Ok(()) => {}
            // The next look may do better.
            Err(error) if !is_final(&error) => tracing::debug!(%error, "the log cannot be read"),
            Err(error) => {
                let error = error.with_context("file", self.store.identity.path().display());
                mem::take(&mut self.feeds).iter().for_each(|feed| feed.fail(error.again()));
            }
        }
        self.rest();
        there
    }

    /// The names in a directory: from its copy, if it has one that is whole, and else from the tables.
    pub(crate) fn listing(&mut self, dir: &Dir, copy: Option<&Hub>) -> Result<Listing, Fault> {
        if let Some(copy) = copy
            && self.look()
            && self.feeds.iter().any(|feed| std::ptr::eq(&*feed.hub, copy) && !feed.partial)
        {
            return Ok(copy.listing(dir));
        }
        // One moment for the names and the revision.
        let txn = self.conn()?.unchecked_transaction()?;
        let (now, _) = query::history(&txn)?;
        Ok(query::listing(&txn, dir, now, None)?.unwrap_or_default())
    }

    fn follow(&mut self) -> Result<(), Fault> {
        self.store.identity.ensure_same()?;
        // Before the log is read: what is committed after that has another number.
        let version = query::data_version(&self.conn)?;
        if self.version == Some(version) && self.feeds.iter().all(|feed| feed.begin.is_none()) {
            return Ok(());
        }
        let txn = self.conn.unchecked_transaction()?;
        let (now, floor) = query::history(&txn)?;
        let steps = match self.at {
            Some(at) if at > now => return Err(replaced().into()),
            Some(at) if at >= floor => Some(query::after(&txn, at)?),
            _ => None,
        };
        for feed in &mut self.feeds {
            feed.advance(&txn, now, floor, steps.as_ref())?;
        }
        self.feeds.retain(|feed| !matches!(feed.begin, Some(Begin::After(_))));
        (self.at, self.version) = (Some(now), Some(version));
        Ok(())
    }
}

impl Feed {
    /// Brings one copy to `now`; `steps` are what changed since all others were there, if the log has it.
    ///
    /// A copy that was told some of it before knows by the revision.
    fn advance(
        &mut self,
        conn: &Connection,
        now: Revision,
        floor: Revision,
        steps: Option<&Found<Step>>,
    ) -> rusqlite::Result<()> {
        match (self.begin, steps) {
            (None, Some(steps)) => self.deliver(steps, now),
            (Some(Begin::After(after)), _) if after > now => {
                let early = "the watch starts at a revision that the store has not reached";
                self.fail(Error::new(ErrorKind::InvalidArgument, early).with_context("revision", after));
                return Ok(()); // its beginning is left, by which it is known
            }
            (Some(Begin::After(after)), _) if after >= floor => {
                self.deliver(&query::after(conn, after)?, now);
            }
            _ => {
                let found = query::below(conn, self.hub.dir())?;
                self.partial = found.left_out;
                self.hub.reset(now, found.rows);
            }
        }
        self.begin = None;
        Ok(())
    }

    fn deliver(&mut self, steps: &Found<Step>, now: Revision) {
        self.partial |= steps.left_out;
        for (revision, changes) in &steps.rows {
            let inside = |change: &&Change| concerns(self.hub.dir(), change);
            let changes: Vec<Change> = changes.iter().filter(inside).cloned().collect();
            if !changes.is_empty() {
                self.hub.apply(*revision, changes);
            }
        }
        self.hub.progress(now);
    }

    fn fail(&self, error: Error) {
        self.hubs.forget(&self.hub);
        self.hub.fail(error);
    }
}

fn concerns(dir: &Dir, change: &Change) -> bool {
    match change {
        Change::Put(entry) => dir.contains(&entry.key),
        Change::Delete(key) => dir.contains(key),
    }
}
