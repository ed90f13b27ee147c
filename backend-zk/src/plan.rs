//! From a transaction to the parts of a multi: pure, so that every case can be tested without a server.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;
use coord_api::{Check, Error, Failed, Key, Lifetime, Op, Result, Txn, Version};

use crate::{
    driver::{Fault, Multi, Node, NodeKind},
    layout,
    paths::{Paths, parent},
};

/// What a look at a key showed, or what is remembered of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Absent,
    Key(Node),
    Directory(Node),
    /// A key, if it still is in this version.
    Remembered(i32),
}

/// What a part is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The creation that proves this check; [`Step::Cleanup`] takes it back.
    Absent(usize),
    Exists(usize),
    Version(usize),
    /// The version in which the look found the creation that this check asks for.
    Created(usize),
    /// Where an empty directory stands there is no key.
    StillDirectory(usize),
    Create {
        op: usize,
    },
    /// An empty directory makes room for this write's key.
    ReplaceDirectory(usize),
    Update(usize),
    /// A write of a key that was there.
    Put(usize),
    Delete(usize),
    /// A write of a key in the version that is remembered of it.
    Guess(usize),
    Cleanup,
}

/// The parts, each with what it is for.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) parts: Vec<Multi>,
    steps: Vec<Step>,
}

/// A plan, or the condition that does not hold already.
#[derive(Debug)]
pub(crate) enum Planned {
    Go(Plan),
    Rejected(Failed),
}

/// The keys that must be looked at first.
///
/// The server cannot tell a key from an empty directory, which must be neither deleted nor written. Names that
/// are places in a line are never directories, so leaving a line costs one request; a version that the caller got
/// from reading the key is as good as a look.
pub(crate) fn keys_to_look_at(txn: &Txn) -> BTreeSet<Key> {
    let is_place = |key: &Key| layout::parse(key.name()).is_some();
    let known_version =
        |key: &Key| txn.checks().iter().any(|check| matches!(check, Check::Version(k, _) if k == key));
    let checks = txn.checks().iter().filter_map(|check| match check {
        Check::Created(key, _) => Some(key),
        Check::Exists(key) if !is_place(key) => Some(key),
        _ => None,
    });
    let ops = txn.ops().iter().filter_map(|op| match op {
        Op::Put { key, .. } => Some(key),
        Op::Update { key, .. } | Op::Delete { key } if !is_place(key) && !known_version(key) => Some(key),
        _ => None,
    });
    checks.chain(ops).cloned().collect()
}

/// Plans `txn` given what was found.
pub(crate) fn plan(txn: &Txn, found: &HashMap<Key, Found>, paths: &Paths) -> Result<Planned> {
    let mut plan = Plan::default();
    for (index, check) in txn.checks().iter().enumerate() {
        let path = paths.key(check.key());
        let failed = Ok(Planned::Rejected(Failed::Check(index)));
        match (check, found.get(check.key())) {
            (Check::Absent(_), Some(Found::Key(_))) => return failed,
            // The write that creates the key proves it; what stands in its way is that write's business.
            (Check::Absent(key), _) if creates(txn, key, found) => {}
            (Check::Absent(_), Some(Found::Directory(node))) => {
                plan.push(Step::StillDirectory(index), Multi::Check { path, version: Some(node.version) });
            }
            (Check::Absent(_), _) => {
                let value = Bytes::new();
                plan.push(
                    Step::Absent(index),
                    Multi::Create { path: path.clone(), value, kind: NodeKind::Persistent },
                );
                plan.push(Step::Cleanup, Multi::Delete { path, version: None });
            }
            (Check::Exists(_) | Check::Created(..), Some(Found::Absent | Found::Directory(_))) => {
                return failed;
            }
            (Check::Exists(_), _) => plan.push(Step::Exists(index), Multi::Check { path, version: None }),
            (Check::Version(_, version), _) => match wire_version(*version) {
                Some(version) => {
                    plan.push(Step::Version(index), Multi::Check { path, version: Some(version) })
                }
                None => return failed,
            },
            (Check::Created(_, revision), Some(Found::Key(node))) if node.created == *revision => {
                plan.push(Step::Created(index), Multi::Check { path, version: Some(node.version) });
            }
            _ => return failed,
        }
    }
    for (index, op) in txn.ops().iter().enumerate() {
        if let Some(failed) = plan.op(txn, index, op, found.get(op.key()), paths)? {
            return Ok(Planned::Rejected(failed));
        }
    }
    Ok(Planned::Go(plan))
}

/// The version on the wire. There -1 means any version, so it is equal to none.
fn wire_version(version: Version) -> Option<i32> {
    u32::try_from(version.get()).ok().map(u32::cast_signed).filter(|version| *version != -1)
}

/// Whether an operation will create `key`.
fn creates(txn: &Txn, key: &Key, found: &HashMap<Key, Found>) -> bool {
    txn.ops().iter().any(|op| match op {
        Op::Create { key: created, .. } => created == key,
        Op::Put { key: put, .. } => {
            put == key && !matches!(found.get(key), Some(Found::Key(_) | Found::Remembered(_)))
        }
        _ => false,
    })
}

impl Plan {
    fn push(&mut self, step: Step, part: Multi) {
        self.steps.push(step);
        self.parts.push(part);
    }

    /// Adds one operation; `Some` if what it expects is known not to hold.
    fn op(
        &mut self,
        txn: &Txn,
        index: usize,
        op: &Op,
        found: Option<&Found>,
        paths: &Paths,
    ) -> Result<Option<Failed>> {
        let path = paths.key(op.key());
        if let Some(Found::Remembered(version)) = found
            && let Some(part) = in_version(path.clone(), op, *version)
        {
            self.push(Step::Guess(index), part);
            return Ok(None);
        }
        match op {
            Op::Create { key, value, lifetime } => {
                if matches!(found, Some(Found::Key(_))) {
                    return Ok(Some(blame_create(txn, key, index)));
                }
                let kind = match lifetime {
                    Lifetime::Persistent => NodeKind::Persistent,
                    Lifetime::Session => NodeKind::Ephemeral,
                };
                self.create(index, key, path, value, kind, found)?;
            }
            Op::Put { key, value } => match found {
                Some(Found::Key(_)) => {
                    self.push(Step::Put(index), Multi::Set { path, value: value.clone(), version: None });
                }
                _ => self.create(index, key, path, value, NodeKind::Persistent, found)?,
            },
            Op::Update { .. } | Op::Delete { .. }
                if matches!(found, Some(Found::Absent | Found::Directory(_))) =>
            {
                return Ok(Some(Failed::Op(index)));
            }
            Op::Update { value, .. } => {
                self.push(Step::Update(index), Multi::Set { path, value: value.clone(), version: None });
            }
            Op::Delete { .. } => self.push(Step::Delete(index), Multi::Delete { path, version: None }),
            _ => return Err(Error::invalid("this backend does not know the operation")),
        }
        Ok(None)
    }

    fn create(
        &mut self,
        op: usize,
        key: &Key,
        path: String,
        value: &Bytes,
        kind: NodeKind,
        found: Option<&Found>,
    ) -> Result<()> {
        if let Some(Found::Directory(node)) = found {
            if node.children > 0 {
                return Err(keys_below(key));
            }
            // Its value would go when the server collects the empty container.
            let version = Some(node.version);
            self.push(Step::ReplaceDirectory(op), Multi::Delete { path: path.clone(), version });
        }
        self.push(Step::Create { op }, Multi::Create { path, value: value.clone(), kind });
        Ok(())
    }

    /// The plan as one request without a multi, if it can be one.
    pub(crate) fn single(&self) -> Option<Multi> {
        match self.parts.as_slice() {
            [Multi::Check { .. }] => None,
            [part] => Some(part.clone()),
            [Multi::Check { path, version }, part] if version.is_some() => match part {
                Multi::Set { path: same, value, version: None } if same == path => {
                    Some(Multi::Set { path: path.clone(), value: value.clone(), version: *version })
                }
                Multi::Delete { path: same, version: None } if same == path => {
                    Some(Multi::Delete { path: path.clone(), version: *version })
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Which step the server refused, given the index of the part.
    pub(crate) fn blame(&self, index: usize, fault: &Fault) -> Step {
        // A check that was merged into its write: a node that has children passed the check.
        let index = match fault {
            Fault::NotEmpty if self.single().is_some() => self.steps.len() - 1,
            _ => index,
        };
        self.steps.get(index).copied().unwrap_or(Step::Cleanup)
    }

    /// One path of those to create for each directory that they are in.
    pub(crate) fn one_created_per_directory(&self) -> impl Iterator<Item = &str> {
        let created = self.parts.iter().filter_map(|part| match part {
            Multi::Create { path, .. } => Some((parent(path), path.as_str())),
            _ => None,
        });
        created.collect::<HashMap<_, _>>().into_values()
    }

    /// What the write with this index did.
    pub(crate) fn result<R: Copy>(&self, op: usize, results: &[R]) -> Option<R> {
        // A single request has one result, however many parts the plan has.
        if results.len() < self.parts.len() {
            return results.first().copied();
        }
        let step = self.steps.iter().position(|step| match step {
            Step::Create { op: of }
            | Step::Update(of)
            | Step::Put(of)
            | Step::Delete(of)
            | Step::Guess(of) => *of == op,
            _ => false,
        })?;
        results.get(step).copied()
    }
}

/// A write of a key that must be there in this version.
fn in_version(path: String, op: &Op, version: i32) -> Option<Multi> {
    let version = Some(version);
    match op {
        Op::Put { value, .. } | Op::Update { value, .. } => {
            Some(Multi::Set { path, value: value.clone(), version })
        }
        Op::Delete { .. } => Some(Multi::Delete { path, version }),
        _ => None,
    }
}

/// Refuses a value where a directory is.
pub(crate) fn keys_below(key: &Key) -> Error {
    Error::invalid("keys are below this one, so it cannot have a value (the leaf rule)")
        .with_context("key", key)
}

/// What a refused creation is blamed on: the check that it also proves, if there is one.
fn blame_create(txn: &Txn, key: &Key, op: usize) -> Failed {
    let check = txn.checks().iter().position(|check| matches!(check, Check::Absent(k) if k == key));
    check.map_or(Failed::Op(op), Failed::Check)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
