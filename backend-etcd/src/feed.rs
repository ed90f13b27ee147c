//! Feeding the mirror of a directory: a snapshot, then one watch for as long as the mirror is used.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use coord_api::{
    Error, ErrorKind, Result, Retry, Revision,
    kit::{Backoff, Change, Hub},
};
use etcd_client::{WatchOptions, WatchResponse, WatchStream, proto::PbEvent};
use futures::FutureExt;
use tokio::time::Instant;

use crate::{
    assemble::Assembler,
    error::{Call, Failure, broken, classify, read},
    paths::Range,
    scan::{Want, entry, revision, scan},
    store::Store,
};

/// After how much silence a watch is asked whether it still lives. The probes of the connection come too late for
/// those who wait, and etcd does not allow more of them.
const ASK: Duration = Duration::from_secs(3);
/// How long it may take to answer.
const ANSWER: Duration = Duration::from_secs(3);
/// How long opening a watch may take; the driver's time-out does not cover what comes after the headers.
const OPEN: Duration = Duration::from_secs(5);
/// Longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The feed of one mirror.
pub(crate) struct Feed {
    store: Arc<Store>,
    hub: Arc<Hub>,
    range: Range,
    /// The mirror has everything up to here; `None` means that it needs a snapshot.
    cursor: Option<i64>,
    /// The mirror had a snapshot.
    loaded: bool,
    backoff: Backoff,
    /// Tells its unreadable keys from those of other feeds.
    id: u64,
}

/// Why a watch ended.
enum End {
    /// It broke, or nothing comes over it any more: try again.
    Again(Trouble),
    /// What the mirror lacks is compacted, or somebody wants a snapshot.
    Snapshot,
    /// It will never work.
    Final(Error),
}

/// Who is to blame for the end of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// Nobody that is known, or it is dealt with.
    Unknown,
    /// The member, which broke the connection or cannot serve.
    Member,
    /// The connection: nothing came over it.
    Silence,
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        if failure.compacted {
            return Self::Snapshot;
        }
        match failure.error.kind() {
            // A full store, a slow one, one without a leader: it passes.
            ErrorKind::Unavailable | ErrorKind::Timeout => Self::Again(Trouble::Unknown),
            _ if failure.error.retry() == Retry::Safe => Self::Again(Trouble::Unknown),
            _ => Self::Final(failure.error),
        }
    }
}

impl Feed {
    /// A feed for `hub`; `after` is where it starts, and `None` means with a snapshot.
    pub(crate) fn new(store: Arc<Store>, hub: Arc<Hub>, after: Option<Revision>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let range = store.paths.range(hub.dir());
        Self {
            store,
            hub,
            range,
            cursor: after.map(|after| crate::scan::number(after.get())),
            loaded: false,
            backoff: Backoff::new(PAUSE_MAX),
            id: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Feeds the mirror until it is dropped, or tells the mirror what will never work.
    pub(crate) async fn run(mut self) {
        let error = self.follow().await;
        self.hub.fail(error);
    }

    /// Returns only what is final.
    async fn follow(&mut self) -> Error {
        loop {
            match Box::pin(self.watch_once()).await {
                End::Final(error) => return error,
                End::Snapshot => self.cursor = None,
                End::Again(_) => self.backoff.sleep(&self.store.runtime).await,
            }
        }
    }

    async fn watch_once(&mut self) -> End {
        let from = match self.cursor {
            Some(from) => from,
            None => match self.snapshot().await {
                Ok(at) => at,
                Err(end) => return end,
            },
        };
        let connection = match self.store.endpoints.connection().await {
            Ok(connection) => connection,
            Err(failure) => return failure.into(),
        };
        let link = connection.link;
        let options = WatchOptions::new()
            .with_range(self.range.end.clone())
            // Beyond the newest revision in the quiet case: the server then serves it at once and not by its
            // 100 ms loop for watches that lag.
            .with_start_revision(from.saturating_add(1))
            // Without it a backlog of more than the decode limit could never be read.
            .with_fragment();
        let mut watch = connection.watch();
        let opening = watch.watch(self.range.start.clone(), Some(options));
        let end = match tokio::time::timeout(OPEN, opening).await {
            Ok(Ok(stream)) => self.read(stream).await,
            Ok(Err(e)) => broke(e),
            Err(_) => End::Again(Trouble::Silence),
        };
        match &end {
            End::Again(Trouble::Member) => self.store.endpoints.failed(link, false),
            End::Again(Trouble::Silence) => self.store.endpoints.failed(link, true),
            // The driver renews the token for calls, not for watches.
            End::Final(error) if error.kind() == ErrorKind::Unauthenticated => {
                if let Err(failure) = read(connection.client.refresh_token().await) {
                    return failure.into();
                }
                return End::Again(Trouble::Unknown);
            }
            _ => {}
        }
        end
    }

    /// Everything there is, into the mirror.
    async fn snapshot(&mut self) -> Result<i64, End> {
        let all = scan(&self.store.endpoints, self.range.clone(), Want::Entries).await?;
        if self.loaded && revision(all.revision) < self.hub.revision() {
            return Err(End::Final(
                Error::new(
                    ErrorKind::Unexpected,
                    "the store went back in time: was it restored from a backup?",
                )
                .with_context("revision", all.revision)
                .with_context("seen", self.hub.revision()),
            ));
        }
        let mut entries = Vec::with_capacity(all.kvs.len());
        let mut unreadable = BTreeMap::new();
        for kv in all.kvs {
            let (name, created) = (kv.key.clone(), kv.create_revision);
            match entry(&self.store.paths, kv) {
                Some(entry) => entries.push(entry),
                None => drop(unreadable.insert(name, created)),
            }
        }
        if !unreadable.is_empty() {
            tracing::warn!(dir = %self.hub.dir(), keys = unreadable.len(), "left out keys of others that are not UTF-8");
        }
        self.store.unreadable.replace(self.id, self.hub.dir(), unreadable);
        self.hub.reset(revision(all.revision), entries);
        self.cursor = Some(all.revision);
        self.loaded = true;
        // Those who came before the copy was there asked for what they have now.
        let _ = self.hub.reset_wanted().now_or_never();
        Ok(all.revision)
    }

    /// Applies what the watch tells, to its end.
    async fn read(&mut self, mut stream: WatchStream) -> End {
        let hub = Arc::clone(&self.hub);
        // Old servers may not answer where nothing happens.
        let asks = self.store.orders_progress;
        let mut assembler = Assembler::default();
        let mut due = Instant::now() + ASK;
        let mut asked = false;
        loop {
            tokio::select! {
                biased;
                // First: under a flood of events the others never get their turn.
                () = hub.reset_wanted() => return End::Snapshot,
                message = stream.message() => {
                    let taken = match message {
                        Ok(Some(response)) => self.take(response, &mut assembler),
                        // A stream that ends without a word ended by mistake.
                        Ok(None) => Err(End::Again(Trouble::Member)),
                        Err(e) => Err(broke(e)),
                    };
                    if let Err(end) = taken {
                        return end;
                    }
                    due = Instant::now() + ASK;
                    asked = false;
                }
                () = tokio::time::sleep_until(due), if asks => {
                    if asked || stream.request_progress().await.is_err() {
                        tracing::debug!(dir = %hub.dir(), "a watch went silent");
                        return End::Again(Trouble::Silence);
                    }
                    asked = true;
                    due = Instant::now() + ANSWER;
                }
            }
        }
    }

    fn take(&mut self, response: WatchResponse, assembler: &mut Assembler) -> Result<(), End> {
        let response = response.0;
        // Before `created`: a refused watch is both, and its header has no revision.
        if response.canceled {
            return Err(canceled(response.compact_revision, &response.cancel_reason));
        }
        let asked_for = !response.created && response.events.is_empty() && !response.fragment;
        let events: Vec<_> = response.events.into_iter().filter_map(|event| self.change(event)).collect();
        for (at, changes) in assembler.take(events, response.fragment) {
            self.hub.apply(revision(at), changes);
            self.cursor = Some(at);
            self.backoff.reset();
        }
        // The answer to a request for progress: nothing else happened up to its revision.
        // Not of a server whose answers overtake events, which the mirror would then take for known.
        if asked_for
            && assembler.is_whole()
            && self.store.orders_progress
            && let Some(header) = response.header
        {
            let at = header.revision.max(self.cursor.unwrap_or(0));
            self.cursor = Some(at);
            self.hub.progress(revision(at));
        }
        Ok(())
    }

    /// The change that an event tells; a revision without a change if its key is none of ours.
    fn change(&self, event: PbEvent) -> Option<(i64, Option<Change>)> {
        let kv = event.kv?;
        let at = kv.mod_revision;
        // 0 is a put, 1 a deletion; the driver's accessor panics on anything else.
        if event.r#type == 1 {
            let Some(key) = self.store.paths.decode(&kv.key) else {
                self.store.unreadable.delete(self.id, &kv.key);
                return Some((at, None));
            };
            return Some((at, Some(Change::Delete(key))));
        }
        let (name, created) = (kv.key.clone(), kv.create_revision);
        match entry(&self.store.paths, kv) {
            Some(entry) => Some((at, Some(Change::Put(entry)))),
            None => {
                tracing::warn!(dir = %self.hub.dir(), "left out a key of others that is not UTF-8");
                self.store.unreadable.put(self.id, self.hub.dir(), name, created);
                Some((at, None))
            }
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.store.unreadable.end(self.id);
    }
}

/// A watch that the driver could not open or go on with.
fn broke(error: etcd_client::Error) -> End {
    let failure = crate::error::failure(error, Call::Read);
    match (failure.rotate, failure.silent) {
        (true, true) => End::Again(Trouble::Silence),
        (true, false) => End::Again(Trouble::Member),
        (false, _) => failure.into(),
    }
}

/// Why the server ended a watch. It tells by text only.
fn canceled(compacted: i64, reason: &str) -> End {
    if compacted != 0 || reason.contains("has been compacted") {
        return End::Snapshot;
    }
    // `rpc error: code = Unauthenticated desc = etcdserver: invalid auth token`
    let status = [
        ("Unauthenticated", 16),
        ("invalid auth token", 16),
        ("PermissionDenied", 7),
        ("permission denied", 7),
    ]
    .into_iter()
    .find_map(|(text, status)| reason.contains(text).then_some(status));
    match status {
        // No leader, or too slow a reader: another member may do better.
        None => End::Again(Trouble::Member),
        Some(status) => {
            let (kind, retry) = classify(status, reason, Call::Read);
            let error = if reason.is_empty() {
                broken("etcd ended a watch")
            } else {
                Error::new(kind, "etcd refused the watch").with_retry(retry).with_source(reason.to_owned())
            };
            End::Final(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancelled_watch_says_why() {
        assert!(matches!(canceled(9, ""), End::Snapshot));
        assert!(matches!(
            canceled(0, "etcdserver: mvcc: required revision has been compacted"),
            End::Snapshot
        ));
        assert!(matches!(canceled(0, "etcdserver: no leader"), End::Again(Trouble::Member)));
        assert!(matches!(canceled(0, ""), End::Again(Trouble::Member)));
        for (reason, kind) in [
            (
                "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token",
                ErrorKind::Unauthenticated,
            ),
            (
                "rpc error: code = PermissionDenied desc = etcdserver: permission denied",
                ErrorKind::PermissionDenied,
            ),
        ] {
            let End::Final(error) = canceled(0, reason) else { panic!("{reason}") };
            assert_eq!(error.kind(), kind, "{reason}");
        }
    }
}
