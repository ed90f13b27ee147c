//! Random operations against a small model: same answers, and a watcher that ends up with the same state.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod common;

use std::{collections::BTreeMap, time::Duration};

use common::*;
use coord_api::{
    Check, Failed, Key, Lifetime, Op, OpContext, Revision, SessionId, Start, Txn, TxnOutcome, Version,
    WatchEvent,
};
use futures::StreamExt;
use rand::{Rng, SeedableRng, rngs::StdRng};

#[derive(Clone, Debug, PartialEq)]
struct Row {
    value: Vec<u8>,
    created: u64,
    modified: u64,
    owner: Option<SessionId>,
}

type Model = BTreeMap<Key, Row>;

fn random_key(rng: &mut StdRng) -> Key {
    key(&format!("/m/{}/{}", rng.random_range(0..2), rng.random_range(0..4)))
}

fn random_txn(rng: &mut StdRng, model: &Model) -> Txn {
    let mut txn = Txn::new();
    for _ in 0..rng.random_range(0..3) {
        let at = random_key(rng);
        let row = model.get(&at);
        // Mostly what is true, so that many transactions pass.
        let right = rng.random_bool(0.8);
        txn = txn.check(match rng.random_range(0..3) {
            0 if row.is_some() == right => Check::Exists(at),
            0 => Check::Absent(at),
            1 => Check::Version(at, Version::new(row.map_or(7, |row| row.modified) + u64::from(!right))),
            _ => Check::Created(at, Revision::new(row.map_or(7, |row| row.created) + u64::from(!right))),
        });
    }
    let mut written = Vec::new();
    for _ in 0..rng.random_range(1..4) {
        let at = random_key(rng);
        if written.contains(&at) {
            continue;
        }
        written.push(at.clone());
        // Now and then around the length from which another script puts it.
        let long = if rng.random_bool(0.1) { 4094 } else { 0 };
        let value = vec![rng.random::<u8>(); long + rng.random_range(0..4)];
        let exists = model.contains_key(&at);
        txn = match rng.random_range(0..10) {
            0..4 => txn.put(at, value),
            4..7 if !exists || rng.random_bool(0.2) => {
                let ephemeral = rng.random_bool(0.5);
                txn.create(at, value, if ephemeral { Lifetime::Session } else { Lifetime::Persistent })
            }
            7..9 if exists || rng.random_bool(0.2) => txn.delete(at),
            _ => txn.update(at, value),
        };
    }
    txn
}

fn judge(txn: &Txn, model: &Model) -> Option<Failed> {
    let check = txn.checks().iter().position(|check| {
        let row = model.get(check.key());
        !match check {
            Check::Absent(_) => row.is_none(),
            Check::Exists(_) => row.is_some(),
            Check::Version(_, version) => row.is_some_and(|row| row.modified == version.get()),
            Check::Created(_, created) => row.is_some_and(|row| row.created == created.get()),
            _ => unreachable!(),
        }
    });
    let op = || {
        txn.ops().iter().position(|op| match op {
            Op::Create { key, .. } => model.contains_key(key),
            Op::Update { key, .. } | Op::Delete { key } => !model.contains_key(key),
            _ => false,
        })
    };
    check.map(Failed::Check).or_else(|| op().map(Failed::Op))
}

fn apply(txn: &Txn, model: &mut Model, at: u64, session: &SessionId) {
    for op in txn.ops() {
        let value = op.value().to_vec();
        match op {
            Op::Delete { key } => drop(model.remove(key)),
            Op::Create { key, lifetime, .. } => {
                let owner = (*lifetime == Lifetime::Session).then(|| session.clone());
                model.insert(key.clone(), Row { value, created: at, modified: at, owner });
            }
            _ => {
                let row = Row { value: Vec::new(), created: at, modified: at, owner: None };
                let row = model.entry(op.key().clone()).or_insert(row);
                (row.value, row.modified) = (value, at);
            }
        }
    }
}

on_all! {
async fn random_transactions_do_what_a_map_does(which: Which) {
    let seed = std::env::var("COORD_TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(rand::random);
    let mut rng = StdRng::seed_from_u64(seed);
    let server = plain(which).await;
    let (backend, watcher) = (open(&server).await, open(&server).await);
    let (mut owner, mut mine) = session(&backend, 30_000).await;
    let mut model = Model::new();
    let mut watch = watcher.watch(&ctx(), &dir("/m"), Start::Snapshot).await.unwrap();
    let (mut committed, mut rejected, mut last) = (0, 0, 0);
    for step in 0..600 {
        let txn = random_txn(&mut rng, &model);
        let expected = judge(&txn, &model);
        match (backend.commit(&mine, txn.clone()).await.unwrap(), expected) {
            (TxnOutcome::Committed(commit), None) => {
                if let Some(at) = commit.revision() {
                    assert!(at.get() > last, "seed {seed} step {step}");
                    last = at.get();
                } else if !txn.ops().is_empty() {
                    last += 1;
                }
                apply(&txn, &mut model, last, owner.id());
                committed += 1;
            }
            (TxnOutcome::Rejected(rejection), Some(failed)) => {
                assert_eq!(rejection.failed, Some(failed), "seed {seed} step {step}: {txn:?}");
                rejected += 1;
            }
            (outcome, expected) => panic!("seed {seed} step {step}: {txn:?} gave {outcome:?}, not {expected:?}"),
        }
        if step % 97 == 96 {
            let ended = owner.id().clone();
            owner.close().await.unwrap();
            model.retain(|_, row| row.owner.as_ref() != Some(&ended));
            (owner, mine) = session(&backend, 30_000).await;
            last += 1;
        }
        let at = random_key(&mut rng);
        let found = backend.get(&OpContext::default(), &at).await.unwrap().map(|entry| Row {
            value: entry.value.to_vec(),
            created: entry.meta.created.get(),
            modified: entry.meta.modified.get(),
            owner: entry.meta.owner,
        });
        assert_eq!(found.as_ref(), model.get(&at), "seed {seed} step {step} {at}");
    }
    assert!(committed > 100 && rejected > 50, "seed {seed}: {committed} committed, {rejected} rejected");
    let children: Vec<_> = backend.list(&ctx(), &dir("/m/0")).await.unwrap().children.into_iter().map(|c| c.key).collect();
    let expected: Vec<_> = model.keys().filter(|key| dir("/m/0").contains(key)).cloned().collect();
    assert_eq!(children, expected, "seed {seed}");

    // The watcher saw all of it, or at least its end.
    backend.commit(&ctx(), Txn::new().put(key("/m/end"), "")).await.unwrap().committed().unwrap();
    let mut copy = BTreeMap::new();
    within("the watcher catches up", Duration::from_secs(10), async {
        while !copy.contains_key(&key("/m/end")) {
            match watch.next().await.unwrap().unwrap() {
                WatchEvent::Snapshot { entries, .. } => {
                    copy = entries.into_iter().map(|entry| (entry.key, entry.value.to_vec())).collect();
                }
                WatchEvent::Put(entry) => drop(copy.insert(entry.key, entry.value.to_vec())),
                WatchEvent::Delete { key, .. } => drop(copy.remove(&key)),
                _ => {}
            }
        }
    })
    .await;
    copy.remove(&key("/m/end"));
    assert_eq!(copy, model.into_iter().map(|(key, row)| (key, row.value)).collect(), "seed {seed}");
}
}
