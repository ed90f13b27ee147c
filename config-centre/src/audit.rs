//! Whether the past is what it was.

use std::collections::BTreeMap;

use coord_api::{Entry, Key, Result};
use futures::{StreamExt, TryStreamExt, stream};

use crate::{
    Digest, Namespace,
    model::{Anchor, Generation, Head, LogEntry, Release, ReleaseRef, ReleaseVersion},
};

/// How many reads are on their way at once.
const AT_ONCE: usize = 16;

/// What a walk along the log has found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Audit {
    /// The first generation that is still in the log.
    pub first: Generation,
    /// The generation up to which the log was read; `None` if nothing was published.
    pub last: Option<Generation>,
    /// How many entries of the log fit their successor.
    pub entries: usize,
    /// How many releases are as they were published.
    pub releases: usize,
    /// The first thing that does not fit; `None` if all is well.
    pub broken: Option<Broken>,
}

/// Something that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Broken {
    /// The key.
    pub key: Key,
    /// What is wrong with it.
    pub why: &'static str,
}

/// What is checked on the way.
struct Walk<'a> {
    namespace: &'a Namespace,
    head: Head,
    anchor: Anchor,
    /// What the next entry must say of the one before it.
    previous: Option<Digest>,
    main: Option<ReleaseVersion>,
    /// Releases as the log names them.
    named: BTreeMap<ReleaseVersion, ReleaseRef>,
    audit: Audit,
}

impl Namespace {
    /// Walks along the log from its beginning to the head, and reports the first thing that does not fit.
    ///
    /// Every entry carries the SHA-256 of the one before it and of the release it points at, and the head carries that of
    /// the last entry: whoever changes, adds or removes something in the middle is found. Entries and releases that
    /// retention has removed are not missed; the anchor says where the log begins now, and what came before. Whoever may
    /// write to the store could rewrite everything up to the head: to be safe from that too, keep
    /// [`Head::log_sha256`] somewhere else now and then, and compare.
    ///
    /// Reads the whole log and all releases in it, a few on their way at a time.
    ///
    /// ```
    /// # coord_backend_memory::doc_example(async |store| {
    /// # use coord_config_centre::{ConfigCentre, Content, Edit};
    /// # let billing = ConfigCentre::new(&store, "/config")?.namespace("billing")?;
    /// for rate in ["100", "200"] {
    ///     billing.publish(Content::items([("rate", rate)]), &Edit::by("ann")).await?.done()?;
    /// }
    /// assert_eq!(billing.verify().await?.broken, None);
    ///
    /// let first = "/config/billing/rel/00000000000000000001";
    /// store.put(first, "{}").await?;
    /// let broken = billing.verify().await?.broken.expect("somebody has changed a release");
    /// assert_eq!(broken.key.as_str(), first);
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// As [`head`](Self::head). What is broken is no error but the answer.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn verify(&self) -> Result<Audit> {
        loop {
            let (anchor, _) = self.anchor().await?;
            let Some(head) = self.head().await? else {
                return Ok(Audit {
                    first: anchor.generation,
                    last: None,
                    entries: 0,
                    releases: 0,
                    broken: None,
                });
            };
            let audit = Box::pin(Walk::new(self, head, anchor.clone()).run()).await?;
            // What retention has removed on our way would look as if somebody else had.
            if audit.broken.is_none() || self.anchor().await?.0 == anchor {
                return Ok(audit);
            }
        }
    }
}

impl<'a> Walk<'a> {
    fn new(namespace: &'a Namespace, head: Head, anchor: Anchor) -> Self {
        let (first, last) = (anchor.generation, Some(head.generation));
        Self {
            namespace,
            head,
            previous: anchor.previous_sha256,
            anchor,
            main: None,
            named: BTreeMap::new(),
            audit: Audit { first, last, entries: 0, releases: 0, broken: None },
        }
    }

    async fn run(mut self) -> Result<Audit> {
        if self.entries().await?.is_none() && self.head_fits() {
            self.releases().await?;
        }
        Ok(self.audit)
    }

    /// Notes what is wrong.
    fn broken(&mut self, key: Key, why: &'static str) -> Option<()> {
        self.audit.broken = Some(Broken { key, why });
        Some(())
    }

    /// `Some` if an entry does not fit.
    async fn entries(&mut self) -> Result<Option<()>> {
        let namespace = self.namespace;
        let end = self.head.generation;
        let generations = std::iter::successors(Some(self.anchor.generation), |last| Some(last.next()))
            .take_while(|at| *at <= end);
        let mut read = stream::iter(generations)
            .map(|generation| async move {
                Ok::<_, coord_api::Error>((generation, namespace.logged(generation).await?))
            })
            .buffered(AT_ONCE)
            .boxed();
        while let Some((generation, entry)) = read.try_next().await? {
            if let Some(why) = self.misfit(generation, entry.as_ref()) {
                return Ok(self.broken(namespace.paths().entry(generation)?, why));
            }
            self.audit.entries += 1;
        }
        Ok(None)
    }

    /// What is wrong with an entry of the log.
    fn misfit(&mut self, generation: Generation, entry: Option<&Entry>) -> Option<&'static str> {
        let Some(entry) = entry else { return Some("the entry is missing") };
        let Ok((logged, digest)) = LogEntry::decode(entry) else { return Some("it is no log entry") };
        if logged.previous_sha256 != self.previous {
            return Some("it does not follow the entry before it, or that one was changed");
        }
        if generation > self.anchor.generation && logged.from != self.main {
            return Some("it begins with another release than the one before ended with");
        }
        (self.previous, self.main) = (Some(digest), Some(logged.to.version));
        let gray = logged.gray.and_then(|gray| gray.after);
        let gray = gray.and_then(|gray| gray.change.release().copied());
        for named in [Some(logged.to), gray].into_iter().flatten() {
            if *self.named.entry(named.version).or_insert(named) != named {
                return Some("it names another content for a release than an entry before");
            }
        }
        None
    }

    /// Whether the head is what the last entry made.
    fn head_fits(&mut self) -> bool {
        let last = self.named.get(&self.head.main.version);
        let fits = self.previous == Some(self.head.log_sha256)
            && self.main == Some(self.head.main.version)
            && last == Some(&self.head.main);
        if !fits {
            self.broken(self.namespace.paths().head.clone(), "it is not what the last entry of the log made");
        }
        fits
    }

    async fn releases(&mut self) -> Result<()> {
        let namespace = self.namespace;
        let named: Vec<_> = self.named.values().copied().chain(self.head.releases().copied()).collect();
        let mut read = stream::iter(named)
            .map(|named| async move {
                let key = namespace.paths().release(named.version)?;
                Ok::<_, coord_api::Error>((named, namespace.coord().get(&key).await?, key))
            })
            .buffered(AT_ONCE)
            .boxed();
        let mut seen = std::collections::BTreeSet::new();
        while let Some((named, entry, key)) = read.try_next().await? {
            let kept =
                named.version >= self.anchor.release || self.head.releases().any(|kept| *kept == named);
            match entry.map(|entry| Release::decode(&entry, &named)) {
                Some(Ok(_)) => self.audit.releases += usize::from(seen.insert(named.version)),
                Some(Err(_)) => {
                    self.broken(key, "the release is not what was published");
                    return Ok(());
                }
                None if kept => {
                    self.broken(key, "the release is missing");
                    return Ok(());
                }
                None => {}
            }
        }
        Ok(())
    }
}
