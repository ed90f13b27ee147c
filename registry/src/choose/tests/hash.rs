//! Consistent hashing.

use super::*;
use crate::choose::consistent_hash::ring;

fn owners(rule: &ConsistentHash, candidates: &Candidates<'_>) -> Vec<String> {
    let key = |request| format!("user-{request}");
    (0..REQUESTS).map(|request| id(rule, candidates, Some(&key(request))).unwrap().to_owned()).collect()
}

/// How many keys of others than `gone` moved, and how many of its own.
fn moved(before: &[String], after: &[String], gone: &str) -> (usize, usize) {
    let moved = before.iter().zip(after).filter(|(before, after)| before != after);
    let (its, others): (Vec<_>, Vec<_>) = moved.partition(|(before, _)| *before == gone);
    (others.len(), its.len())
}

fn many(count: u32, weight: impl Fn(u32) -> u32) -> Vec<Instance> {
    (0..count).map(|i| instance(&format!("b{i:05}")).with_weight(weight(i))).collect()
}

#[test]
fn only_the_keys_of_a_lost_instance_move_and_all_of_them_do() {
    let all = many(10, |_| 100);
    let before = owners(&ConsistentHash::new(), &Pool::new(all.clone()).candidates());
    let after = owners(&ConsistentHash::new(), &Pool::new(all.into_iter().skip(1)).candidates());
    let (others, its) = moved(&before, &after, "b00000");
    assert_eq!(others, 0, "keys moved between instances that stayed");
    assert_eq!(its, before.iter().filter(|owner| *owner == "b00000").count());
    assert!((REQUESTS / 20..REQUESTS / 6).contains(&its), "{its} of {REQUESTS}");
}

#[test]
fn one_that_is_down_moves_the_same_keys_as_one_that_left() {
    let all = many(10, |_| 100);
    let pool = Pool::new(all.clone());
    let rule = ConsistentHash::new();
    let down = ids(&["b00003", "b00007"]);
    let left = Pool::new(all.into_iter().filter(|instance| !down.contains(instance.id())));
    let when_down = owners(&rule, &pool.candidates_without(&down));
    assert_eq!(when_down, owners(&ConsistentHash::new(), &left.candidates()));
    assert_eq!(rule.rings.lock().unwrap().len(), 1, "a ring was made for those that are left");
}

#[test]
fn with_mixed_weights_a_loss_moves_few_more_keys_than_its_own() {
    let all = many(20, |i| 50 + 10 * i);
    let before = owners(&ConsistentHash::new(), &Pool::new(all.clone()).candidates());
    let after = owners(&ConsistentHash::new(), &Pool::new(all.into_iter().skip(1)).candidates());
    let (others, its) = moved(&before, &after, "b00000");
    assert!(its > 0 && others < REQUESTS / 20, "{its} of its own and {others} of others moved");
}

#[test]
fn shares_follow_the_weights() {
    let pool = pool(&[("a", 100), ("b", 100), ("c", 200)]);
    let counts = counts(&ConsistentHash::new(), &pool.candidates());
    assert_shares(&counts, &[("a", 0.25), ("b", 0.25), ("c", 0.5)], 0.06);
    let same = many(1_000, |_| 1_000_000);
    assert_eq!(
        owners(&ConsistentHash::new(), &Pool::new(same).candidates()),
        owners(&ConsistentHash::new(), &Pool::new(many(1_000, |_| 1)).candidates()),
        "only the ratio of weights counts"
    );
}

#[test]
fn every_weight_and_number_of_instances_has_a_ring_of_bounded_size() {
    let points = |pool: &Pool| format!("{:?}", ring(pool)).matches('(').count();
    let lopsided = Pool::new(many(10, |i| if i == 0 { u32::MAX } else { 1 }));
    assert_eq!(points(&lopsided), 10 * 128 + 9);
    assert_eq!(points(&Pool::new(many(2_000, |_| 7))), 2_000 * 65);
    assert_eq!(points(&Pool::new(many(10_000, |_| 7))), 10_000 * 32);
    assert_eq!(points(&Pool::new([])), 0);
}

#[test]
fn requests_without_a_key_are_shared_by_weight() {
    let pool = pool(&[("a", 1), ("b", 1)]);
    let rule = ConsistentHash::new();
    let chosen: BTreeSet<_> = (0..100).map(|_| id(&rule, &pool.candidates(), None)).collect();
    assert_eq!(chosen.len(), 2);
}

#[test]
fn the_ring_follows_the_service() {
    let rule = ConsistentHash::new();
    let before = pool(&[("a", 1)]);
    assert_eq!(id(&rule, &before.candidates(), Some("user-1")), Some("a"));
    let after = before.next(&[instance("b")]);
    assert_eq!(id(&rule, &after.candidates(), Some("user-1")), Some("b"));
    assert_eq!(id(&rule, &before.candidates(), Some("user-1")), Some("a"));
}
