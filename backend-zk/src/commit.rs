//! Transactions: looking where it is needed, planning, sending, and judging the answer.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use coord_api::{
    Commit, Error, ErrorKind, Failed, Freshness, Key, OpContext, Rejection, Result, Retry, Revision, Txn,
    TxnOutcome, Written,
};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::time::Instant;

use crate::{
    driver::{Conn, Fault, Multi, MultiFault, MultiResult, Node, coord_version},
    handle::{Core, RACES_MAX, check_value, is_directory, lost_races},
    leaves::check_leaves,
    plan::{Found, Plan, Planned, Step, keys_below, keys_to_look_at, plan},
};

/// The server's limit of a packet, jute.maxbuffer, less room for headers.
const PACKET_MAX: usize = 0xf_ffff - 512;
/// Requests for looking at keys that are under way at once.
const LOOKS_AT_ONCE: usize = 32;

/// What an answer means for the transaction.
enum Judgement {
    Rejected(Option<Failed>),
    /// A node to create has no parent.
    MakeParents,
    /// Something changed under us: look at this key and try again.
    LookAt(Key),
    /// What is remembered of this key is not so any more.
    Forgotten(Key),
}

impl Core {
    pub(crate) async fn commit(self: Arc<Self>, ctx: &OpContext, txn: Txn) -> Result<TxnOutcome> {
        for op in txn.ops() {
            check_value(op.key(), op.value())?;
        }
        let deadline = self.deadline(ctx);
        let conn = match &ctx.session {
            None if txn.needs_session() => return Err(Error::invalid("an ephemeral key needs a session")),
            Some(id) if txn.needs_session() => self.session_conn(id)?,
            _ => self.conn(ctx, deadline).await?,
        };
        let mut look_at: BTreeSet<Key> = keys_to_look_at(&txn);
        let mut guesses = self.known_keys.guess(&txn, &mut look_at);
        for _ in 0..RACES_MAX {
            let mut found = self.look(&conn, deadline, &look_at).await?;
            found.extend(guesses.iter().map(|(key, version)| (key.clone(), Found::Remembered(*version))));
            let planned = match plan(&txn, &found, &self.settings.paths)? {
                Planned::Rejected(failed) => return Ok(TxnOutcome::Rejected(Rejection::new(Some(failed)))),
                Planned::Go(planned) => planned,
            };
            self.check_size(&planned)?;
            check_leaves(txn.ops())?;
            for path in planned.one_created_per_directory() {
                self.enter(&conn, deadline, path).await?;
            }
            let (mark, _) = self.tide.before(conn.id());
            let judgement = match self.send(&conn, deadline, &planned).await {
                Ok(results) => {
                    self.tide.wrote(conn.id(), mark);
                    let commit = self.written(&conn, &txn, &planned, &results).await;
                    self.note(&txn, &commit);
                    self.remember(&txn, &planned, &results, &guesses)?;
                    return Ok(TxnOutcome::Committed(commit));
                }
                Err(MultiFault::Whole(fault)) => return Err(fault.into_error()),
                Err(MultiFault::Part(index, fault)) => judge(&txn, &planned, index, fault)?,
            };
            match judgement {
                Judgement::Rejected(failed) => return Ok(TxnOutcome::Rejected(Rejection::new(failed))),
                // All of them: a transaction may create in many directories, and the next round enters each.
                Judgement::MakeParents => {
                    for path in planned.one_created_per_directory() {
                        self.known.forget_above(path);
                    }
                }
                Judgement::LookAt(key) => drop(look_at.insert(key)),
                // No more guesses, or a large transaction could lose one round for each of them.
                Judgement::Forgotten(key) => {
                    self.known_keys.wrong(&key);
                    look_at.extend(guesses.drain().map(|(key, _)| key));
                }
            }
        }
        Err(lost_races(txn.ops().first().map_or("", |op| op.key().as_str())))
    }

    async fn look(
        &self,
        conn: &Arc<Conn>,
        deadline: Instant,
        keys: &BTreeSet<Key>,
    ) -> Result<HashMap<Key, Found>> {
        if keys.is_empty() {
            return Ok(HashMap::new());
        }
        stream::iter(keys.iter().cloned())
            .map(|key| async move {
                let path = self.settings.paths.key(&key);
                // A lagging server's answer must not become a rejection.
                let found = match self.read(conn, deadline, &path, Freshness::Latest).await? {
                    None => Found::Absent,
                    Some((value, node)) if is_directory(&value, &node) => Found::Directory(node),
                    Some((_, node)) => Found::Key(node),
                };
                Ok((key, found))
            })
            .buffer_unordered(LOOKS_AT_ONCE)
            .try_collect()
            .await
    }

    async fn send(
        &self,
        conn: &Conn,
        deadline: Instant,
        plan: &Plan,
    ) -> Result<Vec<MultiResult>, MultiFault> {
        let acl = self.settings.acl.clone();
        let part = |fault| match fault {
            Fault::Error(error) => MultiFault::Whole(Fault::Error(error)),
            answer => MultiFault::Part(0, answer),
        };
        let wrote = |node: Node| vec![MultiResult::Wrote(Some(node))];
        match plan.single() {
            Some(Multi::Create { path, value, kind }) => {
                conn.create(deadline, path, value, kind, acl).await.map(wrote).map_err(part)
            }
            Some(Multi::Set { path, value, version }) => {
                conn.set(deadline, path, value, version).await.map(wrote).map_err(part)
            }
            Some(Multi::Delete { path, version }) => {
                conn.delete(deadline, path, version).await.map(|()| vec![MultiResult::Done]).map_err(part)
            }
            Some(Multi::Check { .. }) | None => conn.multi(deadline, plan.parts.clone(), acl).await,
        }
    }

    fn check_size(&self, plan: &Plan) -> Result<()> {
        let bytes: usize = plan.parts.iter().map(|part| part_bytes(part) + self.settings.acl.bytes()).sum();
        if bytes <= PACKET_MAX {
            return Ok(());
        }
        Err(Error::new(ErrorKind::LimitExceeded, "the request does not fit into a packet of the server")
            .with_context("bytes", bytes)
            .with_context("limit", PACKET_MAX))
    }

    /// Lets listings from mirrors wait for what this transaction did.
    fn note(&self, txn: &Txn, commit: &Commit) {
        for (op, written) in txn.ops().iter().zip(&commit.written) {
            self.note_own(op.key(), written.map(|written| written.revision));
            if written.is_some() {
                self.known.forget(&self.settings.paths.key(op.key()));
            }
        }
    }

    /// Remembers how the keys were left, for the next writes.
    ///
    /// # Errors
    /// The leaf rule, if keys were put below one that was written without a look: nobody sees the value while they
    /// are there.
    fn remember(
        &self,
        txn: &Txn,
        plan: &Plan,
        results: &[MultiResult],
        guesses: &HashMap<Key, i32>,
    ) -> Result<()> {
        let mut hidden = Ok(());
        for (index, op) in txn.ops().iter().enumerate() {
            let node = match plan.result(index, results) {
                Some(MultiResult::Wrote(node)) => node,
                Some(MultiResult::Done) | None => None,
            };
            if guesses.contains_key(op.key()) {
                self.known_keys.right(op.key());
                if node.is_some_and(|node| node.children > 0) {
                    hidden = Err(keys_below(op.key()).with_retry(Retry::Ambiguous));
                }
            }
            self.known_keys.wrote(op, node.as_ref());
        }
        hidden
    }

    async fn written(&self, conn: &Conn, txn: &Txn, plan: &Plan, results: &[MultiResult]) -> Commit {
        // All parts have one revision, so one part that tells it tells it for all.
        let known = results.iter().find_map(|result| match result {
            MultiResult::Wrote(node) => node.as_ref().map(|node| node.modified),
            MultiResult::Done => None,
        });
        let mut written = Vec::with_capacity(txn.ops().len());
        for (index, op) in txn.ops().iter().enumerate() {
            written.push(match plan.result(index, results) {
                Some(MultiResult::Wrote(Some(node))) => {
                    Some(Written::new(node.modified, coord_version(node.version)))
                }
                Some(MultiResult::Wrote(None)) => {
                    let revision = match known {
                        Some(revision) => revision,
                        None => self.created_by_now(conn, op.key()).await,
                    };
                    Some(Written::new(revision, coord_version(0)))
                }
                Some(MultiResult::Done) | None => None,
            });
        }
        Commit::new(written)
    }

    /// The revision of a creation that the server did not tell (before 3.8.2).
    async fn created_by_now(&self, conn: &Conn, key: &Key) -> Revision {
        let deadline = Instant::now() + self.settings.operation_timeout;
        match conn.stat(deadline, self.settings.paths.key(key)).await {
            Ok(Some(node)) => node.created,
            // Deleted again already, or unreachable: the creation stands, only its number is not known.
            _ => Revision::ZERO,
        }
    }
}

fn part_bytes(part: &Multi) -> usize {
    // Two lengths, a version or flags, and the header of the part.
    const ENVELOPE: usize = 32;
    ENVELOPE
        + match part {
            Multi::Create { path, value, .. } | Multi::Set { path, value, .. } => path.len() + value.len(),
            Multi::Check { path, .. } | Multi::Delete { path, .. } => path.len(),
        }
}

fn judge(txn: &Txn, plan: &Plan, index: usize, fault: Fault) -> Result<Judgement> {
    let step = plan.blame(index, &fault);
    let reject = |failed| Ok(Judgement::Rejected(Some(failed)));
    let look_at = |index: usize| Ok(Judgement::LookAt(txn.checks()[index].key().clone()));
    let look_at_op = |index: usize| Ok(Judgement::LookAt(txn.ops()[index].key().clone()));
    match (step, fault) {
        (_, Fault::Error(error)) => Err(error),
        (_, fault @ Fault::EphemeralParent) => Err(fault.into_error()),
        (Step::Absent(_) | Step::Create { .. }, Fault::NoNode) => Ok(Judgement::MakeParents),
        (Step::Absent(check), _) => look_at(check),
        (Step::Version(check) | Step::Exists(check), _) => reject(Failed::Check(check)),
        // Only the guards that we added ourselves failed, not what the caller asked for.
        (Step::Created(check) | Step::StillDirectory(check), _) => look_at(check),
        (Step::Create { op, .. } | Step::ReplaceDirectory(op) | Step::Put(op), _) => look_at_op(op),
        (Step::Update(op) | Step::Delete(op), _) => reject(Failed::Op(op)),
        (Step::Guess(op), _) => Ok(Judgement::Forgotten(txn.ops()[op].key().clone())),
        (Step::Cleanup, fault) => Err(fault.into_error()),
    }
}
