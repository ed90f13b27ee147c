use std::{
    collections::BTreeSet,
    future::{Ready, poll_fn, ready},
    time::Duration,
};

use coord_api::{Coord, SessionOptions, kit::Runtime};
use coord_backend_memory::{MemoryBackend, MemoryStore};
use coord_recipes::SessionKeeper;
use tower::{
    Service, ServiceExt,
    balance::p2c::Balance,
    load::{CompleteOnResponse, PendingRequestsDiscover},
};

use super::*;
use crate::{Registry, Status};

fn instance(id: &str) -> Instance {
    Instance::new("billing", id, "10.0.0.7", 80)
}

/// A client of one instance that answers with its id, whatever is asked.
#[derive(Debug)]
struct Client(String);

impl Service<()> for Client {
    type Response = String;
    type Error = Infallible;
    type Future = Ready<Result<String, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _request: ()) -> Self::Future {
        ready(Ok(self.0.clone()))
    }
}

/// Whom the balance asks, in many requests.
async fn asked<B: Service<(), Response = String>>(balance: &mut B) -> Vec<String>
where
    B::Error: fmt::Debug,
{
    let mut asked = BTreeSet::new();
    for _ in 0..200 {
        asked.insert(balance.ready().await.unwrap().call(()).await.unwrap());
    }
    asked.into_iter().collect()
}

#[tokio::test]
async fn a_balance_of_tower_serves_and_follows_who_comes_and_goes() {
    let runtime = Runtime::current().unwrap();
    let store = Coord::new(Arc::new(MemoryBackend::new(&MemoryStore::new(&runtime), runtime)));
    let registry = Registry::new(&store, "/services").unwrap();
    let keeper = SessionKeeper::new(&store, SessionOptions::default());
    let billing = registry.discover("billing").unwrap();
    let b1 = registry.register(&keeper, instance("b1")).await.unwrap();
    let b2 = registry.register(&keeper, instance("b2")).await.unwrap();
    let available = async |count: usize| {
        let seen = billing.wait_until(|list| list.iter().filter(|it| it.is_available()).count() == count);
        tokio::time::timeout(Duration::from_secs(20), seen).await.expect("the view follows").unwrap();
    };
    available(2).await;

    let services = Services::new(&billing, |instance: &Instance| Client(instance.id().to_owned()));
    let mut balance = Balance::new(PendingRequestsDiscover::new(services, CompleteOnResponse::default()));
    assert_eq!(asked(&mut balance).await, ["b1", "b2"]);

    b1.close().await.unwrap();
    available(1).await;
    assert_eq!(asked(&mut balance).await, ["b2"]);

    b2.set_status(Status::Draining).await.unwrap();
    available(0).await;
    let is_ready = poll_fn(|cx| Poll::Ready(balance.poll_ready(cx).is_ready())).await;
    assert!(!is_ready, "nobody takes requests");

    let b3 = registry.register(&keeper, instance("b3")).await.unwrap();
    available(1).await;
    assert_eq!(asked(&mut balance).await, ["b3"]);
    b2.set_status(Status::Up).await.unwrap();
    available(2).await;
    assert_eq!(asked(&mut balance).await, ["b2", "b3"]);

    store.close().await.unwrap();
    b3.close().await.ok();
    assert_eq!(asked(&mut balance).await, ["b2", "b3"], "without the store, those that were there serve");
}

fn steps(roll: &mut Roll) -> Vec<String> {
    std::iter::from_fn(|| roll.next())
        .map(|step| match step {
            Step::Insert(instance) => format!("+{}", instance.id()),
            Step::Remove(id) => format!("-{id}"),
        })
        .collect()
}

#[test]
fn a_service_is_made_anew_only_where_a_connector_could_tell() {
    let mut roll = Roll::default();
    let (a, b) = (instance("a"), instance("b"));
    let idle = instance("idle").with_weight(0);
    roll.apply(DiscoveryEvent::Initial([a.clone(), b.clone(), idle.clone()].into()));
    assert_eq!(steps(&mut roll), ["+a", "+b"]);
    let update = |before: &Instance, after: &Instance| DiscoveryEvent::Updated {
        before: before.clone(),
        after: after.clone(),
    };
    let heavy = a.clone().with_weight(7);
    roll.apply(update(&a, &heavy));
    assert!(steps(&mut roll).is_empty(), "a weight is nothing that tower looks at");
    let labelled = heavy.clone().with_label("version", "2");
    roll.apply(update(&heavy, &labelled));
    assert_eq!(steps(&mut roll), ["+a"]);
    roll.apply(update(&labelled, &labelled.clone().with_status(Status::Draining)));
    assert_eq!(steps(&mut roll), ["-a"]);
    roll.apply(DiscoveryEvent::Removed(labelled));
    assert!(steps(&mut roll).is_empty(), "it was removed before");
    roll.apply(update(&idle, &idle.clone().with_weight(1)));
    assert_eq!(steps(&mut roll), ["+idle"]);
}

#[test]
fn of_a_gap_only_the_difference_is_told_and_what_was_undone_is_not() {
    let mut roll = Roll::default();
    let (a, b, c) = (instance("a"), instance("b"), instance("c"));
    roll.apply(DiscoveryEvent::Initial([a.clone(), b.clone()].into()));
    assert_eq!(steps(&mut roll), ["+a", "+b"]);
    roll.apply(DiscoveryEvent::Resync([b.clone(), c.clone()].into()));
    assert_eq!(steps(&mut roll), ["-a", "+c"]);
    roll.apply(DiscoveryEvent::Removed(b.clone()));
    roll.apply(DiscoveryEvent::Added(a.clone()));
    roll.apply(DiscoveryEvent::Removed(a));
    roll.apply(DiscoveryEvent::Added(b));
    assert!(steps(&mut roll).is_empty());
}
