//! The stream of leaders.

use coord_api::{FencingToken, Result, Retry, Seen as Was, kit::Backoff};
use futures::{StreamExt, stream, stream::BoxStream};

use super::{Election, Participant, Seen, participant};
use crate::insist::RETRY_CAP;
use crate::planted::{Bug, planted};

/// Who leads, and its changes: `None` while nobody does.
pub type LeaderStream = BoxStream<'static, Result<Option<Participant>>>;

struct Observer {
    election: Election,
    /// What was told last; `None` before the first item.
    told: Option<Option<Participant>>,
    newest: Option<FencingToken>,
    backoff: Backoff,
}

pub(super) fn observe(election: Election) -> LeaderStream {
    let observer = Observer { election, told: None, newest: None, backoff: Backoff::new(RETRY_CAP) };
    stream::unfold(Some(observer), |observer| async move {
        let mut observer = observer?;
        let item = observer.next().await;
        let more = item.is_ok().then_some(observer);
        Some((item, more))
    })
    .boxed()
}

impl Observer {
    /// The next leader that differs from the one told last.
    async fn next(&mut self) -> Result<Option<Participant>> {
        loop {
            let step = self.step().await;
            match step {
                Ok(Some(told)) => {
                    self.backoff.reset();
                    return Ok(told);
                }
                Ok(None) => {}
                Err(error) if error.retry() == Retry::Never => return Err(error),
                Err(_) => self.backoff.sleep(&self.election.coord.runtime()).await,
            }
        }
    }

    /// Looks once; tells what is new, or waits until it may be.
    async fn step(&mut self) -> Result<Option<Option<Participant>>> {
        let coord = &self.election.coord;
        let listing = coord.list(&self.election.dir).await?;
        let children = &listing.children;
        let head = match if planted(Bug::ObserverTellsLast) { children.last() } else { children.first() } {
            Some(child) => participant(coord, child.key.clone()).await?,
            None => None,
        };
        if head.as_ref().is_some_and(|head| head.created > listing.revision) {
            // Deleted by hand between the two reads and made again by a join that was late: no longer the first.
            self.backoff.sleep(&coord.runtime()).await;
            return Ok(None);
        }
        let told = head.as_ref().map(|head| head.participant.clone());
        let epoch = told.as_ref().map(Participant::epoch);
        if epoch.is_some() && epoch < self.newest {
            // A server that lags behind: wait until it has caught up.
            self.backoff.sleep(&coord.runtime()).await;
            return Ok(None);
        }
        if self.told.as_ref() != Some(&told) {
            self.newest = epoch.max(self.newest);
            self.told = Some(told.clone());
            return Ok(Some(told));
        }
        // The first in line stays so until it leaves: nobody else's coming and going needs to wake us.
        let was = match head {
            Some(Seen { key, modified, .. }) => Was::Value(key, modified),
            None => Was::Children(self.election.dir.clone(), listing.revision),
        };
        coord.wait(&was).await?;
        Ok(None)
    }
}
