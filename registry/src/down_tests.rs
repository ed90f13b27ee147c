use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// Down after two failures within ten seconds; rests for four seconds, at most ten.
fn downs(trials: bool) -> Downs {
    Downs::new(DownPolicy::new(2, 10 * SECOND).with_rest(4 * SECOND, 10 * SECOND), trials)
}

fn request(downs: &mut Downs, id: &str, at: Instant) -> Ticket {
    downs.begin(id, at, false).expect("it may be chosen")
}

fn fail(downs: &mut Downs, id: &str, at: Instant) -> Option<Turn> {
    let ticket = request(downs, id, at);
    downs.failed(id, ticket, at)
}

fn is_out(downs: &Downs, id: &str, at: Instant) -> bool {
    downs.out(at).contains(id)
}

#[test]
fn failures_count_within_the_window_and_for_each_instance() {
    let (mut downs, t0) = (downs(true), Instant::now());
    assert_eq!(fail(&mut downs, "a", t0), None);
    assert_eq!(fail(&mut downs, "b", t0 + SECOND), None);
    assert_eq!(fail(&mut downs, "a", t0 + 11 * SECOND), None, "the first is too long ago");
    assert_eq!(fail(&mut downs, "a", t0 + 21 * SECOND), Some(Turn::WentDown(4 * SECOND)), "just within");
    assert!(is_out(&downs, "a", t0 + 21 * SECOND) && !is_out(&downs, "b", t0 + 21 * SECOND));
    assert!(downs.begin("a", t0 + 21 * SECOND, false).is_none());
}

#[test]
fn one_that_has_rested_gets_one_request_and_is_back_if_that_succeeds() {
    let (mut downs, t0) = (downs(true), Instant::now());
    fail(&mut downs, "a", t0);
    fail(&mut downs, "a", t0);
    assert!(is_out(&downs, "a", t0 + 4 * SECOND - Duration::from_millis(1)));
    let rested = t0 + 4 * SECOND;
    assert!(!is_out(&downs, "a", rested));
    let trial = request(&mut downs, "a", rested);
    assert!(is_out(&downs, "a", rested), "one request at a time");
    assert!(downs.begin("a", rested, false).is_none());
    assert_eq!(downs.succeeded("a", trial, rested + SECOND), Some(Turn::CameBack));
    assert!(downs.down().is_empty());
    assert_eq!(fail(&mut downs, "a", rested + SECOND), None, "failures of before it was down do not count");
}

#[test]
fn a_trial_that_fails_means_twice_the_rest_up_to_the_longest() {
    let (mut downs, t0) = (downs(true), Instant::now());
    fail(&mut downs, "a", t0);
    fail(&mut downs, "a", t0);
    let mut now = t0;
    for (rest, next) in [(4, 8), (8, 10), (10, 10)] {
        now += rest * SECOND;
        assert_eq!(fail(&mut downs, "a", now), Some(Turn::WentDown(next * SECOND)));
        assert!(is_out(&downs, "a", now + (next * SECOND - Duration::from_millis(1))));
    }
}

#[test]
fn a_trial_that_is_never_heard_of_again_is_followed_by_another() {
    let (mut downs, t0) = (downs(true), Instant::now());
    fail(&mut downs, "a", t0);
    fail(&mut downs, "a", t0);
    let _lost = request(&mut downs, "a", t0 + 4 * SECOND);
    assert!(is_out(&downs, "a", t0 + 7 * SECOND));
    assert!(!is_out(&downs, "a", t0 + 8 * SECOND));
}

#[test]
fn requests_that_began_before_it_went_down_change_nothing_any_more() {
    let (mut downs, t0) = (downs(true), Instant::now());
    let slow: Vec<_> = (0..4).map(|_| request(&mut downs, "a", t0)).collect();
    fail(&mut downs, "a", t0);
    fail(&mut downs, "a", t0);
    assert_eq!(downs.succeeded("a", slow[0], t0), None, "a late success does not let it in");
    assert_eq!(downs.failed("a", slow[1], t0 + SECOND), None, "a late failure does not make its rest longer");
    let trial = request(&mut downs, "a", t0 + 4 * SECOND);
    downs.succeeded("a", trial, t0 + 4 * SECOND);
    for late in &slow[2..] {
        assert_eq!(downs.failed("a", *late, t0 + 5 * SECOND), None, "it came back since");
    }
    assert!(downs.down().is_empty());
}

#[test]
fn one_that_goes_down_soon_after_it_came_back_rests_longer() {
    let (mut downs, t0) = (downs(true), Instant::now());
    let down = |downs: &mut Downs, at| {
        fail(downs, "a", at);
        fail(downs, "a", at)
    };
    down(&mut downs, t0);
    let trial = request(&mut downs, "a", t0 + 4 * SECOND);
    downs.succeeded("a", trial, t0 + 4 * SECOND);
    assert_eq!(down(&mut downs, t0 + 5 * SECOND), Some(Turn::WentDown(8 * SECOND)));
    let trial = request(&mut downs, "a", t0 + 13 * SECOND);
    downs.succeeded("a", trial, t0 + 13 * SECOND);
    assert_eq!(down(&mut downs, t0 + 60 * SECOND), Some(Turn::WentDown(4 * SECOND)), "it was well for long");
}

#[test]
fn requests_that_are_sent_although_it_is_down_can_only_bring_it_back() {
    let (mut downs, t0) = (downs(true), Instant::now());
    fail(&mut downs, "a", t0);
    fail(&mut downs, "a", t0);
    let anyway = |downs: &mut Downs| downs.begin("a", t0 + SECOND, true).unwrap();
    let (first, second) = (anyway(&mut downs), anyway(&mut downs));
    assert_eq!(downs.failed("a", first, t0 + 2 * SECOND), None);
    assert!(!is_out(&downs, "a", t0 + 4 * SECOND), "its rest became longer");
    assert_eq!(downs.succeeded("a", second, t0 + 2 * SECOND), Some(Turn::CameBack));
}

#[test]
fn where_there_are_probes_they_decide_and_no_request_is_risked() {
    let (mut downs, t0) = (downs(false), Instant::now());
    fail(&mut downs, "a", t0);
    fail(&mut downs, "a", t0);
    assert_eq!(downs.probe_passed("a", t0 + 3 * SECOND), None, "it has not rested");
    assert!(is_out(&downs, "a", t0 + 100 * SECOND));
    assert!(downs.begin("a", t0 + 100 * SECOND, false).is_none());
    assert_eq!(downs.probes_failed("a", t0 + 4 * SECOND), None, "it is down already");
    assert_eq!(downs.probe_passed("a", t0 + 4 * SECOND), Some(Turn::CameBack));
    assert_eq!(downs.probes_failed("a", t0 + 30 * SECOND), Some(Turn::WentDown(4 * SECOND)));
    assert_eq!(downs.probe_passed("b", t0), None);
}

#[test]
fn policies_at_the_edges() {
    let t0 = Instant::now();
    let mut first = Downs::new(DownPolicy::first_failure(), true);
    assert_eq!(fail(&mut first, "a", t0), Some(Turn::WentDown(5 * SECOND)));
    let mut zero = Downs::new(DownPolicy::new(0, SECOND), true);
    assert!(fail(&mut zero, "a", t0).is_some());
    let mut never = Downs::new(DownPolicy::never(), true);
    assert!((0..1_000).all(|_| fail(&mut never, "a", t0).is_none()));
    assert!(never.known.is_empty());
    let mut forever = Downs::new(DownPolicy::first_failure().with_rest(Duration::MAX, Duration::MAX), true);
    assert!(fail(&mut forever, "a", t0).is_some());
    assert!(is_out(&forever, "a", t0 + 1_000_000 * SECOND));
    let mut restless = Downs::new(DownPolicy::first_failure().with_rest(SECOND, Duration::ZERO), true);
    fail(&mut restless, "a", t0);
    assert!(!is_out(&restless, "a", t0));
}

#[test]
fn what_is_known_of_those_that_left_is_forgotten() {
    let (mut downs, t0) = (downs(true), Instant::now());
    for id in ["a", "b"] {
        fail(&mut downs, id, t0);
        fail(&mut downs, id, t0);
    }
    downs.retain(|id| id == "b");
    assert_eq!(downs.down().into_iter().collect::<Vec<_>>(), ["b"]);
    assert_eq!(fail(&mut downs, "a", t0), None);
}
