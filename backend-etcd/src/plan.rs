//! A transaction of ours as one of etcd's.

use std::collections::{BTreeMap, BTreeSet};

use coord_api::{Check, Error, ErrorKind, Failed, Lifetime, Op, Result, Txn};
use etcd_client::{Compare, CompareOp, GetOptions, PutOptions, TxnOp};

use crate::{paths::Paths, scan::number};

/// Most operations that etcd counts on the way from the top of a transaction to its innermost part.
const BUDGET: usize = 128;
/// Largest sum of values that is sent twice, once for either branch of a nested transaction.
const TWICE_MAX: usize = 256 << 10;

/// What a key must be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Expect {
    Absent,
    Present,
    Modified(i64),
    Created(i64),
}

/// Creation and modification revision of a key, or `None` if it is absent.
pub(crate) type State = Option<(i64, i64)>;

/// A transaction in etcd's terms.
#[derive(Debug)]
pub(crate) struct Plan {
    conditions: Vec<(Failed, Vec<u8>, Expect)>,
    /// The puts whose keys must be looked at first, because they do not fit in as nested transactions.
    pub(crate) to_probe: Vec<Vec<u8>>,
    writes: Vec<Write>,
}

#[derive(Clone, Debug)]
struct Write {
    key: Vec<u8>,
    value: Vec<u8>,
    how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// A new key, on this lease; 0 is none.
    New(i64),
    /// A key that is surely there: its lease stays.
    Keep,
    /// There or not: its lease stays, or it gets none.
    Either,
    Delete,
}

impl Expect {
    fn compare(self, key: &[u8]) -> Compare {
        match self {
            Self::Absent => Compare::create_revision(key, CompareOp::Equal, 0),
            Self::Present => Compare::create_revision(key, CompareOp::Greater, 0),
            Self::Modified(at) => Compare::mod_revision(key, CompareOp::Equal, at),
            Self::Created(at) => Compare::create_revision(key, CompareOp::Equal, at),
        }
    }

    /// Whether a key in this state is as expected.
    pub(crate) fn holds(self, state: State) -> bool {
        match (self, state) {
            (Self::Absent, state) => state.is_none(),
            (Self::Present, state) => state.is_some(),
            (Self::Modified(at), Some((_, modified))) => modified == at,
            (Self::Created(at), Some((created, _))) => created == at,
            (Self::Modified(_) | Self::Created(_), None) => false,
        }
    }
}

impl Plan {
    /// The plan of `txn`; `lease` owns its ephemeral creations.
    ///
    /// # Errors
    /// `LimitExceeded` for more conditions than etcd compares.
    pub(crate) fn new(paths: &Paths, txn: Txn, lease: i64) -> Result<Self> {
        let (checks, ops) = txn.into_parts();
        let mut conditions = Vec::with_capacity(checks.len() + ops.len());
        for (index, check) in checks.iter().enumerate() {
            let expect = match check {
                Check::Absent(_) => Expect::Absent,
                Check::Exists(_) => Expect::Present,
                // Revision 0 compares equal to an absent key, and no key has it.
                Check::Version(_, version) => Expect::Modified(positive(version.get())),
                Check::Created(_, revision) => Expect::Created(positive(revision.get())),
                _ => return Err(unknown()),
            };
            conditions.push((Failed::Check(index), paths.encode(check.key()), expect));
        }
        let mut writes = Vec::with_capacity(ops.len());
        for (index, op) in ops.into_iter().enumerate() {
            let key = paths.encode(op.key());
            let value = op.value().to_vec();
            let (expect, how) = match op {
                Op::Create { lifetime, .. } => {
                    (Some(Expect::Absent), How::New(if lifetime == Lifetime::Session { lease } else { 0 }))
                }
                Op::Update { .. } => (Some(Expect::Present), How::Keep),
                Op::Delete { .. } => (Some(Expect::Present), How::Delete),
                Op::Put { .. } => {
                    let known = conditions.iter().find(|(_, checked, _)| *checked == key);
                    (
                        None,
                        match known {
                            Some((_, _, Expect::Absent)) => How::New(0),
                            Some(_) => How::Keep,
                            None => How::Either,
                        },
                    )
                }
                _ => return Err(unknown()),
            };
            if let Some(expect) = expect {
                conditions.push((Failed::Op(index), key.clone(), expect));
            }
            writes.push(Write { key, value, how });
        }
        let mut plan = Self { conditions, to_probe: Vec::new(), writes };
        if plan.group().is_none() {
            let open = plan.writes.iter().filter(|write| write.how == How::Either);
            plan.to_probe = open.map(|write| write.key.clone()).collect();
        }
        let compares = plan.compares(&BTreeMap::new()).len() + plan.to_probe.len();
        if compares > BUDGET {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                "more conditions than etcd compares in a transaction",
            )
            .with_context("conditions", compares)
            .with_context("limit", BUDGET));
        }
        Ok(plan)
    }

    /// How many nested puts go into one group, so that all fit; `None` if they do not.
    ///
    /// etcd allows 128 operations on each level, and counts the levels above: a transaction of 128 nested ones is
    /// refused. Groups of groups keep every level short.
    fn group(&self) -> Option<usize> {
        let nested: Vec<_> = self.writes.iter().filter(|write| write.how == How::Either).collect();
        if nested.is_empty() {
            return Some(1);
        }
        if nested.iter().map(|write| write.value.len()).sum::<usize>() > TWICE_MAX {
            return None;
        }
        let direct = self.writes.len() - nested.len();
        let compares = self.compares(&BTreeMap::new()).len();
        let cost = |size: usize| {
            let top = compares.max(direct + nested.len().div_ceil(size));
            top + if size == 1 { 0 } else { size } + 1
        };
        (1..=nested.len()).find(|size| cost(*size) <= BUDGET)
    }

    /// The comparisons, each once, with those of the probed keys.
    fn compares(&self, probed: &BTreeMap<Vec<u8>, State>) -> Vec<Compare> {
        let mut expected: BTreeMap<&[u8], BTreeSet<Expect>> = BTreeMap::new();
        for (_, key, expect) in &self.conditions {
            expected.entry(key).or_default().insert(*expect);
        }
        for (key, state) in probed {
            let expect = if state.is_some() { Expect::Present } else { Expect::Absent };
            expected.entry(key).or_default().insert(expect);
        }
        let mut compares = Vec::new();
        for (key, expects) in expected {
            // Known in a version, so there.
            let implied = expects.iter().any(|e| matches!(e, Expect::Modified(_) | Expect::Created(_)));
            let needed = expects.iter().filter(|e| !(implied && **e == Expect::Present));
            compares.extend(needed.map(|expect| expect.compare(key)));
        }
        compares
    }

    /// The transaction. `probed` are the states of the keys to probe, as read before.
    pub(crate) fn build(&self, probed: &BTreeMap<Vec<u8>, State>) -> etcd_client::Txn {
        let mut direct = Vec::with_capacity(self.writes.len());
        let mut nested = Vec::new();
        for write in &self.writes {
            let how = match probed.get(&write.key) {
                Some(Some(_)) => How::Keep,
                Some(None) => How::New(0),
                None => write.how,
            };
            match how {
                How::New(lease) => direct.push(write.put(PutOptions::new().with_lease(lease))),
                How::Keep => direct.push(write.put(PutOptions::new().with_ignore_lease())),
                How::Delete => direct.push(TxnOp::delete(write.key.clone(), None)),
                How::Either => nested.push(TxnOp::txn(
                    etcd_client::Txn::new()
                        .when([Expect::Present.compare(&write.key)])
                        .and_then([write.put(PutOptions::new().with_ignore_lease())])
                        .or_else([write.put(PutOptions::new())]),
                )),
            }
        }
        match self.group() {
            Some(size) if size > 1 => {
                let mut rest = nested.into_iter().peekable();
                while rest.peek().is_some() {
                    let group: Vec<_> = rest.by_ref().take(size).collect();
                    direct.push(TxnOp::txn(etcd_client::Txn::new().and_then(group)));
                }
            }
            _ => direct.extend(nested),
        }
        let names = GetOptions::new().with_keys_only();
        let states = self.keys().into_iter().map(|key| TxnOp::get(key, Some(names.clone())));
        etcd_client::Txn::new()
            .when(self.compares(probed))
            .and_then(direct)
            .or_else(states.collect::<Vec<_>>())
    }

    /// The keys with conditions, each once: the rejected transaction answers their states in this order.
    pub(crate) fn keys(&self) -> BTreeSet<&[u8]> {
        self.conditions.iter().map(|(_, key, _)| key.as_slice()).collect()
    }

    /// The first condition that does not hold in these states.
    pub(crate) fn first_failed(&self, states: &BTreeMap<&[u8], State>) -> Option<Failed> {
        let state = |key: &[u8]| states.get(key).copied().flatten();
        let failed = self.conditions.iter().find(|(_, key, expect)| !expect.holds(state(key)));
        failed.map(|(failed, _, _)| *failed)
    }

    /// For each write whether it leaves a key.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = bool> {
        self.writes.iter().map(|write| write.how != How::Delete)
    }
}

impl Write {
    fn put(&self, options: PutOptions) -> TxnOp {
        TxnOp::put(self.key.clone(), self.value.clone(), Some(options))
    }
}

fn positive(at: u64) -> i64 {
    if at == 0 { -1 } else { number(at) }
}

fn unknown() -> Error {
    Error::invalid("an operation that this version of the etcd backend does not know")
}

#[cfg(test)]
mod tests {
    use coord_api::{Key, Revision, Version};

    use super::*;

    fn key(n: usize) -> Key {
        Key::parse(&format!("/k/{n}")).unwrap()
    }

    fn plan(txn: Txn) -> Result<Plan> {
        Plan::new(&Paths::default(), txn, 7)
    }

    #[test]
    fn a_put_of_a_key_that_is_checked_needs_no_nesting() {
        let how = |txn: Txn| plan(txn.put(key(1), "v")).unwrap().writes[0].how;
        assert_eq!(how(Txn::new().check_absent(key(1))), How::New(0));
        assert_eq!(how(Txn::new().check_exists(key(1))), How::Keep);
        assert_eq!(how(Txn::new().check_version(key(1), Version::new(3))), How::Keep);
        assert_eq!(how(Txn::new().check(Check::Created(key(1), Revision::new(3)))), How::Keep);
        assert_eq!(how(Txn::new().check_absent(key(2))), How::Either);
    }

    #[test]
    fn a_condition_that_follows_from_another_is_compared_once() {
        let txn = Txn::new().check_exists(key(1)).check_version(key(1), Version::new(3)).update(key(1), "v");
        assert_eq!(plan(txn).unwrap().compares(&BTreeMap::new()).len(), 1);
        let txn = Txn::new().check_absent(key(1)).create(key(1), "v", Lifetime::Persistent);
        assert_eq!(plan(txn).unwrap().compares(&BTreeMap::new()).len(), 1);
    }

    #[test]
    fn many_puts_are_grouped_and_what_cannot_be_is_probed() {
        let puts = |n: usize| (0..n).fold(Txn::new(), |txn, n| txn.put(key(n), "v"));
        assert_eq!(plan(puts(1)).unwrap().group(), Some(1));
        assert!(plan(puts(128)).unwrap().group().is_some_and(|size| size > 1));
        let creates = (0..127).fold(puts(1), |txn, n| txn.create(key(1000 + n), "v", Lifetime::Persistent));
        assert_eq!(plan(creates).unwrap().to_probe.len(), 1);
        let large = Txn::new().put(key(1), vec![0; 900_000]);
        assert_eq!(plan(large).unwrap().to_probe.len(), 1);
    }

    #[test]
    fn more_conditions_than_etcd_compares_are_refused_before_anything_is_sent() {
        let checks = (0..128).fold(Txn::new(), |txn, n| txn.check_absent(key(n)));
        assert!(plan(checks.clone()).is_ok());
        let e = plan(checks.create(key(500), "v", Lifetime::Persistent)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::LimitExceeded);
    }

    #[test]
    fn the_first_failed_condition_is_named_checks_before_writes() {
        let txn = Txn::new()
            .check_exists(key(1))
            .check_version(key(2), Version::new(5))
            .create(key(3), "v", Lifetime::Persistent)
            .delete(key(4));
        let plan = plan(txn).unwrap();
        let names: Vec<Vec<u8>> = (1..=4).map(|n| format!("/k/{n}").into_bytes()).collect();
        let failed =
            |states: [State; 4]| plan.first_failed(&names.iter().map(Vec::as_slice).zip(states).collect());
        let good = [Some((1, 1)), Some((2, 5)), None, Some((4, 4))];
        assert_eq!(failed(good), None);
        assert_eq!(failed([None, None, None, None]), Some(Failed::Check(0)));
        assert_eq!(failed([good[0], Some((2, 6)), good[2], None]), Some(Failed::Check(1)));
        assert_eq!(failed([good[0], good[1], Some((9, 9)), None]), Some(Failed::Op(0)));
        assert_eq!(failed([good[0], good[1], None, None]), Some(Failed::Op(1)));
    }

    #[test]
    fn a_version_of_zero_never_holds() {
        let plan = plan(Txn::new().check_version(key(1), Version::new(0))).unwrap();
        assert_eq!(plan.conditions[0].2, Expect::Modified(-1));
    }
}
