//! A namespace: what is published in it.

use std::sync::{Arc, Mutex, PoisonError};

use coord_api::{Coord, ErrorKind, Result, Version};
use serde::de::DeserializeOwned;

use crate::{
    ConfigCentre, Preview,
    centre::Settings,
    model::{Anchor, Content, Generation, Head, Identity, Paths, Release, ReleaseRef},
};

/// One namespace of a [`ConfigCentre`]. Cheap to clone; clones share what they know of it.
///
/// It is changed by [`publish`](Self::publish), [`rollback`](Self::rollback), [`set_gray`](Self::set_gray),
/// [`promote`](Self::promote) and [`abandon`](Self::abandon), each of which is one transaction of the store, and makes one
/// generation or nothing.
#[derive(Clone, Debug)]
pub struct Namespace(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    centre: ConfigCentre,
    name: String,
    paths: Paths,
    /// The head as this handle last saw it, which saves asking before a change; it may be outdated.
    seen: Mutex<Option<Seen>>,
    /// Where the log began when this handle last saw it.
    anchor: Mutex<Option<Anchor>>,
    /// Held by the task that collects what is old.
    collecting: Arc<tokio::sync::Mutex<()>>,
}

/// A head with the version of its key.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) version: Version,
    pub(crate) head: Head,
}

impl Seen {
    /// Whether the head did not change between two looks, of which one or both may have found none.
    pub(crate) fn is_same(one: Option<&Self>, other: Option<&Self>) -> bool {
        one.map(|seen| seen.version) == other.map(|seen| seen.version)
    }
}

/// What a namespace holds now.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Current {
    /// The head.
    pub head: Head,
    /// The main release.
    pub release: Arc<Release>,
}

impl Current {
    /// The generation, for [`Edit::expecting`](crate::Edit::expecting).
    #[must_use]
    pub const fn generation(&self) -> Generation {
        self.head.generation
    }

    /// What the main release holds.
    #[must_use]
    pub fn content(&self) -> &Content {
        &self.release.content
    }
}

impl Namespace {
    pub(crate) fn new(centre: ConfigCentre, name: &str, paths: Paths) -> Self {
        Self(Arc::new(Inner {
            centre,
            name: name.to_owned(),
            paths,
            seen: Mutex::default(),
            anchor: Mutex::default(),
            collecting: Arc::default(),
        }))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The head; `None` if nothing was published. Costs one round trip.
    ///
    /// Every change that was acknowledged to anybody before the call is in it.
    ///
    /// # Errors
    /// As [`Coord::get`]; [`Malformed`](coord_api::ErrorKind::Malformed) if the key of the head holds something else.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn head(&self) -> Result<Option<Head>> {
        Ok(self.look().await?.map(|seen| seen.head))
    }

    /// The head with the main release; `None` if nothing was published.
    ///
    /// Costs one round trip, and one more for a release that was not read by this [`ConfigCentre`] lately.
    ///
    /// ```
    /// # coord_backend_memory::doc_example(async |store| {
    /// # use coord_config_centre::{ConfigCentre, Content, Edit, Generation};
    /// let billing = ConfigCentre::new(&store, "/config")?.namespace("billing")?;
    /// assert!(billing.current().await?.is_none());
    ///
    /// billing.publish(Content::items([("rate", "100")]), &Edit::by("ann")).await?.done()?;
    /// let current = billing.current().await?.expect("it was published");
    /// assert_eq!(current.generation(), Generation::FIRST);
    /// assert_eq!(current.content().item("rate"), Some("100"));
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// As [`head`](Self::head), and the same for the release.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn current(&self) -> Result<Option<Current>> {
        self.with_release(|head| head.main).await
    }

    /// The value of one item of the main release; `None` if there is no such item, or nothing was published.
    ///
    /// For one look. A program that runs on such values keeps a consumer, which hears of changes.
    ///
    /// # Errors
    /// As [`current`](Self::current).
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn get(&self, item: &str) -> Result<Option<String>> {
        Ok(self.current().await?.and_then(|current| current.content().item(item).map(str::to_owned)))
    }

    /// The main release as a type of the program's own, by [`Content::read`]; `None` if nothing was published.
    ///
    /// # Errors
    /// As [`current`](Self::current); [`Malformed`](coord_api::ErrorKind::Malformed), with the key of the release, if it
    /// does not fit the type.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn read<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let Some(current) = self.current().await? else { return Ok(None) };
        let key = self.0.paths.release(current.release.version)?;
        let read = current.content().read();
        read.map(Some).map_err(|error| error.with_context("key", key))
    }

    /// What this instance is given now, its gray rule applied; `None` if nothing was published.
    ///
    /// Costs as much as [`current`](Self::current). Under which rule it falls, [`preview`](Self::preview) tells.
    ///
    /// # Errors
    /// As [`current`](Self::current).
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn content_for(&self, instance: &Identity) -> Result<Option<Content>> {
        let found = self.with_release(|head| *head.release_for(instance)).await?;
        Ok(found.map(|found| found.head.content_for(instance, &found.release)))
    }

    /// Which of these instances fall under which gray rule now. Costs one round trip.
    ///
    /// # Errors
    /// As [`head`](Self::head).
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn preview(&self, instances: &[Identity]) -> Result<Preview> {
        Ok(self.head().await?.map_or_else(Preview::default, |head| Preview::of(&head, instances)))
    }

    pub(crate) fn coord(&self) -> &Coord {
        &self.0.centre.coord
    }

    pub(crate) fn paths(&self) -> &Paths {
        &self.0.paths
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.centre.settings
    }

    /// The head, with the release that is picked from it.
    async fn with_release(&self, pick: impl Fn(&Head) -> ReleaseRef + Send) -> Result<Option<Current>> {
        let mut last = None;
        loop {
            let Some(Seen { head, .. }) = self.look().await? else { return Ok(None) };
            match (self.release_at(&pick(&head)).await, last) {
                (Ok(release), _) => return Ok(Some(Current { head, release })),
                // Between the two reads so much was published that the release was collected: there is a newer head.
                (Err(error), _) if error.kind() == ErrorKind::NotFound && last < Some(head.generation) => {}
                (Err(error), _) => return Err(error),
            }
            last = Some(head.generation);
        }
    }

    /// The release that a head names so. However many ask at once, the store is asked once.
    pub(crate) async fn release_at(&self, named: &ReleaseRef) -> Result<Arc<Release>> {
        let key = self.0.paths.release(named.version)?;
        self.0.centre.releases.get(self.coord(), &key, named).await
    }

    /// Remembers a release that was just made or read.
    pub(crate) fn remember_release(&self, named: &ReleaseRef, release: Arc<Release>) -> Result<()> {
        let key = self.0.paths.release(named.version)?;
        self.0.centre.releases.insert(&key, named, release);
        Ok(())
    }

    /// Asks the store for the head, and remembers it.
    pub(crate) async fn look(&self) -> Result<Option<Seen>> {
        let seen = self.peek().await?;
        if let Some(seen) = &seen {
            self.remember(seen);
        }
        Ok(seen)
    }

    /// Asks the store for the head, beside those who publish: what they remember may be newer than the answer.
    pub(crate) async fn peek(&self) -> Result<Option<Seen>> {
        let Some(entry) = self.coord().get(&self.0.paths.head).await? else { return Ok(None) };
        Ok(Some(Seen { version: entry.meta.version, head: Head::decode(&entry)? }))
    }

    pub(crate) fn remember(&self, seen: &Seen) {
        *self.0.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen.clone());
    }

    /// The head as it was last seen.
    pub(crate) fn last_seen(&self) -> Option<Seen> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn remember_anchor(&self, anchor: &Anchor) {
        *self.0.anchor.lock().unwrap_or_else(PoisonError::into_inner) = Some(anchor.clone());
    }

    /// The right to collect in the background, for as long as it is kept; `None` if a task has it.
    pub(crate) fn turn_to_collect(&self) -> Option<tokio::sync::OwnedMutexGuard<()>> {
        Arc::clone(&self.0.collecting).try_lock_owned().ok()
    }

    pub(crate) fn last_anchor(&self) -> Option<Anchor> {
        self.0.anchor.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
