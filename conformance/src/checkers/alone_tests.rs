//! Each rule has a history that breaks it and no other rule: no rule is there twice.

use std::time::Duration;

use super::{
    History, Terms, What, check_all,
    facts::{
        Action, Answer, Applied, Barrier, Cache, Config, Counter, Drawn, Election, Found, Group, Guarded,
        Hold, Job, Leftover, LeftoverKind, Line, Mode, Queue, Register, Rendezvous, Resize, Session, Share,
        Step, Stored, Told, Watch, Why,
    },
    story::story,
};

#[track_caller]
fn only<const N: usize>(rule: &str, facts: [What; N]) {
    alone(rule, &story(facts));
}

#[track_caller]
fn alone(rule: &str, history: &History) {
    let terms = Terms { budget: 50, ..Terms::default() };
    let (_, violations) = check_all(history, &terms);
    let rules: Vec<_> = violations.iter().map(|violation| violation.rule).collect();
    assert_eq!(rules, [rule], "{violations:?}");
    assert!(violations[0].events.iter().all(|&at| at < history.events().len()));
    assert!(violations[0].explain(history).contains(rule));
}

fn asked(ask: u64, mode: Mode) -> What {
    Hold::Asked { ask, name: "/l".into(), owner: ask, mode, group: None }.into()
}

fn part(ask: u64, name: &str, group: u64) -> What {
    Hold::Asked { ask, name: name.into(), owner: group, mode: Mode::Exclusive, group: Some(group) }.into()
}

fn granted(ask: u64, entry: u64) -> What {
    Hold::Granted { ask, token: entry.into(), entry }.into()
}

fn releasing(ask: u64) -> What {
    Hold::Releasing { ask }.into()
}

fn believed(ask: u64) -> What {
    Hold::Believed { ask }.into()
}

fn joined(name: &str, entry: u64, ask: Option<u64>) -> What {
    Line::Joined { name: name.into(), entry, session: entry, mode: Mode::Exclusive, ask }.into()
}

fn left(name: &str, entry: u64) -> What {
    Line::Left { name: name.into(), entry, why: Why::Owner }.into()
}

const LOCK: Mode = Mode::Exclusive;

#[test]
fn holds() {
    let expired = Line::Left { name: "/l".into(), entry: 1, why: Why::SessionEnded };
    only(
        "exclusion",
        [
            asked(1, LOCK),
            joined("/l", 1, None),
            granted(1, 1),
            asked(2, LOCK),
            expired.into(),
            granted(2, 2),
            believed(1),
        ],
    );
    only("one-grant", [asked(1, LOCK), granted(1, 1), asked(2, LOCK), granted(2, 2)]);
    let stale = Hold::Granted { ask: 2, token: 1, entry: 3 };
    only("token", [asked(1, LOCK), granted(1, 2), releasing(1), asked(2, LOCK), stale.into()]);
    only(
        "fifo",
        [
            asked(1, LOCK),
            joined("/l", 1, None),
            asked(2, LOCK),
            joined("/l", 2, None),
            granted(2, 2),
            left("/l", 1),
            releasing(2),
            left("/l", 2),
        ],
    );
    only("re-entry", [asked(1, LOCK), joined("/l", 1, None), granted(1, 1), left("/l", 1)]);
}

#[test]
fn groups() {
    let refused = |ask| What::from(Hold::Refused { ask });
    only("multi-part", [part(1, "/a", 9), part(2, "/b", 9), granted(1, 1), refused(2)]);
    only(
        "multi-order",
        [
            part(1, "/a", 8),
            part(2, "/b", 8),
            part(3, "/a", 9),
            part(4, "/b", 9),
            joined("/a", 1, Some(1)),
            joined("/b", 2, Some(2)),
            joined("/b", 3, Some(4)),
            joined("/a", 4, Some(3)),
            left("/a", 1),
            left("/b", 2),
            left("/b", 3),
            left("/a", 4),
        ],
    );
}

#[test]
fn elections() {
    let led = |candidate: &str, epoch| {
        What::from(Election::Led { name: "/e".into(), candidate: candidate.into(), epoch })
    };
    let saw = |observer, who: &str, epoch| {
        What::from(Election::Observed { name: "/e".into(), observer, leader: Some((who.into(), epoch)) })
    };
    only("epoch-order", [led("a", 5), led("b", 4)]);
    only("epoch-leader", [led("a", 5), saw(1, "b", 5)]);
    only("observer-order", [saw(1, "b", 6), saw(1, "a", 5)]);
    let answered = Election::Answered { name: "/e".into(), candidate: "a".into(), epoch: 5, leads: true };
    only("stale-leader", [led("a", 5), led("b", 6), answered.into()]);
}

#[test]
fn meetings() {
    let raised = || What::from(Barrier::Raised { name: "/b".into() });
    let waiting = || What::from(Barrier::Waiting { name: "/b".into(), wait: 1 });
    only("barrier-early", [raised(), waiting(), Barrier::Passed { wait: 1 }.into()]);
    let lowering = Barrier::Lowering { name: "/b".into() };
    only(
        "barrier-stuck",
        [raised(), waiting(), lowering.into(), Barrier::Lowered { name: "/b".into() }.into()],
    );
    let step = |member, step| What::from(Rendezvous { name: "/d".into(), round: 0, member, of: 2, step });
    only("rendezvous-early", [step(1, Step::Entering), step(1, Step::Entered)]);
    let in_three = [
        step(1, Step::Entering),
        step(2, Step::Entering),
        step(3, Step::Entering),
        step(1, Step::Entered),
        step(2, Step::Entered),
        step(3, Step::Entered),
    ];
    only("rendezvous-crowd", in_three);
    only(
        "rendezvous-bypass",
        [
            step(1, Step::Entering),
            step(2, Step::Entering),
            step(1, Step::Entered),
            step(2, Step::Entered),
            step(1, Step::Leaving),
            step(1, Step::Departed),
        ],
    );
}

#[test]
fn queues() {
    let putting = |item| What::from(Queue::Putting { name: "/q".into(), item, priority: 0 });
    let put = |item| What::from(Queue::Put { name: "/q".into(), item, applied: Applied::Yes });
    let taking = |take| What::from(Queue::Taking { name: "/q".into(), take });
    let taken = |take, item| What::from(Queue::Taken { take, item });
    let done = |take| What::from(Queue::Done { take, applied: Applied::Yes });
    only("queue-invented", [taking(1), taken(1, 1), done(1)]);
    only(
        "queue-twice",
        [putting(1), put(1), taking(1), taken(1, 1), done(1), taking(2), taken(2, 1), done(2)],
    );
    only("queue-lost", [putting(1), put(1)]);
    only(
        "queue-order",
        [
            putting(1),
            put(1),
            putting(2),
            put(2),
            taking(1),
            taken(1, 2),
            done(1),
            taking(2),
            taken(2, 1),
            done(2),
        ],
    );
}

#[test]
fn sums() {
    let adding = |op| What::from(Counter::Adding { name: "/c".into(), op, delta: 1 << op });
    let added = |op, value| What::from(Counter::Added { op, applied: Applied::Yes, value });
    only("counter-sum", [adding(1), added(1, None), Counter::Total { name: "/c".into(), value: 0 }.into()]);
    only("counter-value", [adding(1), added(1, Some(5)), adding(2), added(2, Some(4))]);
    let mut many = History::new();
    for op in 0..17 {
        many.record(Duration::ZERO, 0, adding(op));
    }
    many.record(Duration::ZERO, 0, Counter::Total { name: "/c".into(), value: 0 });
    alone("counter-budget", &many);
    let drawn = || What::from(Drawn { name: "/i".into(), id: 1 });
    only("id-twice", [drawn(), drawn()]);
    let job = || What::from(Job { name: "/j".into(), period: 1 });
    only("job-twice", [job(), job()]);
}

fn stored(revision: u64) -> What {
    Stored::Put { key: "/d/k".into(), revision, value: revision, session: None }.into()
}

#[test]
fn watches() {
    let opened = |after| What::from(Watch::Opened { watch: 1, dir: "/d/".into(), after: Some(after) });
    let put = |revision, value| What::from(Watch::Put { watch: 1, key: "/d/k".into(), revision, value });
    let progress = |revision| What::from(Watch::Progress { watch: 1, revision });
    only("watch-order", [stored(1), opened(1), progress(3), progress(2)]);
    only("watch-twice", [stored(1), opened(0), put(1, 1), put(1, 1)]);
    only("watch-invented", [stored(1), opened(0), put(1, 2)]);
    only("watch-gap", [stored(1), stored(2), opened(0), put(2, 2)]);
    only("watch-final", [stored(1), opened(0)]);
}

#[test]
fn caches() {
    let opened = || What::from(Cache::Opened { cache: 1, dir: "/d/".into() });
    let put =
        |old, new, revision| What::from(Cache::Put { cache: 1, key: "/d/k".into(), old, new, revision });
    let ready = || What::from(Cache::Initialised { cache: 1 });
    let read = |revision| What::from(Cache::Read { cache: 1, revision, entries: Default::default() });
    only("cache-mirror", [stored(1), stored(2), opened(), put(None, 1, 1), ready(), put(None, 2, 2)]);
    only("cache-invented", [stored(1), opened(), put(None, 7, 1), ready()]);
    only("cache-order", [stored(1), stored(2), opened(), put(None, 2, 2), ready(), put(Some(2), 1, 1)]);
    only("cache-initialised", [stored(1), opened(), put(None, 1, 1)]);
    only("cache-read", [opened(), ready(), read(2), read(1)]);
    only("cache-final", [stored(1), opened(), ready()]);
}

#[test]
fn sessions() {
    let opened = || What::from(Session::Opened { session: 1, ttl: Duration::from_millis(3) });
    let put = || What::from(Stored::Put { key: "/k".into(), revision: 1, value: 1, session: Some(1) });
    let gone = || What::from(Stored::Gone { key: "/k".into(), revision: 2, with_session: true });
    only("ephemeral-early", [opened(), put(), gone()]);
    let lost = || What::from(Session::Lost { session: 1 });
    only("ephemeral-late", [opened(), put(), lost(), lost(), gone()]);
    only("session-back", [opened(), put(), lost(), gone(), Session::Renewed { session: 1 }.into()]);
    only("leak", [Leftover { kind: LeftoverKind::Keys, which: vec!["/k".into()], count: 1 }.into()]);
}

#[test]
fn registers() {
    let call = |op, action| What::from(Register::Call { op, key: "/k".into(), action });
    let answer = |op, answer| What::from(Register::Return { op, answer });
    only("linearizability", [call(1, Action::Read), answer(1, Answer::Value(Some((1, 1))))]);
    let mut hard = History::new();
    for op in 0..12 {
        hard.record(Duration::ZERO, 0, call(op, Action::Write(Some(op))));
    }
    hard.record(Duration::ZERO, 0, call(99, Action::Read));
    hard.record(Duration::ZERO, 0, answer(99, Answer::Value(Some((99, 1)))));
    alone("linearizability-budget", &hard);
}

#[test]
fn groups_and_services() {
    let put = || What::from(Stored::Put { key: "/g/a".into(), revision: 1, value: 7, session: Some(1) });
    let opened = || What::from(Group::Opened { view: 1, dir: "/g/".into() });
    let members = |members: &[(u64, u64)]| {
        let members = members.iter().map(|member| ("a".to_owned(), *member)).collect();
        What::from(Group::Members { view: 1, members })
    };
    only("group-steps", [put(), opened(), Group::Left { view: 1, id: "a".into(), since: 1 }.into()]);
    only("group-invented", [opened(), members(&[(1, 7)])]);
    let later = Stored::Put { key: "/g/a".into(), revision: 2, value: 8, session: Some(1) };
    only("group-back", [put(), later.into(), opened(), members(&[(1, 8)]), members(&[(1, 7)])]);
    only("group-final", [put(), opened(), members(&[]), Group::Settled { view: 1 }.into()]);

    let share = |member: &str, items: &[u64], settled| {
        let (dir, member, items) = ("/g/".to_owned(), member.to_owned(), items.to_vec());
        What::from(Share { dir, member, ring: vec!["a".into(), "b".into()], items, of: 1, settled })
    };
    only("share-twice", [share("a", &[0], false), share("b", &[0], false)]);
    only("share-nobody", [share("a", &[], true)]);

    let found = |view: Found| What::from(view);
    let opened = || found(Found::Opened { view: 1, service: "s".into() });
    let all = |value| found(Found::All { view: 1, instances: [("a".to_owned(), value)].into() });
    let changed = |before, after| found(Found::Changed { view: 1, id: "a".into(), before, after });
    only("found-steps", [opened(), all(1), changed(None, Some(2))]);
    only("found-back", [opened(), all(2), all(1)]);
    let settled = || found(Found::Settled { view: 1, instances: Default::default() });
    only("found-final", [opened(), all(1), settled()]);
}

#[test]
fn values_permits_and_releases() {
    let told = |value| What::from(Told::Value { listener: 1, value });
    let listening = || What::from(Told::Opened { listener: 1, key: "/d/k".into() });
    only("told-back", [listening(), stored(1), told(Some(1)), told(Some(1))]);
    only("told-final", [listening(), stored(1), told(None), Told::Settled { listener: 1 }.into()]);

    let sent = |entry| What::from(Guarded::Sent { write: 2, name: "/l".into(), entry, key: "/d/k".into() });
    let told = |applied| What::from(Guarded::Told { write: 2, applied });
    only("guarded-late", [joined("/l", 1, None), sent(1), left("/l", 1), stored(2)]);
    only("guarded-twice", [joined("/l", 1, None), sent(1), stored(2), stored(2), left("/l", 1)]);
    only("guarded-told", [joined("/l", 1, None), sent(1), left("/l", 1), told(Applied::Yes)]);

    let mode = Mode::Permits { take: 2, of: u64::MAX };
    let one = Resize::Calling { resize: 1, name: "/l".into(), to: 1 };
    let entry = Line::Joined { name: "/l".into(), entry: 1, session: 1, mode, ask: None };
    only("permits", [one.into(), asked(1, mode), entry.into(), granted(1, 1), releasing(1), left("/l", 1)]);

    let ran = |generation, items: &[u64]| {
        What::from(Config::Ran { consumer: 1, name: "n".into(), generation, items: items.to_vec() })
    };
    only("config-mixed", [ran(1, &[1, 2])]);
    only(
        "config-twice",
        [ran(1, &[1]), Config::Published { name: "n".into(), generation: 1, value: 2 }.into()],
    );
    only("config-back", [ran(2, &[2]), ran(1, &[1])]);
    let head = Config::Head { name: "n".into(), generation: 2 };
    only(
        "config-final",
        [ran(1, &[1]), head.into(), Config::Settled { consumer: 1, name: "n".into() }.into()],
    );
}
