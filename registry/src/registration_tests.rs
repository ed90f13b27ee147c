use std::sync::Arc;

use coord_api::{Coord, Dir, Entry, ErrorKind, Lifetime, SessionOptions, kit::Runtime};
use coord_backend_memory::{MemoryBackend, MemoryStore};

use super::*;
use crate::{DiscoveryEvent, Kind, Layout, NativeLayout};

/// A layout in which the name of the key is all there is, as in Dubbo's: weight and id.
#[derive(Debug)]
struct InTheName;

impl Layout for InTheName {
    fn name(&self) -> &'static str {
        "in-the-name"
    }

    fn directory(&self, root: &Dir, service: &str) -> Result<Dir> {
        NativeLayout.directory(root, service)
    }

    fn key(&self, root: &Dir, instance: &Instance) -> Result<Key> {
        let name = format!("{}-{}", instance.weight(), instance.id());
        self.directory(root, instance.name())?.key(&name)
    }

    fn encode(&self, _: &Instance) -> Result<bytes::Bytes> {
        Ok(bytes::Bytes::new())
    }

    fn decode(&self, _: &Dir, service: &str, entry: &Entry) -> Result<Option<Instance>> {
        let read = entry.key.name().split_once('-');
        let read = read.and_then(|(weight, id)| Some((weight.parse().ok()?, id)));
        let kind = if entry.meta.owner.is_some() { Kind::Ephemeral } else { Kind::Permanent };
        let made =
            |(weight, id)| Instance::new(service, id, "10.0.0.7", 80).with_weight(weight).with_kind(kind);
        Ok(read.map(made))
    }

    fn service(&self, child: &str) -> Option<String> {
        NativeLayout.service(child)
    }
}

fn store() -> Coord {
    let runtime = Runtime::current().unwrap();
    Coord::new(Arc::new(MemoryBackend::new(&MemoryStore::new(&runtime), runtime)))
}

fn registry(store: &Coord) -> (Registry, SessionKeeper) {
    let registry = Registry::new(store, "/r").unwrap().with_layout(InTheName);
    (registry, SessionKeeper::new(store, SessionOptions::default()))
}

fn instance(weight: u32) -> Instance {
    Instance::new("s", "a", "10.0.0.7", 80).with_weight(weight)
}

async fn names(registry: &Registry) -> Vec<String> {
    let listing = registry.coord().list("/r/s").await.unwrap();
    listing.children.iter().map(|child| child.key.name().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_update_that_moves_the_key_leaves_no_gap_and_no_old_key() {
    let store = store();
    let (registry, keeper) = registry(&store);
    let me = registry.register(&keeper, instance(1)).await.unwrap();
    let view = registry.discover("s").unwrap();
    view.wait_until(|list| list.len() == 1).await.unwrap();
    let mut changes = view.changes();
    assert!(matches!(changes.next().await, Some(DiscoveryEvent::Initial(_))));
    me.set_weight(2).await.unwrap();
    assert_eq!(names(&registry).await, ["2-a"]);
    assert!(matches!(changes.next().await, Some(DiscoveryEvent::Added(a)) if a.weight() == 2));
    assert!(matches!(changes.next().await, Some(DiscoveryEvent::Removed(a)) if a.weight() == 1));

    // With the next session it is back at its new key only.
    keeper.session().await.unwrap().close().await.unwrap();
    me.registered().await.unwrap();
    assert_eq!(names(&registry).await, ["2-a"]);
    me.close().await.unwrap();
    assert!(names(&registry).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_update_to_a_key_of_somebody_else_is_refused_and_changes_nothing() {
    let store = store();
    let (registry, keeper) = registry(&store);
    let me = registry.register(&keeper, instance(1)).await.unwrap();
    store.create("/r/s/2-a", "", Lifetime::Persistent).await.unwrap().unwrap();
    let error = me.set_weight(2).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotHolder, "{error}");
    assert_eq!((me.instance().weight(), me.key().name()), (1, "1-a"));
    assert!(me.is_registered());
    me.set_weight(3).await.unwrap();
    assert_eq!(names(&registry).await, ["2-a", "3-a"]);
}

#[tokio::test(start_paused = true)]
async fn a_permanent_instance_moves_in_one_step() {
    let store = store();
    let (registry, keeper) = registry(&store);
    let me = registry.register(&keeper, instance(1).with_kind(Kind::Permanent)).await.unwrap();
    me.set_weight(2).await.unwrap();
    assert_eq!(names(&registry).await, ["2-a"]);
    store.create("/r/s/3-a", "", Lifetime::Persistent).await.unwrap().unwrap();
    let error = me.set_weight(3).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotHolder, "{error}");
    assert_eq!((names(&registry).await, me.instance().weight()), (vec!["2-a".into(), "3-a".into()], 2));
    assert!(registry.unregister("s", "a").await.unwrap());
    assert!(names(&registry).await.is_empty(), "both had this id");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_lags_far_behind_is_told_everything_anew() {
    let store = store();
    let (registry, keeper) = registry(&store);
    let registry = registry.with_layout(NativeLayout);
    let me = registry.register(&keeper, instance(1)).await.unwrap();
    let view = registry.discover("s").unwrap();
    view.wait_until(|list| list.len() == 1).await.unwrap();
    let mut changes = view.changes();
    assert!(matches!(changes.next().await, Some(DiscoveryEvent::Initial(_))));
    for weight in 2..1_500 {
        me.set_weight(weight).await.unwrap();
        view.wait_until(|list| list[0].weight() == weight).await.unwrap();
    }
    let told = changes.next().await;
    assert!(matches!(&told, Some(DiscoveryEvent::Resync(all)) if all[0].weight() == 1_499), "{told:?}");
    me.set_weight(1).await.unwrap();
    assert!(
        matches!(changes.next().await, Some(DiscoveryEvent::Updated { after, .. }) if after.weight() == 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_view_ends_its_watch_with_its_last_handle() {
    let store = store();
    let (registry, _) = registry(&store);
    let view = registry.discover("s").unwrap();
    view.ready().await.unwrap();
    let changes = view.changes();
    let states = view.states();
    drop(view);
    assert!(states.has_changed().is_ok(), "the changes keep it");
    drop(changes);
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    assert!(states.has_changed().is_err(), "its task goes on");
}
