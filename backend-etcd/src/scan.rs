//! Reading ranges of keys.

use std::sync::Arc;

use bytes::Bytes;
use coord_api::{Entry, Meta, Result, Revision, SessionId, Version};
use etcd_client::{GetOptions, proto::PbKeyValue};

use crate::{
    endpoints::Endpoints,
    error::{Call, Failure, broken},
    paths::{Paths, Range},
};

/// Keys a page, where only names are read.
const NAMES: i64 = 5_000;
/// Entries a page with their values; fewer where they are large.
const ENTRIES: i64 = 500;
/// How often a listing starts over because its revision was compacted under it.
const RESTARTS: usize = 3;

/// What a range held at one revision.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) kvs: Vec<PbKeyValue>,
    pub(crate) revision: i64,
}

/// Whether values are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    Names,
    Entries,
}

/// Reads a whole range at one revision, the newest, page by page.
pub(crate) async fn scan(endpoints: &Arc<Endpoints>, range: Range, want: Want) -> Result<Scan, Failure> {
    let mut restarts = RESTARTS;
    loop {
        let first = Scan { kvs: Vec::new(), revision: 0 };
        match rest(endpoints, range.clone(), want, first).await {
            Err(failure) if failure.compacted && restarts > 0 => restarts -= 1,
            result => return result,
        }
    }
}

/// Reads the rest of a range at the revision of what was read already; 0 is the newest.
pub(crate) async fn rest(
    endpoints: &Arc<Endpoints>,
    mut range: Range,
    want: Want,
    mut read: Scan,
) -> Result<Scan, Failure> {
    let mut limit = if want == Want::Names { NAMES } else { ENTRIES };
    loop {
        let mut options =
            GetOptions::new().with_range(range.end.clone()).with_limit(limit).with_revision(read.revision);
        if want == Want::Names {
            options = options.with_keys_only();
        }
        let start = range.start.clone();
        let page = endpoints.call(Call::Read, move |connection| {
            let (start, options) = (start.clone(), options.clone());
            async move { connection.kv().get(start, Some(options)).await }
        });
        let page = match page.await {
            Ok(page) => page.0,
            // Values may have a megabyte each.
            Err(failure) if failure.too_large && limit > 1 => {
                limit = (limit / 8).max(1);
                continue;
            }
            Err(failure) => return Err(failure),
        };
        if read.revision == 0 {
            let header =
                page.header.ok_or_else(|| Failure::plain(broken("an answer of etcd has no header")))?;
            read.revision = header.revision;
        }
        let last = page.kvs.last().map(|kv| kv.key.clone());
        read.kvs.extend(page.kvs);
        match last {
            Some(last) if page.more => range = range.after(&last),
            _ => return Ok(read),
        }
    }
}

/// An etcd revision as ours.
pub(crate) fn revision(number: i64) -> Revision {
    Revision::new(u64::try_from(number).unwrap_or(0))
}

/// Our number as etcd's. One that etcd cannot have matches nothing there.
pub(crate) fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The name of a lease: lower hex without padding, as etcd's clients write it.
pub(crate) fn session_id(lease: i64) -> SessionId {
    SessionId::new(format!("{lease:x}"))
}

/// An entry as etcd tells it; `None` if its key is none of ours.
pub(crate) fn entry(paths: &Paths, kv: PbKeyValue) -> Option<Entry> {
    let key = paths.decode(&kv.key)?;
    let modified = revision(kv.mod_revision);
    let owner = (kv.lease != 0).then(|| session_id(kv.lease));
    let meta = Meta::new(revision(kv.create_revision), modified, Version::new(modified.get()), owner);
    Some(Entry::new(key, Bytes::from(kv.value), meta))
}
