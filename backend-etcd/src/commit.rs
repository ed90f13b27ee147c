//! Applying transactions.

use std::{collections::BTreeMap, sync::Arc};

use coord_api::{
    Commit, Error, ErrorKind, Failed, Key, Op, OpContext, Rejection, Result, Retry, Txn, TxnOutcome, Version,
    Written,
};
use etcd_client::{
    GetOptions, PutOptions, TxnOp,
    proto::{PbResponseOp, PbTxnOpResponse, PbTxnResponse},
};

use crate::{
    error::{Call, broken},
    plan::{Plan, State},
    scan::revision,
    store::Store,
};

/// How often a transaction with probed keys starts over because one came or went in between.
const ATTEMPTS: usize = 8;

/// Applies a transaction in one of etcd's.
pub(crate) async fn commit(store: &Arc<Store>, ctx: &OpContext, txn: Txn) -> Result<TxnOutcome> {
    if let Some(outcome) = put_over(store, &txn).await? {
        return Ok(outcome);
    }
    let lease = if txn.needs_session() { store.owner(ctx)?.lease() } else { 0 };
    let keys: Vec<Key> = txn.ops().iter().map(Op::key).cloned().collect();
    let plan = Plan::new(&store.paths, txn, lease)?;
    for _ in 0..ATTEMPTS {
        let probed = probe(store, &plan).await?;
        let answer = send(store, plan.build(&probed)).await?;
        let at = answer.header.as_ref().ok_or_else(no_header)?.revision;
        if answer.succeeded {
            store.own_writes.note(&store.hubs, &keys, revision(at));
            let written = Written::new(revision(at), Version::new(revision(at).get()));
            let written: Vec<_> = plan.leaves().map(|leaves| leaves.then_some(written)).collect();
            for (key, left) in keys.iter().zip(&written) {
                match left {
                    Some(_) => store.there.learn(key, ()),
                    None => store.there.forget(key),
                }
            }
            return Ok(TxnOutcome::Committed(Commit::new(written)));
        }
        let states = plan.keys().into_iter().zip(answer.responses.into_iter().map(state)).collect();
        let failed = plan.first_failed(&states);
        // If all that was asked for holds, it was a probed key that came or went.
        if failed.is_some() || plan.to_probe.is_empty() {
            return Ok(TxnOutcome::Rejected(Rejection::new(failed)));
        }
    }
    Err(Error::new(ErrorKind::Unavailable, "the keys came and went under the transaction")
        .with_retry(Retry::Safe))
}

/// Applies the write of a single key that must be there, or probably is, by a plain put, which costs the store half as
/// much as a transaction. `None` if it is another transaction, or the key was not there after all.
///
/// etcd refuses a put that keeps the lease of a key if there is no key, so the guess need not be true.
async fn put_over(store: &Arc<Store>, txn: &Txn) -> Result<Option<TxnOutcome>> {
    let (key, value, guessed) = match (txn.checks(), txn.ops()) {
        ([], [Op::Update { key, value }]) => (key, value, false),
        ([], [Op::Put { key, value }]) if store.there.guess(key).is_some() => (key, value, true),
        _ => return Ok(None),
    };
    let (name, value) = (store.paths.encode(key), value.clone());
    let sending = store.endpoints.call(Call::Write, move |connection| {
        let (name, value) = (name.clone(), value.to_vec());
        let keep = PutOptions::new().with_ignore_lease();
        async move { connection.kv().put(name, value, Some(keep)).await }
    });
    let answer = match sending.await {
        Ok(answer) => answer,
        Err(failure) if failure.no_key && guessed => {
            store.there.wrong(key);
            return Ok(None);
        }
        Err(failure) if failure.no_key => {
            return Ok(Some(TxnOutcome::Rejected(Rejection::new(Some(Failed::Op(0))))));
        }
        Err(failure) => return Err(failure.into()),
    };
    let at = revision(answer.header().ok_or_else(no_header)?.revision());
    store.own_writes.note(&store.hubs, [key], at);
    if guessed {
        store.there.right(key);
    } else {
        store.there.learn(key, ());
    }
    Ok(Some(TxnOutcome::Committed(Commit::new(vec![Some(Written::new(at, Version::new(at.get())))]))))
}

/// Reads which of the keys to probe there are.
async fn probe(store: &Arc<Store>, plan: &Plan) -> Result<BTreeMap<Vec<u8>, State>> {
    if plan.to_probe.is_empty() {
        return Ok(BTreeMap::new());
    }
    let names = GetOptions::new().with_keys_only();
    let reads = plan.to_probe.iter().map(|key| TxnOp::get(key.clone(), Some(names.clone())));
    let txn = etcd_client::Txn::new().and_then(reads.collect::<Vec<_>>());
    let reading = store.endpoints.call(Call::Read, move |connection| {
        let txn = txn.clone();
        async move { connection.kv().txn(txn).await }
    });
    let answer = reading.await?.0;
    Ok(plan.to_probe.iter().cloned().zip(answer.responses.into_iter().map(state)).collect())
}

async fn send(store: &Arc<Store>, txn: etcd_client::Txn) -> Result<PbTxnResponse> {
    let sending = store.endpoints.call(Call::Write, move |connection| {
        let txn = txn.clone();
        async move { connection.kv().txn(txn).await }
    });
    Ok(sending.await?.0)
}

fn no_header() -> Error {
    broken("an answer of etcd has no header")
}

/// What a read inside of a transaction found.
fn state(answer: PbResponseOp) -> State {
    match answer.response {
        Some(PbTxnOpResponse::ResponseRange(range)) => {
            range.kvs.first().map(|kv| (kv.create_revision, kv.mod_revision))
        }
        _ => None,
    }
}
