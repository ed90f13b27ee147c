//! A commit whose reply may be lost.

use coord_api::{Entry, Error, Result, Retry, Txn, TxnOutcome, Version, kit::Backoff};
use tokio::time::{Duration, Instant};

use crate::{
    Namespace,
    model::{Generation, LogEntry},
};

/// Longest pause between two tries.
const RETRY_CAP: Duration = Duration::from_secs(1);

/// What became of a transaction, known for sure.
#[derive(Debug)]
pub(crate) enum Settled {
    /// It was applied; the head is in this version, `None` if others have changed it since.
    Landed(Option<Version>),
    /// It was not applied and never will be.
    Refused,
}

impl Namespace {
    /// Commits a transaction that makes `generation`, whose head and log entry carry `nonce`.
    ///
    /// It may be sent again after a lost reply: it expects the head in one version, so it is applied once at most. A
    /// refusal that follows may be the work of our own earlier try, which the nonce tells.
    pub(crate) async fn settle(&self, txn: &Txn, generation: Generation, nonce: &str) -> Result<Settled> {
        let (runtime, deadline) = (self.coord().runtime(), Instant::now() + self.settings().patience);
        let mut backoff = Backoff::new(RETRY_CAP);
        let (mut lost, mut refused) = (None, false);
        loop {
            match (self.coord().commit(txn.clone()).await, &lost) {
                (Ok(TxnOutcome::Committed(commit)), _) => match commit.first() {
                    Some(written) => return Ok(Settled::Landed(Some(written.version))),
                    None => return Err(Error::ambiguous("the store does not tell what it wrote")),
                },
                (Ok(TxnOutcome::Rejected(_)), None) => return Ok(Settled::Refused),
                (Ok(TxnOutcome::Rejected(_)), Some(_)) => refused = true,
                (Err(error), _) if error.retry() == Retry::Ambiguous => lost = Some(error),
                (Err(error), None) => return Err(error),
                // An earlier try may have been applied, whatever becomes of this one (promise G8).
                (Err(_), Some(_)) => {}
            }
            match self.landed_as(generation, nonce).await {
                Ok(Landing::Here(version)) => return Ok(Settled::Landed(version)),
                Ok(Landing::Elsewhere) => return Ok(Settled::Refused),
                // Nor will it be by an earlier try: what it did not find does not come back.
                Ok(Landing::NotYet) if refused => return Ok(Settled::Refused),
                // Not applied, or not yet: sent again, one of the two is refused.
                Ok(Landing::NotYet) | Err(_) if Instant::now() < deadline => backoff.sleep(&runtime).await,
                Ok(Landing::NotYet | Landing::Unknown) | Err(_) => {
                    let error = lost.unwrap_or_else(|| Error::ambiguous("the reply was lost"));
                    return Err(error.with_context("key", &self.paths().head));
                }
            }
        }
    }

    /// Whether `generation` is there, and ours.
    async fn landed_as(&self, generation: Generation, nonce: &str) -> Result<Landing> {
        let Some(seen) = self.look().await? else {
            // The first generation is not there, or somebody has deleted the head.
            return Ok(if generation == Generation::FIRST { Landing::NotYet } else { Landing::Unknown });
        };
        if seen.head.generation < generation {
            return Ok(Landing::NotYet);
        }
        if seen.head.generation == generation {
            let ours = seen.head.nonce == nonce;
            return Ok(if ours { Landing::Here(Some(seen.version)) } else { Landing::Elsewhere });
        }
        // Others came after whoever made it: the log tells who.
        Ok(match self.coord().get(self.paths().entry(generation)?).await? {
            Some(entry) if wrote(&entry, nonce) => Landing::Here(None),
            Some(_) => Landing::Elsewhere,
            None => Landing::Unknown,
        })
    }
}

/// Where a generation is.
enum Landing {
    /// It is there, and ours; the head is in this version if nothing came after.
    Here(Option<Version>),
    /// Somebody else made it.
    Elsewhere,
    /// Nobody made it yet.
    NotYet,
    /// It was made, and who did is forgotten.
    Unknown,
}

fn wrote(entry: &Entry, nonce: &str) -> bool {
    LogEntry::decode(entry).is_ok_and(|(logged, _)| logged.nonce == nonce)
}
