//! What was, and going back to it.

use std::sync::Arc;

use coord_api::{Entry, Error, Result};
use futures::{StreamExt, TryStreamExt, stream};

use crate::{
    Diff, Edit, Edited, Namespace,
    change::{Intent, Plan, Planned, check_fit},
    model::{Generation, Head, LogEntry, Operation, Release, ReleaseRef, ReleaseVersion},
    releases::gone,
};

/// How many reads are on their way at once.
const AT_ONCE: usize = 16;

/// The generations of a namespace, the latest first.
#[derive(Debug)]
#[non_exhaustive]
pub struct History {
    /// What made each of them.
    pub entries: Vec<LogEntry>,
    /// Entries of which the log holds something else, each with its key.
    pub unreadable: Vec<Error>,
}

impl Namespace {
    /// The last `limit` generations, the latest first: who did what, when and why, from which release to which.
    ///
    /// Entries that retention has removed are not there. One that somebody has overwritten is told apart and hides no
    /// other. Costs a round trip for the head, and reads all entries at once, a few on their way at a time.
    ///
    /// ```
    /// # coord_backend_memory::doc_example(async |store| {
    /// # use coord_config_centre::{ConfigCentre, Content, Edit, ReleaseVersion};
    /// # let billing = ConfigCentre::new(&store, "/config")?.namespace("billing")?;
    /// for (author, rate) in [("ann", "100"), ("ben", "200")] {
    ///     billing.publish(Content::items([("rate", rate)]), &Edit::by(author)).await?.done()?;
    /// }
    /// billing.rollback(ReleaseVersion::FIRST, &Edit::by("eve").note("too fast")).await?.done()?;
    ///
    /// let history = billing.history(10).await?;
    /// let told: Vec<_> = history.entries.iter().map(|entry| (entry.op.as_str(), entry.made.by.as_str())).collect();
    /// assert_eq!(told, [("rollback", "eve"), ("publish", "ben"), ("publish", "ann")]);
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// As [`head`](Self::head).
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn history(&self, limit: usize) -> Result<History> {
        let mut history = History { entries: Vec::new(), unreadable: Vec::new() };
        let Some(head) = self.head().await? else { return Ok(history) };
        let generations = std::iter::successors(Some(head.generation), |last| last.previous()).take(limit);
        let read = stream::iter(generations).map(|generation| self.logged(generation)).buffered(AT_ONCE);
        // Retention removes the oldest: before the first that is not there, none is.
        let mut found = read.try_take_while(|entry| std::future::ready(Ok(entry.is_some()))).boxed();
        while let Some(entry) = found.try_next().await? {
            match entry.as_ref().map(LogEntry::decode) {
                Some(Ok((logged, _))) => history.entries.push(logged),
                Some(Err(error)) => history.unreadable.push(error),
                None => {}
            }
        }
        drop(found);
        Ok(history)
    }

    /// What the log holds of a generation.
    pub(crate) async fn logged(&self, generation: Generation) -> Result<Option<Entry>> {
        self.coord().get(self.paths().entry(generation)?).await
    }

    /// A release, whichever, as long as it is retained. Costs one round trip.
    ///
    /// # Errors
    /// [`NotFound`](coord_api::ErrorKind::NotFound) with the key if it was never made, or was collected;
    /// [`Malformed`](coord_api::ErrorKind::Malformed) with the key if it holds something else; as
    /// [`Coord::get`](coord_api::Coord::get).
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn release(&self, version: ReleaseVersion) -> Result<Release> {
        Ok(self.find_release(version).await?.0)
    }

    async fn find_release(&self, version: ReleaseVersion) -> Result<(Release, ReleaseRef)> {
        let key = self.paths().release(version)?;
        let entry = self.coord().get(&key).await?.ok_or_else(|| gone(&key))?;
        Release::read(&entry)
    }

    /// The releases that are retained, the latest first. Costs one round trip.
    ///
    /// # Errors
    /// As [`Coord::list`](coord_api::Coord::list).
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn releases(&self) -> Result<Vec<ReleaseVersion>> {
        let listing = self.coord().list(&self.paths().releases).await?;
        let names = listing.children.iter().filter_map(|child| ReleaseVersion::from_name(child.key.name()));
        let mut versions: Vec<_> = names.collect();
        versions.sort_unstable_by(|one, other| other.cmp(one));
        Ok(versions)
    }

    /// What leads from one release to another, of any two. Costs one round trip.
    ///
    /// # Errors
    /// As [`release`](Self::release).
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn diff(&self, from: ReleaseVersion, to: ReleaseVersion) -> Result<Diff> {
        let (from, to) = futures::try_join!(self.release(from), self.release(to))?;
        Ok(Diff::between(&from.content, &to.content))
    }

    /// Makes a release of before the main one again: a new generation, at once, nothing more to publish.
    ///
    /// Any retained release will do, also a later one: forward again is the same call. Drafts and gray rules stay.
    ///
    /// Costs as much as [`publish`](Self::publish), and one round trip for the release and what retention goes by.
    ///
    /// # Errors
    /// [`NotFound`](coord_api::ErrorKind::NotFound) with the key of a release that was never made, or was collected;
    /// [`InvalidArgument`](coord_api::ErrorKind::InvalidArgument) if a gray rule is for content of another kind; as
    /// [`publish`](Self::publish).
    ///
    /// # Cancel safety
    /// As [`publish`](Self::publish).
    pub async fn rollback(&self, to: ReleaseVersion, edit: &Edit) -> Result<Edited> {
        self.change(Intent::Rollback(to), edit).await
    }

    pub(crate) async fn plan_rollback(&self, to: ReleaseVersion, head: &Head) -> Result<Planned> {
        if head.main.version == to {
            return Ok(Planned::as_it_is(head));
        }
        let ((release, named), anchor) = futures::try_join!(self.find_release(to), self.stored_anchor())?;
        check_fit(&head.grays, &release.content)?;
        self.remember_release(&named, Arc::new(release))?;
        let grays = head.grays.clone();
        Ok(Plan { grays, needs: Some(to), anchor: Some(anchor), ..Plan::to(Operation::Rollback, named) }
            .into())
    }
}
