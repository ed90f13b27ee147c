//! A value for all.

use std::future::ready;

use bytes::Bytes;
use coord_api::{Coord, Entry, Freshness, IntoKey, Key, Lifetime, Result, Txn, TxnOutcome, Version};
use futures::stream::{BoxStream, StreamExt};

use crate::{
    cache::{Cache, CacheEvent},
    planted::{Bug, planted},
};

/// A value that everybody sees and changes by version.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// # use coord_recipes::SharedValue;
/// let rate = SharedValue::new(&store, "/config/rate")?;
/// rate.set("100").await?;
/// let seen = rate.get().await?.expect("it was set");
/// assert!(rate.set_if(Some(seen.version), "200").await?);
/// assert!(!rate.set_if(Some(seen.version), "300").await?, "somebody was faster");
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct SharedValue {
    /// Reads are latest.
    coord: Coord,
    key: Key,
}

/// A value and its version.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Versioned {
    /// The value; may be empty, may be any bytes.
    pub value: Bytes,
    /// For [`SharedValue::set_if`].
    pub version: Version,
}

impl Versioned {
    fn of(entry: &Entry) -> Self {
        Self { value: entry.value.clone(), version: entry.meta.version }
    }
}

impl SharedValue {
    /// The value at this key. Talks to nobody.
    ///
    /// # Errors
    /// [`InvalidArgument`](coord_api::ErrorKind::InvalidArgument) if the name is no key.
    pub fn new(coord: &Coord, name: impl IntoKey) -> Result<Self> {
        Ok(Self { coord: coord.clone().with_freshness(Freshness::Latest), key: name.into_key()? })
    }

    /// The key of the value.
    #[must_use]
    pub const fn name(&self) -> &Key {
        &self.key
    }

    /// The value, with every change that was acknowledged to anybody; `None` if there is none.
    ///
    /// # Errors
    /// As [`Coord::get`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn get(&self) -> Result<Option<Versioned>> {
        Ok(self.coord.get(&self.key).await?.as_ref().map(Versioned::of))
    }

    /// Sets the value, whatever it was.
    ///
    /// # Errors
    /// As [`Coord::put`]. If it is ambiguous, read before setting it again, or it may overwrite a later value.
    ///
    /// # Cancel safety
    /// If the future is dropped, the value was set or not.
    pub async fn set(&self, value: impl Into<Bytes> + Send) -> Result<()> {
        self.coord.put(&self.key, value).await.map(drop)
    }

    /// Sets the value if it is in this version, or, for `None`, if there is none; `false` if somebody was faster.
    ///
    /// # Errors
    /// As [`Coord::compare_and_set`]. It may be sent again also if it is ambiguous, since it applies once only: `false`
    /// then means that it was applied or that somebody else was faster.
    ///
    /// # Cancel safety
    /// If the future is dropped, the value was set or not.
    pub async fn set_if(&self, version: Option<Version>, value: impl Into<Bytes> + Send) -> Result<bool> {
        let txn = match version {
            _ if planted(Bug::SwapsBlindly) => Txn::new().put(&self.key, value),
            Some(version) => Txn::new().check_version(&self.key, version).update(&self.key, value),
            None => Txn::new().create(&self.key, value, Lifetime::Persistent),
        };
        Ok(matches!(self.coord.commit(txn).await?, TxnOutcome::Committed(_)))
    }

    /// The value now, `None` if there is none, and then each time it was changed. Ends when the store's handle is
    /// closed.
    ///
    /// Tells of changes only: not after a lost connection if nothing happened meanwhile. A listener that reads slowly
    /// is told the last of several values. Watches the directory of the key, once for all listeners and
    /// [caches](Cache) of this handle there.
    ///
    /// ```
    /// # coord_backend_memory::doc_example(async |store| {
    /// # use coord_recipes::SharedValue;
    /// use futures::StreamExt;
    ///
    /// let rate = SharedValue::new(&store, "/config/rate")?;
    /// let mut changes = rate.changes()?;
    /// assert_eq!(changes.next().await, Some(None));
    /// rate.set("100").await?;
    /// assert!(matches!(changes.next().await, Some(Some(now)) if now.value == "100"));
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// None at present: whatever goes wrong with the connection is waited out.
    pub fn changes(&self) -> Result<BoxStream<'static, Option<Versioned>>> {
        let events = Cache::node(&self.coord, &self.key)?.listen().into_stream();
        Ok(events.filter_map(|event| ready(told(&event))).boxed())
    }
}

/// The value that an event of the key's cache tells; `None` if it tells of no change.
fn told(event: &CacheEvent) -> Option<Option<Versioned>> {
    match event {
        CacheEvent::Initialized { entries } => Some(entries.first().map(Versioned::of)),
        CacheEvent::Changed(change) => Some(change.after().map(Versioned::of)),
        CacheEvent::Resynced { changes } if planted(Bug::ListenerTellsBefore) => {
            changes.first().map(|change| change.before().map(Versioned::of))
        }
        CacheEvent::Resynced { changes } => changes.first().map(|change| change.after().map(Versioned::of)),
    }
}
