//! Drafts: content that is not published yet.

use bytes::Bytes;
use coord_api::{
    Check, Entry, Error, ErrorKind, Lifetime, Op, Result, Retry, Txn, TxnOutcome, Version, kit::Backoff,
};
use serde::{Deserialize, Serialize};
use tokio::time::{Duration, Instant};

use crate::{
    Edit, Edited, Namespace,
    change::Intent,
    model::{Content, Generation, Provenance, Stored, read, write},
};

/// Longest pause between two tries.
const RETRY_CAP: Duration = Duration::from_secs(1);

/// The draft of a namespace, as it was when it was read.
///
/// There is one in a namespace, for people to work on together; consumers see nothing of it, and no rollback touches it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Draft {
    /// What it holds. It may be malformed: a draft is work in progress.
    pub content: Content,
    /// The generation that was there when it was begun, for [`Edit::expecting`]; `None` if nothing was published then.
    pub base: Option<Generation>,
    /// Who saved it, when and why.
    pub made: Provenance,
    version: Version,
}

/// As it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredDraft {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base: Option<Generation>,
    #[serde(flatten)]
    made: Provenance,
    nonce: String,
    /// `None` once it was published or discarded. The key stays: one that is made anew may count its versions from the
    /// beginning, and an old draft would pass for the new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<Content>,
}

impl Stored for StoredDraft {
    const WHAT: &'static str = "a draft";

    fn check(&self) -> Result<(), &'static str> {
        Ok(())
    }
}

/// What became of a draft that was saved.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the draft may not have been saved"]
pub enum Saved {
    /// It is saved; this is what the next save must have seen.
    Done(Draft),
    /// Somebody else saved it first, or discarded it: this is what is there. Nothing was written.
    Conflict(Option<Draft>),
}

impl Saved {
    /// The draft that was saved.
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict) with the author of what is there.
    pub fn done(self) -> Result<Draft> {
        let found = match self {
            Self::Done(draft) => return Ok(draft),
            Self::Conflict(found) => found,
        };
        let error = Error::new(ErrorKind::Conflict, "somebody else changed the draft first");
        Err(match found {
            Some(draft) => error.with_context("by", &draft.made.by).with_context("at", draft.made.at),
            None => error.with_context("current", "nothing"),
        })
    }
}

impl Namespace {
    /// The draft; `None` if there is none. Costs one round trip.
    ///
    /// # Errors
    /// As [`Coord::get`](coord_api::Coord::get); [`Malformed`](ErrorKind::Malformed) if the key holds something else.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn draft(&self) -> Result<Option<Draft>> {
        let entry = self.draft_entry().await?;
        entry.as_ref().map_or(Ok(None), Draft::read)
    }

    async fn draft_entry(&self) -> Result<Option<Entry>> {
        self.coord().get(&self.paths().draft).await
    }

    /// Saves a draft over the one that was `seen`, or, for `None`, if there is none. What was published does not change.
    ///
    /// Of the edit, author and note count. Costs one round trip, and one more for a new draft, to look what is there.
    ///
    /// ```
    /// # coord_backend_memory::doc_example(async |store| {
    /// use coord_config_centre::{ConfigCentre, Content, Edit, Saved};
    ///
    /// let billing = ConfigCentre::new(&store, "/config")?.namespace("billing")?;
    /// let draft = billing.save_draft(Content::items([("rate", "100")]), None, &Edit::by("ann")).await?.done()?;
    /// let other = billing.save_draft(Content::items([("rate", "7")]), None, &Edit::by("ben")).await?;
    /// assert!(matches!(other, Saved::Conflict(Some(found)) if found.made.by == "ann"));
    ///
    /// assert!(billing.current().await?.is_none(), "it is not published");
    /// billing.publish_draft(&draft, &Edit::by("ann")).await?.done()?;
    /// assert_eq!(billing.get("rate").await?.as_deref(), Some("100"));
    /// assert!(billing.draft().await?.is_none());
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// [`LimitExceeded`](ErrorKind::LimitExceeded) with the limit of a release; as
    /// [`Coord::commit`](coord_api::Coord::commit). It is ambiguous only if the store could not be asked.
    ///
    /// # Cancel safety
    /// If the future is dropped once it was polled, saving goes on in the background, to its end.
    pub async fn save_draft(&self, content: Content, seen: Option<&Draft>, edit: &Edit) -> Result<Saved> {
        let (base, seen) = match seen {
            Some(draft) => (draft.base, Some(draft.version)),
            None => {
                let (head, entry) = futures::try_join!(self.head(), self.draft_entry())?;
                if let Some(draft) = entry.as_ref().map_or(Ok(None), Draft::read)? {
                    return Ok(Saved::Conflict(Some(draft)));
                }
                (head.map(|head| head.generation), entry.map(|entry| entry.meta.version))
            }
        };
        let nonce = self.coord().runtime().nonce().to_string();
        let draft = StoredDraft { base, made: edit.provenance(), nonce, content: Some(content) };
        let namespace = self.clone();
        let work = async move { Box::pin(namespace.write_draft(draft, seen)).await };
        let saved = self.coord().runtime().run_here(work).await;
        saved.map_err(|error| error.with_context("namespace", self.name()))
    }

    async fn write_draft(&self, draft: StoredDraft, seen: Option<Version>) -> Result<Saved> {
        let key = &self.paths().draft;
        let bytes = write(&draft)?;
        let limit = self.settings().release_max;
        if bytes.len() > limit {
            return Err(Error::new(ErrorKind::LimitExceeded, "the draft is larger than a release may be")
                .with_context("key", key)
                .with_context("bytes", bytes.len())
                .with_context("limit", limit));
        }
        let txn = match seen {
            Some(version) => Txn::new()
                .check(Check::Version(key.clone(), version))
                .op(Op::Update { key: key.clone(), value: bytes }),
            None => Txn::new().create(key, bytes, Lifetime::Persistent),
        };
        let (runtime, deadline) = (self.coord().runtime(), Instant::now() + self.settings().patience);
        let mut backoff = Backoff::new(RETRY_CAP);
        let mut lost = None;
        loop {
            match (self.coord().commit(txn.clone()).await, &lost) {
                (Ok(TxnOutcome::Committed(commit)), _) => {
                    if let Some(draft) =
                        commit.first().and_then(|written| Draft::of(draft.clone(), written.version))
                    {
                        return Ok(Saved::Done(draft));
                    }
                }
                (Ok(TxnOutcome::Rejected(_)), _) => {}
                (Err(error), _) if error.retry() == Retry::Ambiguous => lost = Some(error),
                (Err(error), None) => return Err(error),
                // An earlier try may have been applied.
                (Err(_), Some(_)) => {}
            }
            // Also after a refusal: it may be the work of our own earlier try.
            match self.draft_entry().await {
                Ok(found) if found.as_ref().map(|entry| entry.meta.version) == seen && lost.is_some() => {}
                Ok(found) => return told(found, &draft.nonce),
                Err(error) if lost.is_none() => return Err(error.with_retry(Retry::Ambiguous)),
                Err(_) => {}
            }
            match lost.take_if(|_| Instant::now() >= deadline) {
                Some(error) => return Err(error.with_context("key", key)),
                None => backoff.sleep(&runtime).await,
            }
        }
    }

    /// Discards the draft, if it is still as it was `seen`; `false` if it is not. Costs one round trip.
    ///
    /// Of the edit, author and note count.
    ///
    /// # Errors
    /// As [`Coord::commit`](coord_api::Coord::commit).
    ///
    /// # Cancel safety
    /// If the future is dropped, it was discarded or not.
    pub async fn discard_draft(&self, seen: &Draft, edit: &Edit) -> Result<bool> {
        let gone = self.no_draft(edit)?;
        Ok(self.coord().compare_and_set(&self.paths().draft, seen.version, gone).await?.is_some())
    }

    /// What is stored where a draft was.
    pub(crate) fn no_draft(&self, edit: &Edit) -> Result<Bytes> {
        let nonce = self.coord().runtime().nonce().to_string();
        write(&StoredDraft { base: None, made: edit.provenance(), nonce, content: None })
    }

    /// Publishes the draft and removes it, in one transaction, if it is still as it was `seen`.
    ///
    /// To be told if somebody else has published since it was begun, [expect](Edit::expecting) its
    /// [base](Draft::base). If the main release holds this very content already, the draft stays.
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict), with the key of the draft, if somebody else changed it; as
    /// [`publish`](Self::publish).
    ///
    /// # Cancel safety
    /// As [`publish`](Self::publish).
    pub async fn publish_draft(&self, seen: &Draft, edit: &Edit) -> Result<Edited> {
        self.change(Intent::PublishDraft(seen.content.clone(), seen.version), edit).await
    }
}

/// What became of our draft, by what is there.
fn told(found: Option<Entry>, nonce: &str) -> Result<Saved> {
    let Some(entry) = found else { return Ok(Saved::Conflict(None)) };
    let stored: StoredDraft = read(&entry)?;
    let ours = stored.nonce == nonce;
    Ok(match Draft::of(stored, entry.meta.version) {
        Some(draft) if ours => Saved::Done(draft),
        other => Saved::Conflict(other),
    })
}

impl Draft {
    /// Reads the key of a draft; `None` if it was published or discarded.
    fn read(entry: &Entry) -> Result<Option<Self>> {
        Ok(Self::of(read(entry)?, entry.meta.version))
    }

    fn of(stored: StoredDraft, version: Version) -> Option<Self> {
        let StoredDraft { base, made, content, .. } = stored;
        Some(Self { content: content?, base, made, version })
    }
}
