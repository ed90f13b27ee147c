//! Applying transactions.

use std::{collections::BTreeMap, sync::Arc};

use coord_api::{
    Commit, Error, ErrorKind, Key, Op, OpContext, Rejection, Result, Retry, Txn, TxnOutcome, Version, Written,
};
use etcd_client::{
    GetOptions, TxnOp,
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
    let lease = if txn.needs_session() { store.owner(ctx)?.lease() } else { 0 };
    let keys: Vec<Key> = txn.ops().iter().map(Op::key).cloned().collect();
    let plan = Plan::new(&store.paths, txn, lease)?;
    for _ in 0..ATTEMPTS {
        let probed = probe(store, &plan).await?;
        let answer = send(store, plan.build(&probed)).await?;
        let at = answer.header.as_ref().ok_or_else(|| broken("an answer of etcd has no header"))?.revision;
        if answer.succeeded {
            store.own_writes.note(&store.hubs, &keys, revision(at));
            let written = Written::new(revision(at), Version::new(revision(at).get()));
            let written = plan.leaves().map(|leaves| leaves.then_some(written)).collect();
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

/// Reads which of the keys to probe there are.
async fn probe(store: &Arc<Store>, plan: &Plan) -> Result<BTreeMap<Vec<u8>, State>> {
    if plan.to_probe.is_empty() {
        return Ok(BTreeMap::new());
    }
    let names = GetOptions::new().with_keys_only();
    let reads = plan.to_probe.iter().map(|key| TxnOp::get(key.clone(), Some(names.clone())));
    let txn = etcd_client::Txn::new().and_then(reads.collect::<Vec<_>>());
    let reading = store.endpoints.call(Call::Read, move |mut connection| {
        let txn = txn.clone();
        async move { connection.kv.txn(txn).await }
    });
    let answer = reading.await?.0;
    Ok(plan.to_probe.iter().cloned().zip(answer.responses.into_iter().map(state)).collect())
}

async fn send(store: &Arc<Store>, txn: etcd_client::Txn) -> Result<PbTxnResponse> {
    let sending = store.endpoints.call(Call::Write, move |mut connection| {
        let txn = txn.clone();
        async move { connection.kv.txn(txn).await }
    });
    Ok(sending.await?.0)
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
