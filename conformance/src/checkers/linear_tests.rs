use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{
    History, What,
    facts::{Action, Answer, Register},
    linear::linearizable,
    story::{breaks, story},
};

const BUDGET: usize = 100_000;
const READ: Action = Action::Read;

fn call(op: u64, action: Action) -> What {
    Register::Call { op, key: "/k".into(), action }.into()
}

fn answer(op: u64, answer: Answer) -> What {
    Register::Return { op, answer }.into()
}

fn value(value: u64, revision: u64) -> Answer {
    Answer::Value(Some((value, revision)))
}

const fn write(to: u64) -> Action {
    Action::Write(Some(to))
}

fn yes<const N: usize>(facts: [What; N]) {
    linearizable(&story(facts), BUDGET).unwrap();
}

fn no<const N: usize>(facts: [What; N]) {
    breaks(linearizable(&story(facts), BUDGET), "linearizability");
}

#[test]
fn reads_see_the_write_before_them() {
    yes([call(1, write(7)), answer(1, Answer::Done(3)), call(2, READ), answer(2, value(7, 3))]);
    no([call(1, write(7)), answer(1, Answer::Done(3)), call(2, READ), answer(2, Answer::Value(None))]);
    no([call(1, write(7)), answer(1, Answer::Done(3)), call(2, READ), answer(2, value(8, 3))]);
    no([call(1, write(7)), answer(1, Answer::Done(3)), call(2, READ), answer(2, value(7, 4))]);
}

#[test]
fn calls_at_the_same_time_stand_in_any_order() {
    for seen in [Answer::Value(None), value(7, 3)] {
        yes([call(1, write(7)), call(2, READ), answer(2, seen), answer(1, Answer::Done(3))]);
    }
    // But all see the same order.
    no([
        call(1, write(7)),
        call(2, READ),
        answer(2, value(7, 3)),
        call(3, READ),
        answer(3, Answer::Value(None)),
        answer(1, Answer::Done(3)),
    ]);
}

#[test]
fn revisions_give_the_order_of_writes() {
    let crossed = |one, two| {
        story([
            call(1, write(7)),
            call(2, write(8)),
            answer(1, Answer::Done(one)),
            answer(2, Answer::Done(two)),
            call(3, READ),
            answer(3, value(7, one)),
        ])
    };
    linearizable(&crossed(4, 3), BUDGET).unwrap();
    breaks(linearizable(&crossed(3, 4), BUDGET), "linearizability");
    no([call(1, write(7)), answer(1, Answer::Done(4)), call(2, write(8)), answer(2, Answer::Done(3))]);
}

#[test]
fn an_unknown_write_happened_or_not_and_maybe_late() {
    for seen in [Answer::Value(None), value(7, 9)] {
        yes([call(1, write(7)), answer(1, Answer::Unknown), call(2, READ), answer(2, seen)]);
        yes([call(1, write(7)), call(2, READ), answer(2, seen)]);
    }
    yes([
        call(1, write(7)),
        answer(1, Answer::Unknown),
        call(2, READ),
        answer(2, Answer::Value(None)),
        call(3, READ),
        answer(3, value(7, 9)),
    ]);
    // It happens once, and does not go away again.
    no([
        call(1, write(7)),
        answer(1, Answer::Unknown),
        call(2, READ),
        answer(2, value(7, 9)),
        call(3, READ),
        answer(3, Answer::Value(None)),
    ]);
    no([
        call(1, write(7)),
        answer(1, Answer::Unknown),
        call(2, write(8)),
        answer(2, Answer::Done(5)),
        call(3, READ),
        answer(3, value(7, 4)),
    ]);
}

#[test]
fn what_was_surely_not_applied_is_not_seen() {
    no([call(1, write(7)), answer(1, Answer::NotApplied), call(2, READ), answer(2, value(7, 3))]);
    yes([call(1, write(7)), answer(1, Answer::NotApplied), call(2, READ), answer(2, Answer::Value(None))]);
}

#[test]
fn swaps_meet_their_revision() {
    let create = Action::Swap { at: None, to: Some(7) };
    let change = |at| Action::Swap { at: Some(at), to: Some(8) };
    let created = [call(1, create), answer(1, Answer::Done(3))];
    let [a, b] = created.clone();
    yes([a, b, call(2, change(3)), answer(2, Answer::Done(4)), call(3, READ), answer(3, value(8, 4))]);
    let [a, b] = created.clone();
    no([a, b, call(2, change(2)), answer(2, Answer::Done(4))]);
    let [a, b] = created.clone();
    no([a, b, call(2, change(3)), answer(2, Answer::Rejected)]);
    let [a, b] = created.clone();
    no([a, b, call(2, create), answer(2, Answer::Done(4))]);
    let [a, b] = created.clone();
    yes([a, b, call(2, create), answer(2, Answer::Rejected)]);
    // Two of one revision: one wins.
    let [a, b] = created;
    no([
        a,
        b,
        call(2, change(3)),
        call(3, change(3)),
        answer(2, Answer::Done(4)),
        answer(3, Answer::Done(5)),
    ]);
}

#[test]
fn a_creation_is_not_refused_where_nothing_is() {
    let written = [call(1, write(7)), answer(1, Answer::Done(3)), call(2, Action::Write(None))];
    let create = Action::Swap { at: None, to: Some(8) };
    let [a, b, c] = written.clone();
    no([
        a,
        b,
        c,
        call(3, READ),
        answer(3, Answer::Value(None)),
        call(4, create),
        answer(4, Answer::Rejected),
    ]);
    let [a, b, c] = written;
    yes([
        a,
        b,
        c,
        call(3, READ),
        answer(3, Answer::Value(None)),
        call(4, create),
        answer(4, Answer::Done(9)),
    ]);
}

#[test]
fn deletions_leave_nothing() {
    let delete = Action::Write(None);
    let written = [call(1, write(7)), answer(1, Answer::Done(3))];
    let [a, b] = written.clone();
    yes([a, b, call(2, delete), answer(2, Answer::Done(4)), call(3, READ), answer(3, Answer::Value(None))]);
    let [a, b] = written.clone();
    no([a, b, call(2, delete), answer(2, Answer::Rejected)]);
    let [a, b] = written;
    no([a, b, call(2, delete), answer(2, Answer::Done(4)), call(3, READ), answer(3, value(7, 3))]);
    yes([call(1, delete), answer(1, Answer::Rejected)]);
}

#[test]
fn keys_are_judged_apart() {
    let other = Register::Call { op: 2, key: "/other".into(), action: READ };
    yes([call(1, write(7)), answer(1, Answer::Done(3)), other.into(), answer(2, Answer::Value(None))]);
}

#[test]
fn a_budget_that_runs_out_is_a_failure() {
    let history =
        story([call(1, write(7)), answer(1, Answer::Done(3)), call(2, READ), answer(2, value(7, 3))]);
    breaks(linearizable(&history, 1), "linearizability-budget");
}

/// A register under random calls by several clients; the calls apply somewhere between call and return.
fn random(rng: &mut StdRng, ops: u64) -> History {
    let (mut now, mut revision) = (None, 0);
    // Of each call that is open: what is asked, and the answer once it was applied.
    let mut open: Vec<(u64, Action, Option<Answer>)> = Vec::new();
    let mut history = History::new();
    let mut next = 0;
    while next < ops || !open.is_empty() {
        match rng.random_range(0..3) {
            0 if next < ops && open.len() < 5 => {
                let action = match rng.random_range(0..4) {
                    0 => Action::Swap { at: Some(revision), to: Some(next) },
                    1 => Action::Swap { at: None, to: Some(next) },
                    2 => Action::Write(rng.random_bool(0.8).then_some(next)),
                    _ => READ,
                };
                history.record(history.duration(), 0, call(next, action));
                open.push((next, action, None));
                next += 1;
            }
            1 if !open.is_empty() => {
                let at = rng.random_range(0..open.len());
                if let (_, action, result @ None) = &mut open[at] {
                    let met = match *action {
                        READ => true,
                        Action::Write(to) => to.is_some() || now.is_some(),
                        Action::Swap { at, .. } => now.map(|(_, by)| by) == at,
                    };
                    *result = Some(match *action {
                        READ => Answer::Value(now),
                        _ if !met => Answer::Rejected,
                        Action::Write(to) | Action::Swap { to, .. } => {
                            revision += 1;
                            now = to.map(|to| (to, revision));
                            Answer::Done(revision)
                        }
                    });
                }
            }
            2 if !open.is_empty() => {
                let at = rng.random_range(0..open.len());
                let lost = rng.random_bool(0.1);
                if open[at].2.is_some() || lost {
                    let (op, action, result) = open.swap_remove(at);
                    let applied = result.filter(|_| !lost);
                    if applied.is_some() || result.is_some() || action == READ {
                        history.record(history.duration(), 0, answer(op, applied.unwrap_or(Answer::Unknown)));
                    } else {
                        history.record(history.duration(), 0, answer(op, Answer::NotApplied));
                    }
                }
            }
            _ => {}
        }
    }
    history
}

#[test]
fn random_runs_of_a_register_are_right() {
    for seed in 0..300 {
        let history = random(&mut StdRng::seed_from_u64(seed), 120);
        linearizable(&history, BUDGET).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    }
}

#[test]
fn a_wrong_answer_in_a_random_run_is_caught() {
    let (mut changed, mut caught) = (0, 0);
    for seed in 0..300 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut events = random(&mut rng, 120).events().to_vec();
        let reads: Vec<usize> = (0..events.len())
            .filter(|&at| {
                matches!(&events[at].what, What::Register(Register::Return { answer: Answer::Value(_), .. }))
            })
            .collect();
        let at = reads[rng.random_range(0..reads.len())];
        let What::Register(Register::Return { answer, .. }) = &mut events[at].what else { continue };
        *answer = match *answer {
            Answer::Value(Some((value, revision))) => Answer::Value(Some((value, revision + 1))),
            _ => Answer::Value(Some((1, 1))),
        };
        changed += 1;
        caught += u32::from(linearizable(&events.into_iter().collect(), BUDGET).is_err());
    }
    // What is left: revisions that an unknown write may have had.
    assert!(caught * 100 >= changed * 95, "{caught} of {changed}");
}
