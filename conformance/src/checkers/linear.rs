//! Linearizability of single keys, with calls whose outcome nobody knows.
//!
//! The search of Wing and Gong with Lowe's memo: a doubly linked list of calls and returns, from which calls that were
//! put into the order are lifted, and a set of what was tried. Revisions in the answers leave little to try: writes can
//! only stand in the order of their revisions.

use std::collections::{BTreeMap, HashSet};

use super::{
    History, Stats, Verdict, Violation, What,
    facts::{Action, Answer, Register},
};

/// Whether there is an order of the calls that explains all answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// There is.
    Yes,
    /// There is none. The call and the return that no order could explain, when it had explained the most.
    No(Vec<usize>),
    /// The budget ran out before it was known.
    Undecided,
}

/// Each key is a register: its reads and writes can be put in one order, each between its call and its return, that
/// explains all answers and their revisions.
///
/// A call that was surely not applied is left out; one whose outcome nobody knows stands anywhere behind its call, or
/// nowhere. Keys are absent when the run begins. `budget` is the number of steps to try for one key.
///
/// # Errors
/// `linearizability`: a key for which there is no such order; `linearizability-budget`: one for which it is not known.
pub fn linearizable(history: &History, budget: usize) -> Verdict {
    let mut stats = Stats::default();
    for (key, ops) in by_key(history) {
        let answered = |op: &&Op| op.returned.is_some();
        stats.judged += ops.iter().filter(answered).count();
        stats.unknown += ops.iter().filter(|op| op.returned.is_none()).count();
        stats.contended += ops.windows(2).filter(|pair| pair[0].end() > pair[1].called).count();
        match Search::new(&ops).run(budget) {
            Judgement::Yes => {}
            Judgement::No(events) => {
                let message = format!("{key}: no order of its reads and writes explains this answer");
                return Err(Violation::new("linearizability", message, events));
            }
            Judgement::Undecided => {
                let message = format!("{key}: not decided in {budget} steps");
                let calls = ops.iter().map(|op| op.called);
                return Err(Violation::new("linearizability-budget", message, calls));
            }
        }
    }
    Ok(stats)
}

/// A call that may have been applied. Without a return if nobody knows whether it was.
#[derive(Clone, Copy, Debug)]
struct Op {
    action: Action,
    called: usize,
    returned: Option<(usize, Answer)>,
}

impl Op {
    fn end(&self) -> usize {
        self.returned.map_or(usize::MAX, |(at, _)| at)
    }

    fn written_by(&self) -> Option<u64> {
        match self.returned {
            Some((_, Answer::Done(revision))) => Some(revision),
            _ => None,
        }
    }
}

/// The calls on each key that matter, in the order in which they were made.
fn by_key(history: &History) -> BTreeMap<&str, Vec<Op>> {
    let mut calls: BTreeMap<u64, (&str, Op)> = BTreeMap::new();
    for (at, what) in history.facts() {
        match what {
            What::Register(Register::Call { op, key, action }) => {
                calls.insert(*op, (key, Op { action: *action, called: at, returned: None }));
            }
            What::Register(Register::Return { op, answer: Answer::NotApplied }) => {
                calls.remove(op);
            }
            What::Register(Register::Return { op, answer }) if *answer != Answer::Unknown => {
                if let Some((_, call)) = calls.get_mut(op) {
                    call.returned = Some((at, *answer));
                }
            }
            _ => {}
        }
    }
    let mut keys: BTreeMap<&str, Vec<Op>> = BTreeMap::new();
    for (key, op) in calls.into_values() {
        // A read that nobody got an answer to says nothing.
        if op.action != Action::Read || op.returned.is_some() {
            keys.entry(key).or_default().push(op);
        }
    }
    for ops in keys.values_mut() {
        ops.sort_by_key(|op| op.called);
    }
    keys
}

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    value: Option<u64>,
    /// The revision that wrote it; a lower bound if nobody was told.
    revision: u64,
    exact: bool,
}

impl State {
    const ABSENT: Self = Self { value: None, revision: 0, exact: true };

    fn may_be_of(&self, revision: u64) -> bool {
        if self.exact { self.revision == revision } else { self.revision <= revision }
    }

    /// The state behind this call, if its answer can be explained here.
    fn after(self, op: &Op) -> Option<Self> {
        let answer = op.returned.map(|(_, answer)| answer);
        let to = match op.action {
            Action::Read => {
                return match answer {
                    Some(Answer::Value(None)) => self.value.is_none().then_some(self),
                    Some(Answer::Value(Some((value, revision)))) => {
                        let same = self.value == Some(value) && self.may_be_of(revision);
                        same.then_some(Self { value: self.value, revision, exact: true })
                    }
                    _ => None,
                };
            }
            Action::Write(to) => {
                if answer == Some(Answer::Rejected) {
                    // Only the deletion of what is not there is rejected.
                    return (to.is_none() && self.value.is_none()).then_some(self);
                }
                to
            }
            Action::Swap { at, to } => {
                let met = match at {
                    None => self.value.is_none(),
                    Some(revision) => self.value.is_some() && self.may_be_of(revision),
                };
                if answer == Some(Answer::Rejected) {
                    let surely_met = met && (at.is_none() || self.exact);
                    return (!surely_met).then_some(self);
                }
                if !met {
                    return None;
                }
                to
            }
        };
        match answer {
            Some(Answer::Done(revision)) => {
                (revision > self.revision).then_some(Self { value: to, revision, exact: true })
            }
            // Nobody was told by which revision.
            None => Some(Self { value: to, revision: self.revision + 1, exact: false }),
            Some(_) => None,
        }
    }
}

/// The end of the list, and its head.
const NIL: usize = usize::MAX;

/// A node of the list: a call, or a return.
#[derive(Clone, Copy, Debug)]
struct Node {
    op: usize,
    is_call: bool,
    previous: usize,
    next: usize,
}

struct Search<'o> {
    ops: &'o [Op],
    nodes: Vec<Node>,
    first: usize,
    /// Of each call, its node, and that of its return.
    places: Vec<(usize, usize)>,
    /// The revisions of acknowledged writes, in order.
    writes: Vec<u64>,
}

impl<'o> Search<'o> {
    fn new(ops: &'o [Op]) -> Self {
        let mut moments: Vec<(usize, usize, bool)> = Vec::new();
        for (index, op) in ops.iter().enumerate() {
            moments.push((op.called, index, true));
            moments.extend(op.returned.map(|(at, _)| (at, index, false)));
        }
        moments.sort_unstable();
        let mut places = vec![(NIL, NIL); ops.len()];
        let mut nodes = Vec::new();
        for (at, (_, op, is_call)) in moments.iter().copied().enumerate() {
            let place = &mut places[op];
            *(if is_call { &mut place.0 } else { &mut place.1 }) = at;
            let next = if at + 1 == moments.len() { NIL } else { at + 1 };
            nodes.push(Node { op, is_call, previous: at.checked_sub(1).unwrap_or(NIL), next });
        }
        let mut writes: Vec<u64> = ops.iter().filter_map(Op::written_by).collect();
        writes.sort_unstable();
        let first = if nodes.is_empty() { NIL } else { 0 };
        Self { ops, nodes, first, places, writes }
    }

    fn run(mut self, budget: usize) -> Judgement {
        let mut left = self.ops.iter().filter(|op| op.returned.is_some()).count();
        let mut state = State::ABSENT;
        let mut done = vec![0_u64; self.ops.len().div_ceil(64)];
        let mut written = 0;
        let mut tried: HashSet<(Vec<u64>, State)> = HashSet::new();
        let mut stack: Vec<(usize, State)> = Vec::new();
        let (mut fewest, mut blame) = (usize::MAX, Vec::new());
        let mut at = self.first;
        let mut steps = 0;
        while left > 0 {
            steps += 1;
            if steps > budget {
                return Judgement::Undecided;
            }
            let node = (at != NIL).then(|| self.nodes[at]);
            if let Some(Node { op, is_call: true, next, .. }) = node {
                let fits = self.in_order(op, written).then(|| state.after(&self.ops[op])).flatten();
                at = next;
                let Some(new) = fits else { continue };
                done[op / 64] |= 1 << (op % 64);
                if tried.insert((done.clone(), new)) {
                    stack.push((op, state));
                    state = new;
                    written += usize::from(self.ops[op].written_by().is_some());
                    left -= usize::from(self.ops[op].returned.is_some());
                    self.lift(op);
                    at = self.first;
                } else {
                    done[op / 64] &= !(1 << (op % 64));
                }
                continue;
            }
            // Whoever returned here must stand before, and does not fit: take the last step back.
            if let (Some(node), true) = (node, left < fewest) {
                fewest = left;
                let op = &self.ops[node.op];
                blame = vec![op.called, op.end()];
            }
            let Some((op, before)) = stack.pop() else { return Judgement::No(blame) };
            state = before;
            done[op / 64] &= !(1 << (op % 64));
            written -= usize::from(self.ops[op].written_by().is_some());
            left += usize::from(self.ops[op].returned.is_some());
            self.put_back(op);
            at = self.nodes[self.places[op].0].next;
        }
        Judgement::Yes
    }

    /// Whether no acknowledged write must stand between here and this call.
    fn in_order(&self, op: usize, written: usize) -> bool {
        let Some(next) = self.writes.get(written) else { return true };
        match self.ops[op].returned {
            Some((_, Answer::Done(revision))) => revision == *next,
            Some((_, Answer::Value(Some((_, revision))))) => revision < *next,
            _ => true,
        }
    }

    fn lift(&mut self, op: usize) {
        let (call, end) = self.places[op];
        self.unlink(call);
        if end != NIL {
            self.unlink(end);
        }
    }

    fn put_back(&mut self, op: usize) {
        let (call, end) = self.places[op];
        if end != NIL {
            self.link(end);
        }
        self.link(call);
    }

    fn unlink(&mut self, at: usize) {
        let Node { previous, next, .. } = self.nodes[at];
        match previous {
            NIL => self.first = next,
            previous => self.nodes[previous].next = next,
        }
        if next != NIL {
            self.nodes[next].previous = previous;
        }
    }

    fn link(&mut self, at: usize) {
        let Node { previous, next, .. } = self.nodes[at];
        match previous {
            NIL => self.first = at,
            previous => self.nodes[previous].next = at,
        }
        if next != NIL {
            self.nodes[next].previous = at;
        }
    }
}
