use coord_api::{Coord, Entry, Meta, Version, kit::Runtime};
use coord_backend_memory::{MemoryBackend, MemoryStore};

use super::*;
use crate::{NativeLayout, Rule, WEIGHT_DEFAULT};

fn instance(id: &str) -> Instance {
    Instance::new("s", id, "10.0.0.1", 80).with_registered_at(std::time::SystemTime::UNIX_EPOCH)
}

fn view(protect: Option<Duration>) -> View {
    view_of(NativeLayout, protect)
}

fn view_of(layout: impl Layout, protect: Option<Duration>) -> View {
    let runtime = Runtime::current().unwrap();
    let store = MemoryBackend::new(&MemoryStore::new(&runtime), runtime);
    let registry = Registry::new(&Coord::new(Arc::new(store)), "/r").unwrap().with_layout(layout);
    View::new(&registry, "s", protect)
}

fn raw(id: &str, value: impl Into<bytes::Bytes>, created: u64, modified: u64) -> Entry {
    let meta = Meta::new(Revision::new(created), Revision::new(modified), Version::new(modified), None);
    Entry::new(format!("/r/s/{id}").parse().unwrap(), value.into(), meta)
}

fn entry(instance: &Instance, created: u64, modified: u64) -> Entry {
    raw(instance.id(), NativeLayout.encode(instance).unwrap(), created, modified)
}

fn put(new: Entry) -> CacheEvent {
    CacheEvent::Changed(Change::Put { old: None, new })
}

fn delete(old: Entry) -> CacheEvent {
    CacheEvent::Changed(Change::Delete { old })
}

fn ids(list: &[Instance]) -> Vec<&str> {
    list.iter().map(Instance::id).collect()
}

/// A view that has loaded these, each with its own creation.
fn loaded(protect: Option<Duration>, ids: &[&str], now: Instant) -> View {
    let mut view = view(protect);
    let entries = ids.iter().map(|id| entry(&instance(id), 1, 1)).collect();
    view.apply(CacheEvent::Initialized { entries }, now);
    view
}

#[tokio::test]
async fn changes_are_told_one_by_one_and_the_list_follows() {
    let now = Instant::now();
    let mut view = loaded(None, &["a"], now);
    assert_eq!(view.apply(put(entry(&instance("b"), 2, 2)), now), [DiscoveryEvent::Added(instance("b"))]);
    let lighter = instance("b").with_weight(1);
    let told = view.apply(put(entry(&lighter, 2, 3)), now);
    assert_eq!(told, [DiscoveryEvent::Updated { before: instance("b"), after: lighter.clone() }]);
    assert_eq!(view.list()[1].weight(), 1);
    // It came back with another session and says the same: nothing for those who look at the list.
    assert!(view.apply(put(entry(&lighter, 7, 7)), now).is_empty());
    assert_eq!(view.apply(delete(entry(&lighter, 7, 7)), now), [DiscoveryEvent::Removed(lighter)]);
    assert_eq!(ids(&view.list()), ["a"]);
}

#[tokio::test]
async fn a_list_is_made_once_between_two_changes() {
    let now = Instant::now();
    let mut view = loaded(None, &["a"], now);
    let first = view.list();
    assert!(Arc::ptr_eq(&first, &view.list()));
    view.apply(put(entry(&instance("b"), 2, 2)), now);
    assert!(!Arc::ptr_eq(&first, &view.list()));
    assert_eq!((first.len(), view.list().len()), (1, 2));
}

#[tokio::test]
async fn a_gap_is_told_whole_and_only_if_something_changed() {
    let now = Instant::now();
    let mut view = loaded(None, &["a", "b"], now);
    assert!(view.apply(CacheEvent::Resynced { changes: Vec::new() }, now).is_empty());
    let changes = vec![Change::Delete { old: entry(&instance("a"), 1, 1) }];
    let told = view.apply(CacheEvent::Resynced { changes }, now);
    assert!(matches!(&told[..], [DiscoveryEvent::Resync(list)] if ids(list) == ["b"]), "{told:?}");
}

#[tokio::test]
async fn what_is_no_instance_is_told_with_its_key_and_the_others_are_served() {
    let now = Instant::now();
    let mut view = view(None);
    let entries = vec![entry(&instance("a"), 1, 1), raw("bad", "", 1, 1), raw("worse", "[1]", 1, 1)];
    view.apply(CacheEvent::Initialized { entries }, now);
    assert_eq!(ids(&view.list()), ["a"]);
    let problems = view.problems();
    assert_eq!(problems.len(), 2);
    assert!(problems[0].to_string().contains("/r/s/bad"), "{}", problems[0]);
    // It becomes one.
    view.apply(put(entry(&instance("bad"), 1, 2)), now);
    assert_eq!((ids(&view.list()), view.problems().len()), (vec!["a", "bad"], 1));
}

#[tokio::test]
async fn the_last_good_state_of_an_instance_stays_in_force_until_it_is_somebody_elses() {
    let now = Instant::now();
    let mut view = loaded(None, &["a"], now);
    assert!(view.apply(put(raw("a", "garbage", 1, 2)), now).is_empty());
    assert_eq!((view.list()[0].weight(), view.problems().len()), (WEIGHT_DEFAULT, 1));
    let told = view.apply(put(raw("a", "garbage", 5, 5)), now);
    assert_eq!(told, [DiscoveryEvent::Removed(instance("a"))]);
    assert!(view.list().is_empty());
    assert!(view.apply(delete(raw("a", "", 5, 5)), now).is_empty());
    assert!(view.problems().is_empty());
}

#[tokio::test]
async fn an_empty_service_is_shown_as_it_was_for_a_while_if_asked_for() {
    let (now, bound) = (Instant::now(), Duration::from_secs(30));
    let mut view = loaded(Some(bound), &["a", "b", "c"], now);
    view.apply(put(entry(&instance("c").with_status(Status::Draining), 1, 2)), now);
    // Sessions end one after the other; what left long ago does not come back.
    view.apply(delete(entry(&instance("a"), 1, 1)), now);
    let later = now + BURST + Duration::from_secs(1);
    view.apply(put(entry(&instance("d"), 9, 9)), later);
    view.apply(delete(entry(&instance("d"), 9, 9)), later);
    view.apply(delete(entry(&instance("c"), 1, 2)), later);
    let told = view.apply(delete(entry(&instance("b"), 1, 1)), later);
    assert!(matches!(&told[..], [DiscoveryEvent::Resync(list)] if ids(list) == ["b", "d"]), "{told:?}");
    assert!(view.is_instead() && ids(&view.list()) == ["b", "d"]);

    assert!(view.tick(later + bound - Duration::from_millis(1)).is_empty());
    let told = view.tick(later + bound);
    assert!(matches!(&told[..], [DiscoveryEvent::Resync(list)] if list.is_empty()), "{told:?}");
    assert!(!view.is_instead() && view.deadline().is_none());
}

#[tokio::test]
async fn a_protected_list_ends_when_an_instance_comes() {
    let (now, bound) = (Instant::now(), Duration::from_secs(30));
    let mut view = loaded(Some(bound), &["a", "b"], now);
    let gone = vec![
        Change::Delete { old: entry(&instance("a"), 1, 1) },
        Change::Delete { old: entry(&instance("b"), 1, 1) },
    ];
    let told = view.apply(CacheEvent::Resynced { changes: gone }, now);
    assert!(matches!(&told[..], [DiscoveryEvent::Resync(list)] if ids(list) == ["a", "b"]), "{told:?}");
    let told = view.apply(put(entry(&instance("b"), 4, 4)), now);
    assert!(matches!(&told[..], [DiscoveryEvent::Resync(list)] if ids(list) == ["b"]), "{told:?}");
    assert!(!view.is_instead());
}

#[tokio::test]
async fn those_who_drained_leave_an_empty_list_also_if_it_is_protected() {
    let now = Instant::now();
    let mut view = loaded(Some(Duration::from_secs(30)), &["a"], now);
    let draining = instance("a").with_status(Status::Draining);
    view.apply(put(entry(&draining, 1, 2)), now);
    let told = view.apply(delete(entry(&draining, 1, 2)), now);
    assert_eq!(told, [DiscoveryEvent::Removed(draining)]);
    assert!(view.list().is_empty() && !view.is_instead());
}

#[tokio::test]
async fn the_list_of_a_file_is_shown_until_the_store_is_heard() {
    let now = Instant::now();
    for protect in [None, Some(Duration::from_secs(30))] {
        let mut view = view(protect);
        let told = view.show_file(vec![instance("old")]);
        assert!(matches!(&told[..], [DiscoveryEvent::Initial(list)] if ids(list) == ["old"]), "{told:?}");
        assert!(view.is_instead() && !view.loaded());
        let told = view.apply(CacheEvent::Initialized { entries: Vec::new() }, now);
        let shown = if protect.is_some() { vec!["old"] } else { Vec::new() };
        assert!(matches!(&told[..], [DiscoveryEvent::Resync(list)] if ids(list) == shown), "{told:?}");
        view.apply(put(entry(&instance("new"), 2, 2)), now);
        assert_eq!(ids(&view.list()), ["new"]);
        assert!(view.show_file(vec![instance("late")]).is_empty());
    }
}

/// Native, and keys below `rules` are rules: the name is the rank, the value a weight for all.
#[derive(Debug)]
struct Ruled;

#[derive(Debug)]
struct Weigh(String, u32);

impl Rule for Weigh {
    fn rank(&self) -> &str {
        &self.0
    }

    fn apply(&self, instance: Instance) -> Instance {
        instance.with_weight(self.1)
    }
}

impl Layout for Ruled {
    fn name(&self) -> &'static str {
        "ruled"
    }

    fn directory(&self, root: &Dir, service: &str) -> coord_api::Result<Dir> {
        NativeLayout.directory(root, service)
    }

    fn key(&self, root: &Dir, instance: &Instance) -> coord_api::Result<Key> {
        NativeLayout.key(root, instance)
    }

    fn encode(&self, instance: &Instance) -> coord_api::Result<bytes::Bytes> {
        NativeLayout.encode(instance)
    }

    fn decode(&self, root: &Dir, service: &str, entry: &Entry) -> coord_api::Result<Option<Instance>> {
        NativeLayout.decode(root, service, entry)
    }

    fn service(&self, child: &str) -> Option<String> {
        NativeLayout.service(child)
    }

    fn rule(&self, _: &Dir, _: &str, entry: &Entry) -> coord_api::Result<Option<Arc<dyn Rule>>> {
        let weight = std::str::from_utf8(&entry.value).ok().and_then(|text| text.parse().ok());
        match weight {
            Some(weight) => Ok(Some(Arc::new(Weigh(entry.key.name().to_owned(), weight)))),
            None => Err(crate::layout::malformed(entry, "no weight")),
        }
    }
}

#[tokio::test]
async fn rules_shape_what_is_shown_in_the_order_of_their_ranks() {
    let now = Instant::now();
    let mut view = view_of(Ruled, None);
    let entries = vec![entry(&instance("a"), 1, 1), raw("rules/2", "20", 1, 1)];
    let told = view.apply(CacheEvent::Initialized { entries }, now);
    assert!(matches!(&told[..], [DiscoveryEvent::Initial(list)] if list[0].weight() == 20), "{told:?}");
    // Overruled: nothing is shown otherwise, but that cannot be known without looking at all.
    view.apply(put(raw("rules/1", "10", 2, 2)), now);
    assert_eq!(view.list()[0].weight(), 20);
    let told = view.apply(put(entry(&instance("b"), 3, 3)), now);
    assert_eq!(told, [DiscoveryEvent::Added(instance("b").with_weight(20))]);
    let told = view.apply(delete(raw("rules/2", "20", 1, 1)), now);
    assert!(matches!(&told[..], [DiscoveryEvent::Resync(list)] if list[1].weight() == 10), "{told:?}");
    view.apply(put(raw("rules/1", "garbage", 2, 4)), now);
    assert_eq!((view.list()[0].weight(), view.problems().len()), (10, 1));
    view.apply(delete(raw("rules/1", "garbage", 2, 4)), now);
    assert_eq!((view.list()[0].weight(), view.problems().len()), (WEIGHT_DEFAULT, 0));
}
