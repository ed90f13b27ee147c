//! What every rule does, and then each of them.

mod hash;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::Ordering,
};

use super::*;
use crate::{Instance, Status};

const REQUESTS: usize = 20_000;

fn instance(id: &str) -> Instance {
    Instance::new("billing", id, "10.0.0.7", 80)
}

fn pool(weights: &[(&str, u32)]) -> Pool {
    Pool::new(weights.iter().map(|(id, weight)| instance(id).with_weight(*weight)))
}

fn ids(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

fn id<'c>(rule: &dyn Choose, candidates: &Candidates<'c>, key: Option<&str>) -> Option<&'c str> {
    rule.choose(candidates, key).map(|chosen| chosen.instance().id())
}

/// How often each was chosen in many requests, with a key each.
fn counts(rule: &dyn Choose, candidates: &Candidates<'_>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for request in 0..REQUESTS {
        let chosen = id(rule, candidates, Some(&format!("user-{request}"))).unwrap();
        *counts.entry(chosen.to_owned()).or_default() += 1;
    }
    counts
}

/// The shares that were wanted, give or take `slack` of all requests.
fn assert_shares(counts: &BTreeMap<String, usize>, wanted: &[(&str, f64)], slack: f64) {
    assert_eq!(
        counts.keys().map(String::as_str).collect::<Vec<_>>(),
        wanted.iter().map(|(id, _)| *id).collect::<Vec<_>>()
    );
    for (id, share) in wanted {
        let got = share_of(counts[*id]);
        assert!((got - share).abs() <= slack, "{id} got {got} instead of {share}");
    }
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn share_of(count: usize) -> f64 {
    count as f64 / REQUESTS as f64
}

fn rules() -> Vec<Box<dyn Choose>> {
    vec![
        Box::new(RoundRobin::new()),
        Box::new(Random::seeded(1)),
        Box::new(Weighted::seeded(2)),
        Box::new(LeastInFlight::seeded(3)),
        Box::new(ConsistentHash::new()),
        Box::new(ZoneFirst::new("eu", RoundRobin::new())),
        Box::new(ZoneFirst::new("eu", ConsistentHash::new())),
        Box::new(Sticky::new(Random::seeded(4))),
    ]
}

#[test]
fn instances_of_weight_0_and_those_that_are_not_up_are_never_chosen() {
    let pool = Pool::new([
        instance("up").with_zone("eu"),
        instance("idle").with_weight(0).with_zone("eu"),
        instance("draining").with_status(Status::Draining).with_zone("eu"),
        instance("disabled").with_status(Status::Disabled).with_zone("eu"),
    ]);
    for rule in rules() {
        for request in 0..100 {
            for key in [None, Some(request.to_string().as_str())] {
                assert_eq!(id(&rule, &pool.candidates(), key), Some("up"), "{rule:?}");
            }
        }
    }
}

#[test]
fn who_may_not_be_chosen_now_is_not_and_all_others_are() {
    let zones = ["eu", "eu", "us", "us", "us"];
    let all = ["a", "b", "c", "d", "e"].into_iter().zip(zones);
    let pool = Pool::new(all.map(|(id, zone)| instance(id).with_zone(zone)));
    for without in [ids(&["a", "c"]), ids(&["a", "b", "c"])] {
        let candidates = pool.candidates_without(&without);
        for rule in rules() {
            let mut chosen = BTreeSet::new();
            for request in 0..1_000 {
                chosen.extend(id(&rule, &candidates, Some(&request.to_string())));
            }
            assert!(
                chosen.is_disjoint(&without.iter().map(String::as_str).collect()),
                "{rule:?}: {chosen:?}"
            );
            let near_only = format!("{rule:?}").starts_with("ZoneFirst") && !without.contains("b");
            assert_eq!(chosen.len(), if near_only { 1 } else { candidates.len() }, "{rule:?}: {chosen:?}");
        }
    }
}

#[test]
fn of_nobody_nobody_is_chosen() {
    let (empty, one) = (Pool::new([]), pool(&[("a", 1)]));
    let without = ids(&["a"]);
    for rule in rules() {
        for candidates in [empty.candidates(), one.candidates_without(&without)] {
            assert!(candidates.is_empty());
            assert_eq!(id(&rule, &candidates, None), None, "{rule:?}");
            assert_eq!(id(&rule, &candidates, Some("user-1")), None, "{rule:?}");
        }
    }
}

#[test]
fn of_several_instances_with_one_id_the_last_counts() {
    let pool = Pool::new([instance("a"), instance("a").with_weight(7), instance("0")]);
    assert_eq!(pool.instances().map(Instance::weight).collect::<Vec<_>>(), [100, 7]);
}

#[test]
fn round_robin_gives_each_the_same() {
    let pool = pool(&[("a", 1), ("b", 50), ("c", 1)]);
    let rule = RoundRobin::starting_at(1);
    let first: Vec<_> = (0..6).map(|_| id(&rule, &pool.candidates(), None).unwrap()).collect();
    assert_eq!(first, ["b", "c", "a", "b", "c", "a"]);
    let starts: BTreeSet<_> =
        (0..100).map(|_| id(&RoundRobin::new(), &pool.candidates(), None).unwrap()).collect();
    assert_eq!(starts.len(), 3, "all processes begin with {starts:?}");
}

#[test]
fn random_gives_each_about_the_same_whatever_its_weight() {
    let pool = pool(&[("a", 1), ("b", 1), ("c", 1_000), ("d", 1)]);
    let counts = counts(&Random::seeded(11), &pool.candidates());
    // Five standard deviations of a share are 0.0153.
    assert_shares(&counts, &[("a", 0.25), ("b", 0.25), ("c", 0.25), ("d", 0.25)], 0.016);
}

#[test]
fn weighted_shares_follow_the_weights_up_to_the_largest() {
    let rule = Weighted::seeded(12);
    let some = pool(&[("a", 1), ("b", 3)]);
    assert_shares(&counts(&rule, &some.candidates()), &[("a", 0.25), ("b", 0.75)], 0.016);
    let large = pool(&[("a", u32::MAX), ("b", u32::MAX)]);
    assert_shares(&counts(&rule, &large.candidates()), &[("a", 0.5), ("b", 0.5)], 0.018);
    let canary = pool(&[("new", 1), ("old", 99)]);
    assert_shares(&counts(&rule, &canary.candidates()), &[("new", 0.01), ("old", 0.99)], 0.004);
}

#[test]
fn the_least_busy_is_chosen_and_of_equally_busy_ones_any() {
    let pool = pool(&[("a", 100), ("b", 100), ("c", 100)]);
    let rule = LeastInFlight::seeded(13);
    for (id, busy) in [("a", 2), ("b", 1), ("c", 1)] {
        pool.find(id).unwrap().counter().store(busy, Ordering::Relaxed);
    }
    assert_shares(&counts(&rule, &pool.candidates()), &[("b", 0.5), ("c", 0.5)], 0.018);
    pool.find("b").unwrap().counter().store(3, Ordering::Relaxed);
    assert_shares(&counts(&rule, &pool.candidates()), &[("c", 1.0)], 0.0);
}

#[test]
fn an_idle_canary_gets_a_few_requests_and_a_busy_one_fewer_still() {
    let pool = pool(&[("new", 1), ("old", 100)]);
    let rule = LeastInFlight::seeded(14);
    // Half of its weight: 1 in 200.
    assert_shares(&counts(&rule, &pool.candidates()), &[("new", 0.005), ("old", 0.995)], 0.003);
    pool.find("old").unwrap().counter().store(1, Ordering::Relaxed);
    assert_shares(&counts(&rule, &pool.candidates()), &[("new", 0.015), ("old", 0.985)], 0.005);
    pool.find("new").unwrap().counter().store(1, Ordering::Relaxed);
    assert_shares(&counts(&rule, &pool.candidates()), &[("old", 1.0)], 0.0);
}

#[test]
fn sticky_stays_while_its_instance_lives_and_then_stays_with_another() {
    let all = pool(&[("a", 1), ("b", 1), ("c", 1)]);
    let rule = Sticky::new(Random::seeded(15));
    for key in [None, Some("cart-1"), Some("cart-2"), Some("cart-3")] {
        let first = id(&rule, &all.candidates(), key).unwrap();
        for _ in 0..50 {
            assert_eq!(id(&rule, &all.candidates(), key), Some(first));
        }
        let gone = ids(&[first]);
        let second = id(&rule, &all.candidates_without(&gone), key).unwrap();
        assert_ne!(second, first);
        for _ in 0..50 {
            assert_eq!(
                id(&rule, &all.candidates(), key),
                Some(second),
                "it went back when the first was back"
            );
        }
    }
}

#[test]
fn sticky_keys_are_spread_by_the_rule_below() {
    let pool = pool(&[("a", 1), ("b", 1)]);
    let counts = counts(&Sticky::new(RoundRobin::new()), &pool.candidates());
    assert_shares(&counts, &[("a", 0.5), ("b", 0.5)], 0.0001);
}

#[test]
fn requests_stay_in_the_zone_while_enough_of_it_may_be_chosen() {
    let zones = [("a", "eu"), ("b", "eu"), ("c", "eu"), ("d", "us"), ("e", "us"), ("f", "us")];
    let all = Pool::new(zones.map(|(id, zone)| instance(id).with_zone(zone)));
    let rule = ZoneFirst::new("eu", Random::seeded(16)).with_at_least(2);
    let chosen = |without: &[&str]| {
        let without = ids(without);
        counts(&rule, &all.candidates_without(&without)).into_keys().collect::<Vec<_>>()
    };
    assert_eq!(chosen(&[]), ["a", "b", "c"]);
    assert_eq!(chosen(&["a"]), ["b", "c"]);
    assert_eq!(chosen(&["a", "b"]), ["c", "d", "e", "f"], "one is too few for the zone");
    assert_eq!(chosen(&["a", "b", "c"]), ["d", "e", "f"]);
    assert_eq!(chosen(&["b", "d", "e", "f"]), ["a", "c"]);

    let nowhere = ZoneFirst::new("asia", Random::seeded(17));
    assert_eq!(counts(&nowhere, &all.candidates()).len(), 6, "nobody is in the zone");
    let always = ZoneFirst::new("asia", Random::seeded(17)).with_at_least(0);
    assert_eq!(counts(&always, &all.candidates()).len(), 6);
}

#[test]
fn a_zone_is_looked_up_again_when_the_service_changed() {
    let rule = ZoneFirst::new("eu", RoundRobin::new());
    let before = Pool::new([instance("a").with_zone("eu"), instance("b").with_zone("us")]);
    assert_eq!(id(&rule, &before.candidates(), None), Some("a"));
    let after = before.next(&[instance("a").with_zone("us"), instance("b").with_zone("eu")]);
    assert_eq!(id(&rule, &after.candidates(), None), Some("b"));
}

#[test]
fn counts_stay_with_an_instance_until_it_is_started_again() {
    let before = instance("a");
    let pool = Pool::new([before.clone()]);
    pool.find("a").unwrap().counter().store(5, Ordering::Relaxed);
    let changed = pool.next(&[before.clone().with_weight(3).with_label("version", "2")]);
    assert_eq!(changed.find("a").unwrap().in_flight(), 5);
    let later = before.registered_at() + std::time::Duration::from_secs(1);
    for started_again in
        [before.clone().with_registered_at(later), Instance::new("billing", "a", "10.0.0.8", 80)]
    {
        assert_eq!(changed.next(&[started_again]).find("a").unwrap().in_flight(), 0);
    }
}
