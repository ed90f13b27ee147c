use std::sync::Arc;

use coord_api::{Coord, kit::Runtime};
use coord_backend_memory::{Fault, MemoryBackend, MemoryStore};

use super::*;
use crate::{
    ConfigCentre, Content, Edit, Edited, Format, GrayContent, Import, OnConflict, Rule,
    change::{Intent, Planned},
    settle::Settled,
};

fn store() -> Coord {
    let runtime = Runtime::current().unwrap();
    Coord::new(Arc::new(MemoryBackend::new(&MemoryStore::new(&runtime), runtime)))
}

fn billing(coord: &Coord, retention: Retention) -> Namespace {
    ConfigCentre::new(coord, "/config").unwrap().with_retention(retention).namespace("billing").unwrap()
}

/// Nobody but the test removes anything.
fn all(coord: &Coord) -> Namespace {
    billing(coord, Retention::default())
}

fn few(coord: &Coord) -> Namespace {
    billing(coord, Retention::default().with_releases(2).with_log(2))
}

fn ann() -> Edit {
    Edit::by("ann")
}

fn document(number: u64) -> Content {
    Content::document(Format::Json, number.to_string())
}

fn canary() -> Rule {
    Rule::new("canary").with_label("track", "canary")
}

async fn publish(namespace: &Namespace, number: u64) {
    namespace.publish(document(number), &ann()).await.unwrap().done().unwrap();
}

/// Six releases, of which the fifth is that of a gray rule.
async fn begin(coord: &Coord) -> Namespace {
    let namespace = all(coord);
    for number in 1..=4 {
        publish(&namespace, number).await;
    }
    let gives = GrayContent::whole(document(5));
    namespace.set_gray(canary(), gives, &ann()).await.unwrap().done().unwrap();
    publish(&namespace, 6).await;
    namespace
}

/// All that the head points at is there.
async fn whole(namespace: &Namespace) {
    for release in namespace.head().await.unwrap().unwrap().releases() {
        assert!(namespace.release(release.version).await.is_ok(), "{}", release.version);
    }
    assert_eq!(namespace.verify().await.unwrap().broken, None);
}

async fn committed(coord: &Coord, txn: &Txn) -> bool {
    coord.commit(txn.clone()).await.unwrap().is_committed()
}

/// Every change of a namespace, made between the look of a collection and its transaction, for a first collection and
/// for a later one: only a rollback is in its way, and never is anything lost that the head points at.
#[tokio::test]
async fn a_collection_goes_by_what_it_saw_unless_somebody_went_back() {
    for later in [false, true] {
        for change in ["publish", "draft", "gray", "rule", "promote", "abandon", "import", "rollback"] {
            let coord = store();
            let (namespace, few) = (begin(&coord).await, few(&coord));
            if later {
                few.collect().await.unwrap();
                publish(&namespace, 7).await;
                publish(&namespace, 8).await;
            }
            let (txn, batch) = few.next_batch().await.unwrap().unwrap();
            let doomed = few.paths().release(ReleaseVersion::new(if later { 6 } else { 2 })).unwrap();
            assert!(batch.releases.contains(&doomed), "{batch:?}");
            let edited = match change {
                "publish" => namespace.publish(document(9), &ann()).await,
                "draft" => {
                    let draft =
                        namespace.save_draft(document(9), None, &ann()).await.unwrap().done().unwrap();
                    namespace.publish_draft(&draft, &ann()).await
                }
                "gray" => namespace.set_gray(canary(), GrayContent::whole(document(9)), &ann()).await,
                "rule" => namespace.set_rule(canary().with_label("zone", "eu"), &ann()).await,
                "promote" => namespace.promote("canary", &ann()).await,
                "abandon" => namespace.abandon("canary", &ann()).await,
                "import" => {
                    let other = ConfigCentre::new(&coord, "/other").unwrap();
                    publish(&other.namespace("billing").unwrap(), 9).await;
                    let bundle = other.export(["billing"]).await.unwrap();
                    let import = Import::by("ann").on_conflict(OnConflict::Overwrite);
                    let centre = ConfigCentre::new(&coord, "/config").unwrap();
                    centre.import(&bundle, import).await.unwrap();
                    Ok(Edited::Done(namespace.head().await.unwrap().unwrap()))
                }
                _ => namespace.rollback(ReleaseVersion::new(if later { 6 } else { 2 }), &ann()).await,
            };
            assert!(matches!(edited, Ok(Edited::Done(_))), "{change}: {edited:?}");
            assert_eq!(committed(&coord, &txn).await, change != "rollback", "{change}");
            whole(&namespace).await;
            // Nobody has to wait for the next look either.
            few.collect().await.unwrap();
            whole(&namespace).await;
            let floor = few.settings().retention.floor(&few.head().await.unwrap().unwrap()).0;
            let head = few.head().await.unwrap().unwrap();
            let kept = |version: &ReleaseVersion| {
                *version >= floor || head.releases().any(|release| release.version == *version)
            };
            assert!(few.releases().await.unwrap().iter().all(kept), "{change}");
        }
    }
}

/// A rollback to a release that is collected while it is planned finds it gone; one to a release that is kept is made,
/// though retention has moved the anchor.
#[tokio::test]
async fn a_rollback_that_a_collection_overtakes_is_planned_anew() {
    for later in [false, true] {
        for (to, there) in [(2, false), (5, true)] {
            let coord = store();
            let (namespace, few) = (begin(&coord).await, few(&coord));
            if later {
                // The anchor is there, and says that nothing was removed.
                for version in [1, 6] {
                    let version = ReleaseVersion::new(version);
                    namespace.rollback(version, &ann()).await.unwrap().done().unwrap();
                }
            }
            let (to, seen) = (ReleaseVersion::new(to), namespace.look().await.unwrap().unwrap());
            let Planned::Make(plan) = namespace.plan_rollback(to, &seen.head).await.unwrap() else {
                panic!("it is another release")
            };
            let txn = namespace.ready(*plan, &ann(), Some(&seen)).unwrap().txn;
            few.collect().await.unwrap();
            assert!(!committed(&coord, &txn).await);
            let in_the_way = namespace.in_the_way(&txn).await;
            assert_eq!(in_the_way.is_ok(), there, "{in_the_way:?}");
            let edited = namespace.change(Intent::Rollback(to), &ann()).await;
            assert_eq!(edited.is_ok(), there, "{edited:?}");
            whole(&namespace).await;
        }
    }
}

/// A rollback whose request was lost, and which a collection overtook, is known not to be made: it is not sent again and
/// again until its patience ends.
#[tokio::test]
async fn a_rollback_that_was_lost_and_overtaken_is_known_to_be_refused() {
    let runtime = Runtime::current().unwrap();
    let memory = MemoryStore::new(&runtime);
    let backend = MemoryBackend::new(&memory, runtime.clone());
    let faults = backend.faults();
    let other = Coord::new(Arc::new(MemoryBackend::new(&memory, runtime)));
    let namespace = begin(&Coord::new(Arc::new(backend))).await;
    let seen = namespace.look().await.unwrap().unwrap();
    let Planned::Make(plan) = namespace.plan_rollback(ReleaseVersion::new(5), &seen.head).await.unwrap()
    else {
        panic!("it is another release")
    };
    let txn = namespace.ready(*plan, &ann(), Some(&seen)).unwrap().txn;
    few(&other).collect().await.unwrap();
    faults.plan(1, Fault::DropRequest);
    let settled = namespace.settle(&txn, seen.head.generation.next(), "ours").await;
    assert!(matches!(settled, Ok(Settled::Refused)), "{settled:?}");
}

/// A rollback writes back what it found, also what a later release of coord put there.
#[tokio::test]
async fn a_rollback_keeps_the_anchor_as_it_is() {
    let coord = store();
    let (namespace, few) = (begin(&coord).await, few(&coord));
    few.collect().await.unwrap();
    let key = namespace.paths().anchor.clone();
    for value in [coord.get(&key).await.unwrap().unwrap().value, Bytes::from("{\"v\":2}")] {
        coord.put(&key, value.clone()).await.unwrap();
        let before = coord.get(&key).await.unwrap().unwrap();
        let to = if namespace.head().await.unwrap().unwrap().main.version.get() == 5 { 6 } else { 5 };
        namespace.rollback(ReleaseVersion::new(to), &ann()).await.unwrap().done().unwrap();
        let after = coord.get(&key).await.unwrap().unwrap();
        assert_eq!(after.value, value);
        assert_ne!(after.meta.version, before.meta.version);
    }
}
