use std::{panic, time::Duration};

use futures::future::{self, join_all};

use super::*;
use crate::{ConsistentHash, LeastInFlight, Probe, Random, RoundRobin, Status};

const SECOND: Duration = Duration::from_secs(1);

/// A list that tests change.
#[derive(Clone)]
pub(crate) struct List(Arc<Mutex<(Arc<[Instance]>, DiscoveryState)>>);

impl List {
    pub(crate) fn of(ids: &[&str]) -> Self {
        let list = ids.iter().map(|id| instance(id)).collect::<Vec<_>>();
        Self(Arc::new(Mutex::new((list.into(), DiscoveryState::Current))))
    }

    pub(crate) fn set(&self, instances: impl IntoIterator<Item = Instance>) {
        self.0.lock().unwrap().0 = instances.into_iter().collect();
    }
}

impl Source for List {
    fn service(&self) -> &str {
        "billing"
    }

    fn list(&self) -> (Arc<[Instance]>, DiscoveryState) {
        self.0.lock().unwrap().clone()
    }
}

pub(crate) fn instance(id: &str) -> Instance {
    Instance::new("billing", id, "10.0.0.7", 80)
}

pub(crate) fn balancer(list: &List, rule: impl Choose, down: DownPolicy) -> Balancer {
    Balancer::with_source(list.clone(), rule, BalancerOptions::default().down(down)).unwrap()
}

fn picked(balancer: &Balancer) -> String {
    balancer.pick().unwrap().instance().id().to_owned()
}

/// All that are picked by a hundred requests, none of which ends.
fn all_picked(balancer: &Balancer) -> Vec<String> {
    let ids: BTreeSet<_> = (0..100).map(|_| picked(balancer)).collect();
    ids.into_iter().collect()
}

/// BB-224: the registry lists a dead instance until its session is over; whoever called it once knows better.
#[test]
fn a_dead_instance_is_not_chosen_again_after_its_first_failure() {
    let list = List::of(&["dead", "well"]);
    let balancer = balancer(&list, RoundRobin::new(), DownPolicy::first_failure());
    let mut failures = 0;
    for _ in 0..100 {
        let pick = balancer.pick().unwrap();
        if pick.instance().id() == "dead" {
            failures += 1;
            pick.failed();
        } else {
            pick.succeeded();
        }
    }
    assert_eq!(failures, 1);
    assert_eq!(balancer.down().into_iter().collect::<Vec<_>>(), ["dead"]);
}

#[test]
fn in_flight_counts_are_given_back_however_a_request_ends() {
    let list = List::of(&["a"]);
    let balancer = balancer(&list, LeastInFlight::new(), DownPolicy::never());
    let in_flight = || balancer.0.pool().find("a").unwrap().in_flight();
    let (first, second, third) =
        (balancer.pick().unwrap(), balancer.pick().unwrap(), balancer.pick().unwrap());
    assert_eq!(in_flight(), 3);
    first.succeeded();
    second.failed();
    drop(third);
    assert_eq!(in_flight(), 0);
    let panicked = panic::catch_unwind(panic::AssertUnwindSafe(|| {
        let _pick = balancer.pick().unwrap();
        assert_eq!(in_flight(), 1);
        panic::resume_unwind(Box::new("a panic that prints nothing"));
    }));
    assert!(panicked.is_err());
    assert_eq!(in_flight(), 0, "after a panic");
}

#[tokio::test]
async fn a_cancelled_request_is_given_back_and_says_nothing_of_its_instance() {
    let list = List::of(&["a"]);
    let balancer = balancer(&list, LeastInFlight::new(), DownPolicy::first_failure());
    let mut call = Box::pin(async {
        let pick = balancer.pick().unwrap();
        future::pending::<()>().await;
        pick.failed();
    });
    assert!(futures::poll!(call.as_mut()).is_pending());
    assert_eq!(balancer.0.pool().find("a").unwrap().in_flight(), 1);
    drop(call);
    assert_eq!(balancer.0.pool().find("a").unwrap().in_flight(), 0);
    assert!(balancer.down().is_empty());
}

#[test]
fn the_least_busy_gets_the_next_request() {
    let list = List::of(&["a", "b", "c"]);
    let balancer = balancer(&list, LeastInFlight::new(), DownPolicy::never());
    let mut picks: Vec<_> = (0..30).map(|_| balancer.pick().unwrap()).collect();
    for id in ["a", "b", "c"] {
        assert_eq!(picks.iter().filter(|pick| pick.instance().id() == id).count(), 10);
    }
    let ended = picks.iter().position(|pick| pick.instance().id() == "b").unwrap();
    drop(picks.remove(ended));
    assert_eq!(picked(&balancer), "b");
}

#[test]
fn the_list_is_followed_and_who_is_not_available_is_left_alone() {
    let list = List::of(&["a", "b"]);
    let balancer = balancer(&list, Random::new(), DownPolicy::default());
    assert_eq!(all_picked(&balancer), ["a", "b"]);
    list.set([
        instance("a").with_status(Status::Draining),
        instance("b"),
        instance("c").with_weight(0),
        instance("d"),
    ]);
    assert_eq!(all_picked(&balancer), ["b", "d"]);
    list.set([]);
    let error = balancer.pick().unwrap_err();
    assert_eq!(error.kind(), coord_api::ErrorKind::Unavailable);
    assert!(error.message().contains("no instance"), "{error}");
    assert!(error.to_string().contains("service=billing"), "{error}");
    list.0.lock().unwrap().1 = DiscoveryState::Loading;
    assert!(balancer.pick().unwrap_err().message().contains("not known yet"));
}

#[tokio::test(start_paused = true)]
async fn after_its_rest_one_request_decides_whether_it_is_back() {
    let list = List::of(&["a", "b"]);
    let policy = DownPolicy::new(2, 10 * SECOND).with_rest(5 * SECOND, 60 * SECOND);
    let balancer = balancer(&list, RoundRobin::starting_at(0), policy);
    for _ in 0..2 {
        balancer.pick().unwrap().failed();
        drop(balancer.pick().unwrap());
    }
    assert_eq!(all_picked(&balancer), ["b"]);
    tokio::time::advance(5 * SECOND).await;
    let trials: Vec<_> = (0..10).map(|_| balancer.pick().unwrap()).collect();
    let (trial, others): (Vec<_>, Vec<_>) = trials.into_iter().partition(|pick| pick.instance().id() == "a");
    assert_eq!((trial.len(), others.len()), (1, 9), "one request at a time");
    trial.into_iter().for_each(Pick::failed);
    tokio::time::advance(9 * SECOND).await;
    assert_eq!(all_picked(&balancer), ["b"], "it rests twice as long");
    tokio::time::advance(SECOND).await;
    let trials: Vec<_> = (0..2).map(|_| balancer.pick().unwrap()).collect();
    trials.into_iter().for_each(Pick::succeeded);
    assert_eq!(all_picked(&balancer), ["a", "b"]);
}

#[test]
fn if_all_are_down_all_are_tried_and_a_success_brings_one_back() {
    let list = List::of(&["a", "b", "c"]);
    let balancer = balancer(&list, Random::new(), DownPolicy::first_failure());
    while balancer.down().len() < 3 {
        balancer.pick().unwrap().failed();
    }
    assert_eq!(all_picked(&balancer), ["a", "b", "c"]);
    let pick = balancer.pick().unwrap();
    let well = pick.instance().id().to_owned();
    pick.succeeded();
    assert_eq!(all_picked(&balancer), [well]);
}

#[test]
fn if_all_are_down_and_so_wanted_it_is_an_error() {
    let list = List::of(&["a", "b"]);
    let policy = DownPolicy::first_failure().with_all_down(AllDown::Refuse);
    let balancer = balancer(&list, Random::new(), policy);
    while balancer.down().len() < 2 {
        balancer.pick().unwrap().failed();
    }
    let error = balancer.pick().unwrap_err();
    assert_eq!((error.kind(), error.retry()), (coord_api::ErrorKind::Unavailable, coord_api::Retry::Safe));
    assert!(
        error.to_string().contains("all instances are down") && error.to_string().contains("down=2"),
        "{error}"
    );
}

#[test]
fn one_that_was_started_again_is_not_down_for_what_it_did_before() {
    let list = List::of(&["a", "b"]);
    let balancer = balancer(&list, Random::new(), DownPolicy::first_failure());
    let old: Vec<_> =
        (0..50).map(|_| balancer.pick().unwrap()).filter(|pick| pick.instance().id() == "a").collect();
    let mut old = old.into_iter();
    old.next().unwrap().failed();
    assert_eq!(all_picked(&balancer), ["b"]);
    let later = instance("a").registered_at() + SECOND;
    list.set([instance("a").with_registered_at(later), instance("b")]);
    assert_eq!(all_picked(&balancer), ["a", "b"]);
    old.for_each(Pick::failed);
    assert_eq!(all_picked(&balancer), ["a", "b"], "requests to the process of before count");
}

#[test]
fn one_that_changes_what_it_says_stays_down() {
    let list = List::of(&["a", "b"]);
    let balancer = balancer(&list, RoundRobin::starting_at(0), DownPolicy::first_failure());
    let first = instance("a");
    list.set([first.clone(), instance("b")]);
    balancer.pick().unwrap().failed();
    list.set([first.with_weight(7).with_label("version", "2"), instance("b")]);
    assert_eq!(all_picked(&balancer), ["b"]);
}

#[test]
fn a_key_stays_with_its_instance_until_that_is_down() {
    let list = List::of(&["a", "b", "c"]);
    let balancer = balancer(&list, ConsistentHash::new(), DownPolicy::first_failure());
    let owner = |key: &str| balancer.pick_for(key).unwrap().instance().id().to_owned();
    let before: Vec<_> = (0..100).map(|key| owner(&key.to_string())).collect();
    assert_eq!(before.iter().collect::<BTreeSet<_>>().len(), 3);
    let down = owner("7");
    balancer.pick_for("7").unwrap().failed();
    for (key, before) in before.iter().enumerate() {
        assert_eq!(
            owner(&key.to_string()) != *before,
            *before == down,
            "key {key} of {before}, {down} is down"
        );
    }
}

#[test]
fn whom_a_request_tried_comes_last() {
    let list = List::of(&["a", "b", "c"]);
    let tried = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<BTreeSet<_>>();
    let pick = |balancer: &Balancer, ids: &[&str]| {
        let picked =
            (0..50).map(|_| balancer.pick_without(None, &tried(ids)).unwrap().instance().id().to_owned());
        picked.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    };
    for (all_down, rather) in [(AllDown::TryAnyway, &["c"][..]), (AllDown::Refuse, &["a", "b"])] {
        let policy = DownPolicy::first_failure().with_all_down(all_down);
        let balancer = balancer(&list, Random::new(), policy);
        assert_eq!(pick(&balancer, &["a"]), ["b", "c"]);
        assert_eq!(pick(&balancer, &["a", "b", "c"]), ["a", "b", "c"]);
        balancer.pick_without(None, &tried(&["a", "b"])).unwrap().failed();
        assert_eq!(pick(&balancer, &["a"]), ["b"]);
        assert_eq!(pick(&balancer, &["a", "b"]), rather, "one that is down, or one that this request tried");
    }
}

#[test]
fn many_threads_pick_while_the_list_changes_and_no_count_is_lost() {
    let list = List::of(&["a", "b", "c", "d"]);
    let balancer = balancer(&list, LeastInFlight::new(), DownPolicy::new(3, SECOND));
    let all: Vec<_> = list.list().0.to_vec();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (balancer, list, all) = (&balancer, &list, &all);
            scope.spawn(move || {
                for turn in 0..500 {
                    if thread == 0 {
                        // "a" stays, the others come and go.
                        list.set(all.iter().take(1 + turn % 4).cloned());
                    }
                    let pick = balancer.pick().unwrap();
                    if turn % 7 == 0 { pick.failed() } else { pick.succeeded() }
                }
            });
        }
    });
    assert_eq!(balancer.0.pool().find("a").unwrap().in_flight(), 0);
}

/// Passes for those that live.
#[derive(Debug)]
struct Alive(Arc<Mutex<BTreeSet<&'static str>>>);

#[async_trait::async_trait]
impl Probe for Alive {
    async fn probe(&self, instance: &Instance) -> Result<()> {
        match instance.id() {
            "panics" => panic::resume_unwind(Box::new("a panic that prints nothing")),
            "hangs" => future::pending().await,
            id if self.0.lock().unwrap().contains(id) => Ok(()),
            _ => Err(Error::unavailable("dead")),
        }
    }
}

async fn until(done: impl Fn() -> bool + Send + Sync) {
    let waiting = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(60 * SECOND, waiting).await.expect("it comes to be so within a minute");
}

#[tokio::test(start_paused = true)]
async fn probes_take_out_the_dead_and_let_them_in_again() {
    let alive = Arc::new(Mutex::new(BTreeSet::from(["a", "b"])));
    let list = List::of(&["a", "b", "panics", "hangs"]);
    let policy = DownPolicy::default().with_rest(SECOND, SECOND);
    let probing = Probing::new(Alive(Arc::clone(&alive)), SECOND).with_at_once(2);
    let options = BalancerOptions::default().down(policy).probing(probing);
    let balancer = Balancer::with_source(list.clone(), Random::new(), options).unwrap();
    let well = || {
        let down = balancer.down();
        ["a", "b", "panics", "hangs"].into_iter().filter(|id| !down.contains(*id)).collect::<Vec<_>>()
    };
    until(|| well() == ["a", "b"]).await;
    assert_eq!(all_picked(&balancer), ["a", "b"]);
    alive.lock().unwrap().remove("b");
    until(|| well() == ["a"]).await;
    alive.lock().unwrap().insert("b");
    until(|| well() == ["a", "b"]).await;

    // What requests say counts, too, and then the probe decides when it is back.
    let tried = BTreeSet::from(["b".to_owned(), "panics".to_owned(), "hangs".to_owned()]);
    join_all((0..3).map(|_| async { balancer.pick_without(None, &tried).unwrap().failed() })).await;
    assert_eq!(well(), ["b"]);
    until(|| well() == ["a", "b"]).await;
}

#[tokio::test(start_paused = true)]
async fn probing_ends_with_the_balancer() {
    let alive = Arc::new(Mutex::new(BTreeSet::new()));
    let options = BalancerOptions::default().probing(Probing::new(Alive(Arc::clone(&alive)), SECOND));
    let balancer = Balancer::with_source(List::of(&["hangs"]), Random::new(), options).unwrap();
    until(|| !balancer.down().is_empty()).await;
    assert!(Arc::strong_count(&alive) > 1);
    drop(balancer);
    until(|| Arc::strong_count(&alive) == 1).await;
}

#[test]
fn probing_needs_a_runtime_and_says_so() {
    let options = BalancerOptions::default().probing(Probing::new(Alive(Arc::default()), SECOND));
    let refused = Balancer::with_source(List::of(&["a"]), Random::new(), options).unwrap_err();
    assert_eq!(refused.kind(), coord_api::ErrorKind::InvalidArgument);
}
