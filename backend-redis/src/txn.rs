//! Transactions: what is sent for them, and what the answer means.

use coord_api::{
    Check, Commit, Error, Failed, Key, Lifetime, Op, Rejection, Result, Revision, Txn, TxnOutcome, Version,
    Written,
};
use redis::{Cmd, Value};
use tokio::time::Instant;

use crate::{
    conn::Conn,
    record::{array, malformed, number, revision},
    script,
};

/// Values up to this long are put by the short script, which does not look after the bytes of the log.
const PUT_MAX: usize = 4096;

fn check_code(check: &Check) -> Option<(&'static str, u64)> {
    match check {
        Check::Absent(_) => Some(("A", 0)),
        Check::Exists(_) => Some(("E", 0)),
        Check::Version(_, version) => Some(("V", version.get())),
        Check::Created(_, created) => Some(("R", created.get())),
        _ => None,
    }
}

fn op_code(op: &Op) -> Option<(&'static str, bool)> {
    match op {
        Op::Create { lifetime, .. } => Some(("C", *lifetime == Lifetime::Session)),
        Op::Update { .. } => Some(("U", false)),
        Op::Put { .. } => Some(("P", false)),
        Op::Delete { .. } => Some(("D", false)),
        _ => None,
    }
}

/// Refuses a kind of check or write that this backend does not know, before anything is sent.
pub(crate) fn ensure_known(txn: &Txn) -> Result<()> {
    let checks = txn.checks().iter().all(|check| check_code(check).is_some());
    if checks && txn.ops().iter().all(|op| op_code(op).is_some()) {
        return Ok(());
    }
    Err(Error::invalid("a kind of check or write that this backend does not know"))
}

/// Carries out a transaction of known kinds; `session` owns what is ephemeral in it. Also tells the revision that it
/// made; zero if it wrote nothing.
pub(crate) async fn send(
    conn: &Conn,
    session: &str,
    txn: &Txn,
    until: Instant,
) -> Result<(TxnOutcome, Revision)> {
    if let Some((key, value)) = plain_put(txn) {
        let args = |call: &mut Cmd| _ = call.arg(key.as_str()).arg(value);
        let at = revision(&conn.write(&script::PUT, args, until).await?)?;
        if at > 0 {
            return Ok(committed(txn, at));
        }
    }
    // What only deletes must work on a server that is out of memory.
    let frees = txn.ops().iter().all(|op| matches!(op, Op::Delete { .. }));
    let script = if frees { &script::RELEASE } else { &script::COMMIT };
    let args = |call: &mut Cmd| {
        call.arg(session).arg(txn.checks().len());
        for check in txn.checks() {
            if let Some((code, number)) = check_code(check) {
                call.arg(code).arg(check.key().as_str()).arg(number);
            }
        }
        call.arg(txn.ops().len());
        for op in txn.ops() {
            if let Some((code, ephemeral)) = op_code(op) {
                call.arg(code).arg(op.key().as_str()).arg(op.value()).arg(u8::from(ephemeral));
            }
        }
    };
    read_outcome(conn.write(script, args, until).await?, txn)
}

/// The most frequent change: one put, without conditions and of a small value.
fn plain_put(txn: &Txn) -> Option<(&Key, &[u8])> {
    match (txn.checks(), txn.ops()) {
        ([], [op @ Op::Put { key, .. }]) if op.value().len() <= PUT_MAX => Some((key, op.value())),
        _ => None,
    }
}

fn committed(txn: &Txn, at: u64) -> (TxnOutcome, Revision) {
    let written = Written::new(Revision::new(at), Version::new(at));
    let deletes = |op: &Op| matches!(op, Op::Delete { .. });
    let all = txn.ops().iter().map(|op| (!deletes(op)).then_some(written)).collect();
    (TxnOutcome::Committed(Commit::new(all)), written.revision)
}

fn read_outcome(reply: Value, txn: &Txn) -> Result<(TxnOutcome, Revision)> {
    let reply = array(reply)?;
    let [applied, what, rest @ ..] = reply.as_slice() else {
        return Err(malformed("a reply of the server has another number of parts"));
    };
    if number(applied)? == 1 {
        return Ok(committed(txn, revision(what)?));
    }
    let index = rest.first().map(number).transpose()?.and_then(|index| usize::try_from(index).ok());
    let failed = index.map(|index| match what {
        Value::BulkString(kind) if kind == b"C" => Failed::Check(index),
        _ => Failed::Op(index),
    });
    Ok((TxnOutcome::Rejected(Rejection::new(failed)), Revision::ZERO))
}
