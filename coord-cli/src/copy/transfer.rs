//! Writing page by page, and comparing page by page.

use coord::{Coord, Entry, Error, ErrorKind, Failed, Key, Lifetime, Limits, Txn, TxnOutcome};
use futures::{StreamExt, TryStreamExt, stream};
use sha2::{Digest, Sha256};

use super::{end::Opened, progress::Progress};
use crate::{Failure, walk::AT_ONCE};

/// Most keys of a page: what is in memory, and what one transaction writes.
const PAGE: usize = 100;
/// A page is written when its values have this size, so that a large one fits beside them.
const PAGE_BYTES: usize = 256 * 1024;

/// A key of the source, and the key that it becomes.
pub(super) type Pair = (Key, Key);

/// Copies the keys; each page is written whole or not at all.
///
/// What is gone meanwhile is not written; the comparison finds it. Without `overwrite` a key that is there by now is a
/// [`Conflict`](ErrorKind::Conflict).
pub(super) async fn write(
    from: &Opened,
    to: &Opened,
    pairs: &[Pair],
    overwrite: bool,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let limits = to.coord.info().limits;
    let mut page = Page::default();
    let mut done = 0;
    for chunk in pairs.chunks(PAGE) {
        let values = read(&from.coord, chunk.iter().map(|(key, _)| key)).await?;
        for ((_, key), entry) in chunk.iter().zip(values) {
            let Some(entry) = entry.filter(|entry| entry.meta.owner.is_none()) else { continue };
            if page.is_full(&limits, key, &entry) {
                page.write(&to.coord).await?;
            }
            page.add(key, entry, overwrite);
        }
        page.write(&to.coord).await?;
        done += chunk.len();
        progress.tell("copying keys", done, Some(pairs.len()));
    }
    Ok(())
}

/// The writes of one transaction.
#[derive(Default)]
struct Page {
    keys: Vec<Key>,
    bytes: usize,
    txn: Txn,
}

impl Page {
    fn is_full(&self, limits: &Limits, key: &Key, entry: &Entry) -> bool {
        let bytes = self.bytes + size(key, entry);
        let full = self.keys.len() >= PAGE.min(limits.txn_max_ops) || self.bytes >= PAGE_BYTES;
        !self.keys.is_empty() && (full || bytes > limits.request_max_bytes)
    }

    fn add(&mut self, key: &Key, entry: Entry, overwrite: bool) {
        self.bytes += size(key, &entry);
        self.keys.push(key.clone());
        let txn = std::mem::take(&mut self.txn);
        self.txn = if overwrite {
            txn.put(key, entry.value)
        } else {
            txn.create(key, entry.value, Lifetime::Persistent)
        };
    }

    async fn write(&mut self, to: &Coord) -> Result<(), Failure> {
        let Self { keys, txn, .. } = std::mem::take(self);
        if keys.is_empty() {
            return Ok(());
        }
        let TxnOutcome::Rejected(rejection) = to.commit(txn).await? else { return Ok(()) };
        let error = Error::new(ErrorKind::Conflict, "somebody else wrote to the target meanwhile");
        let key = match rejection.failed {
            Some(Failed::Op(at) | Failed::Check(at)) => keys.get(at),
            None => None,
        };
        Err(match key {
            Some(key) => error.with_context("key", key),
            None => error,
        }
        .into())
    }
}

fn size(key: &Key, entry: &Entry) -> usize {
    key.as_str().len() + entry.value.len()
}

/// What both sides hold.
#[derive(Debug)]
pub(super) struct Compared {
    /// SHA-256 over the keys of the target as they are below its directory, and their values.
    pub(super) digest: String,
    /// Keys of the source that the target has not, or with another value.
    pub(super) differs: Vec<Key>,
}

/// Reads both sides again and compares digests, key by key and of all.
pub(super) async fn compare(
    from: &Opened,
    to: &Opened,
    pairs: &[Pair],
    progress: &mut Progress,
) -> Result<Compared, Failure> {
    let mut all = Sha256::new();
    let mut differs = Vec::new();
    let mut done = 0;
    for chunk in pairs.chunks(PAGE) {
        let theirs = read(&from.coord, chunk.iter().map(|(key, _)| key));
        let ours = read(&to.coord, chunk.iter().map(|(_, key)| key));
        let (theirs, ours) = futures::try_join!(theirs, ours)?;
        for (((key, moved), theirs), ours) in chunk.iter().zip(theirs).zip(ours) {
            let name = to.dir.relative(moved).unwrap_or_else(|| moved.as_str());
            // A put keeps the owner: what goes with a session of the target is no copy.
            let stays = ours.as_ref().is_none_or(|entry| entry.meta.owner.is_none());
            let ours = ours.map(|entry| digest(name, &entry));
            if let Some(ours) = &ours {
                all.update(ours);
            }
            if !stays || theirs.map(|entry| digest(name, &entry)) != ours {
                differs.push(key.clone());
            }
        }
        done += chunk.len();
        progress.tell("comparing keys", done, Some(pairs.len()));
    }
    let digest = all.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Compared { digest, differs })
}

/// Of a name and its value, with the length between them so that they cannot run into each other.
fn digest(name: &str, entry: &Entry) -> [u8; 32] {
    let mut digest = Sha256::new();
    digest.update(u64::try_from(name.len()).unwrap_or(u64::MAX).to_be_bytes());
    digest.update(name);
    digest.update(&entry.value);
    digest.finalize().into()
}

/// The entries of these keys, in their order.
async fn read<'k>(coord: &Coord, keys: impl Iterator<Item = &'k Key>) -> Result<Vec<Option<Entry>>, Failure> {
    let keys: Vec<Key> = keys.cloned().collect();
    let reads = stream::iter(keys).map(|key| async move { coord.get(&key).await });
    Ok(reads.buffered(AT_ONCE).try_collect().await?)
}

#[cfg(test)]
mod tests {
    use coord::Dir;

    use super::*;

    async fn two(name: &str) -> (Opened, Opened, Vec<Pair>) {
        let open = async |side: &str| Opened {
            coord: coord::connect(&format!("memory:{name}-{side}")).await.unwrap(),
            dir: Dir::root(),
        };
        let (from, to) = (open("from").await, open("to").await);
        let keys = ["/a", "/b/c"].map(|key| Key::parse(key).unwrap());
        for key in &keys {
            from.coord.put(key, "1").await.unwrap();
        }
        (from, to, keys.map(|key| (key.clone(), key)).to_vec())
    }

    #[tokio::test]
    async fn what_differs_after_all_is_found() {
        let (from, to, pairs) = two("differs").await;
        write(&from, &to, &pairs, false, &mut Progress::new()).await.unwrap();
        let same = compare(&from, &to, &pairs, &mut Progress::new()).await.unwrap();
        assert!(same.differs.is_empty() && same.digest.len() == 64);

        to.coord.put("/b/c", "2").await.unwrap();
        from.coord.delete("/a").await.unwrap();
        let compared = compare(&from, &to, &pairs, &mut Progress::new()).await.unwrap();
        let differs: Vec<_> = compared.differs.iter().map(Key::as_str).collect();
        assert_eq!(differs, ["/a", "/b/c"]);
        assert_ne!(compared.digest, same.digest);
    }

    #[tokio::test]
    async fn a_key_that_goes_with_a_session_of_the_target_is_no_copy() {
        let (from, to, pairs) = two("session").await;
        let session = to.coord.session(std::time::Duration::from_secs(10)).await.unwrap();
        session.coord().create("/a", "", coord::Lifetime::Session).await.unwrap().unwrap();
        write(&from, &to, &pairs, true, &mut Progress::new()).await.unwrap();
        let compared = compare(&from, &to, &pairs, &mut Progress::new()).await.unwrap();
        assert_eq!(compared.differs.iter().map(Key::as_str).collect::<Vec<_>>(), ["/a"]);
    }

    #[tokio::test]
    async fn a_key_that_others_write_meanwhile_is_not_overwritten() {
        let (from, to, pairs) = two("meanwhile").await;
        to.coord.put("/b/c", "theirs").await.unwrap();
        let refused = write(&from, &to, &pairs, false, &mut Progress::new()).await;
        let Err(Failure::Store(error)) = refused else { panic!("{refused:?}") };
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.to_string().contains("/b/c"), "{error}");
        assert!(to.coord.get("/a").await.unwrap().is_none(), "a page is written whole or not at all");
        write(&from, &to, &pairs, true, &mut Progress::new()).await.unwrap();
        assert_eq!(to.coord.get("/b/c").await.unwrap().unwrap().value, "1");
    }
}
