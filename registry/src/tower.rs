//! Discovery for clients built on `tower`.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures::{
    Stream, StreamExt,
    stream::{BoxStream, Fuse},
};
use tower::discover::Change;

use crate::{Discovery, DiscoveryEvent, Instance};

/// The instances of a service that take requests, as what `tower` calls `Discover`: each becomes a service by a
/// connector, under its id.
///
/// An instance that leaves, drains or has weight 0 is removed. One that is there with another address, payload, label,
/// or anything else that a connector might look at, gets a new service in the place of the old one; a new weight alone
/// does not. Ends when the store's handle was closed; while the store is away, what was there stays.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// # use coord_api::SessionOptions;
/// # use coord_recipes::SessionKeeper;
/// use coord_registry::{Instance, Registry, tower::Services};
/// use futures::StreamExt;
/// use tower::{discover::Change, service_fn};
///
/// # let registry = Registry::new(&store, "/services")?;
/// # let keeper = SessionKeeper::new(&store, SessionOptions::default());
/// # let me = registry.register(&keeper, Instance::new("billing", "b1", "10.0.0.7", 8080)).await?;
/// let billing = registry.discover("billing")?;
/// // A real connector makes a client that connects when it is used. Wrapped in PendingRequestsDiscover, this goes
/// // into tower::balance::p2c::Balance.
/// let mut services = Services::new(&billing, |instance: &Instance| {
///     let address = instance.address().to_owned();
///     service_fn(move |request: String| std::future::ready(Ok::<_, ()>(format!("{request} for {address}"))))
/// });
/// let Some(Ok(Change::Insert(id, _service))) = services.next().await else { panic!("b1 is there") };
/// assert_eq!(id, "b1");
/// # me.close().await?;
/// # Ok(())
/// # });
/// ```
pub struct Services<C> {
    /// A balance of tower looks again after the end.
    changes: Fuse<BoxStream<'static, DiscoveryEvent>>,
    roll: Roll,
    connect: C,
}

impl<C> Services<C> {
    /// The services of what is discovered, each made by `connect`, which must not block.
    pub fn new<S>(discovery: &Discovery, connect: C) -> Self
    where
        C: FnMut(&Instance) -> S,
    {
        Self { changes: discovery.changes().into_stream().fuse(), roll: Roll::default(), connect }
    }
}

impl<C, S> Stream for Services<C>
where
    C: FnMut(&Instance) -> S + Unpin,
{
    type Item = Result<Change<String, S>, Infallible>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(step) = this.roll.next() {
                let change = match step {
                    Step::Insert(instance) => {
                        Change::Insert(instance.id().to_owned(), (this.connect)(&instance))
                    }
                    Step::Remove(id) => Change::Remove(id),
                };
                return Poll::Ready(Some(Ok(change)));
            }
            match ready!(this.changes.poll_next_unpin(cx)) {
                Some(event) => this.roll.apply(event),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl<C> fmt::Debug for Services<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services").field("there", &self.roll.told.len()).finish_non_exhaustive()
    }
}

/// What was told, and what is to be told.
#[derive(Debug, Default)]
struct Roll {
    /// By id.
    told: BTreeMap<String, Instance>,
    wanted: BTreeMap<String, Instance>,
    /// Ids at which the two differ.
    changed: BTreeSet<String>,
}

enum Step {
    Insert(Instance),
    Remove(String),
}

impl Roll {
    fn apply(&mut self, event: DiscoveryEvent) {
        match event {
            DiscoveryEvent::Initial(list) | DiscoveryEvent::Resync(list) => self.replace(&list),
            DiscoveryEvent::Added(instance) | DiscoveryEvent::Updated { after: instance, .. } => {
                self.put(instance)
            }
            DiscoveryEvent::Removed(instance) => self.remove(instance.id()),
        }
    }

    fn replace(&mut self, list: &Arc<[Instance]>) {
        self.changed.extend(self.wanted.keys().cloned());
        self.wanted.clear();
        list.iter().cloned().for_each(|instance| self.put(instance));
    }

    fn put(&mut self, instance: Instance) {
        if instance.is_available() {
            self.changed.insert(instance.id().to_owned());
            self.wanted.insert(instance.id().to_owned(), instance);
        } else {
            self.remove(instance.id());
        }
    }

    fn remove(&mut self, id: &str) {
        self.wanted.remove(id);
        self.changed.insert(id.to_owned());
    }

    fn next(&mut self) -> Option<Step> {
        while let Some(id) = self.changed.pop_first() {
            let told = self.told.get(&id);
            match self.wanted.get(&id) {
                Some(wanted) if told.is_none_or(|told| !same_to_a_connector(told, wanted)) => {
                    self.told.insert(id, wanted.clone());
                    return Some(Step::Insert(wanted.clone()));
                }
                None if told.is_some() => {
                    self.told.remove(&id);
                    return Some(Step::Remove(id));
                }
                _ => {}
            }
        }
        None
    }
}

/// Whether the service of one serves the other as well: all but the weight is the same.
fn same_to_a_connector(told: &Instance, wanted: &Instance) -> bool {
    told.clone().with_weight(wanted.weight()) == *wanted
}

#[cfg(test)]
#[path = "tower_tests.rs"]
mod tests;
