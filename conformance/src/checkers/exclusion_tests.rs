use super::{
    What,
    exclusion::{exclusion, one_grant_a_release},
    facts::{Hold, Line, Mode, Why},
    story::{breaks, story},
};

fn asked(ask: u64, owner: u64, mode: Mode) -> What {
    Hold::Asked { ask, name: "/l".into(), owner, mode, group: None }.into()
}

fn granted(ask: u64) -> What {
    Hold::Granted { ask, token: ask.into(), entry: ask }.into()
}

fn believed(ask: u64) -> What {
    Hold::Believed { ask }.into()
}

fn releasing(ask: u64) -> What {
    Hold::Releasing { ask }.into()
}

fn left(entry: u64, why: Why) -> What {
    Line::Left { name: "/l".into(), entry, why }.into()
}

const LOCK: Mode = Mode::Exclusive;
const READ: Mode = Mode::Shared;

#[test]
fn holds_behind_each_other_are_right() {
    let history = story([
        asked(1, 1, LOCK),
        asked(2, 2, LOCK),
        granted(1),
        believed(1),
        releasing(1),
        granted(2),
        believed(2),
    ]);
    let stats = exclusion(&history).unwrap();
    assert_eq!((stats.judged, stats.contended), (2, 2));
    one_grant_a_release(&history).unwrap();
}

#[test]
fn a_grant_is_contended_when_somebody_else_waits_or_holds() {
    let alone = [asked(1, 1, LOCK), granted(1), releasing(1), asked(2, 2, LOCK), granted(2), releasing(2)];
    assert_eq!(exclusion(&story(alone)).unwrap().contended, 0);
    // The second asked while the first held, and the third gave up before anybody else came.
    let refused = What::from(Hold::Refused { ask: 3 });
    let met = [
        asked(3, 3, LOCK),
        refused,
        asked(1, 1, LOCK),
        granted(1),
        asked(2, 2, LOCK),
        releasing(1),
        granted(2),
    ];
    assert_eq!(exclusion(&story(met)).unwrap().contended, 1);
}

#[test]
fn a_believer_excludes_the_next_even_when_its_entry_is_gone() {
    let history = story([
        asked(1, 1, LOCK),
        granted(1),
        asked(2, 2, LOCK),
        left(1, Why::SessionEnded),
        granted(2),
        believed(1),
    ]);
    breaks(exclusion(&history), "exclusion");
    one_grant_a_release(&history).unwrap();
}

#[test]
fn release_called_while_valid_is_a_belief() {
    let history = story([
        asked(1, 1, LOCK),
        granted(1),
        asked(2, 2, LOCK),
        left(1, Why::SessionEnded),
        granted(2),
        releasing(1),
    ]);
    breaks(exclusion(&history), "exclusion");
}

#[test]
fn an_operator_ends_the_right_to_believe() {
    let history = story([
        asked(1, 1, LOCK),
        granted(1),
        asked(2, 2, LOCK),
        left(1, Why::Operator),
        granted(2),
        believed(1),
    ]);
    exclusion(&history).unwrap();
}

#[test]
fn a_grant_needs_a_release() {
    let history = story([asked(1, 1, LOCK), granted(1), asked(2, 2, LOCK), granted(2)]);
    exclusion(&history).unwrap();
    breaks(one_grant_a_release(&history), "one-grant");
}

#[test]
fn one_release_lets_in_one() {
    let history = story([
        asked(1, 1, LOCK),
        granted(1),
        asked(2, 2, LOCK),
        asked(3, 3, LOCK),
        releasing(1),
        granted(2),
        granted(3),
    ]);
    exclusion(&history).unwrap();
    breaks(one_grant_a_release(&history), "one-grant");
}

#[test]
fn names_do_not_exclude_each_other() {
    let other = Hold::Asked { ask: 2, name: "/m".into(), owner: 2, mode: LOCK, group: None };
    let history = story([asked(1, 1, LOCK), granted(1), other.into(), granted(2), believed(1)]);
    exclusion(&history).unwrap();
    one_grant_a_release(&history).unwrap();
}

#[test]
fn one_owner_may_enter_again() {
    let enter_twice =
        [asked(1, 7, LOCK), granted(1), asked(2, 7, LOCK), granted(2), believed(1), releasing(2)];
    let again = story(enter_twice.clone());
    exclusion(&again).unwrap();
    one_grant_a_release(&again).unwrap();

    // Left once of twice: nobody else may come in.
    let [a, b, c, d, e, f] = enter_twice;
    let early = story([a, b, c, d, e, f, asked(3, 8, LOCK), granted(3), believed(1)]);
    breaks(exclusion(&early), "exclusion");
    breaks(one_grant_a_release(&early), "one-grant");
}

#[test]
fn readers_share_and_writers_do_not() {
    let readers = story([asked(1, 1, READ), asked(2, 2, READ), granted(1), granted(2), believed(1)]);
    exclusion(&readers).unwrap();
    one_grant_a_release(&readers).unwrap();
    let writer = story([asked(1, 1, READ), granted(1), asked(2, 2, LOCK), granted(2), believed(1)]);
    breaks(exclusion(&writer), "exclusion");
    let reader = story([asked(1, 1, LOCK), granted(1), asked(2, 2, READ), granted(2), believed(1)]);
    breaks(exclusion(&reader), "exclusion");
}

#[test]
fn a_downgraded_writer_keeps_writers_out() {
    let downgrade = [asked(1, 1, LOCK), granted(1), asked(2, 1, READ), granted(2), releasing(1)];
    let [a, b, c, d, e] = downgrade.clone();
    let reader = story([a, b, c, d, e, asked(3, 3, READ), granted(3), believed(2)]);
    exclusion(&reader).unwrap();
    let [a, b, c, d, e] = downgrade;
    let writer = story([a, b, c, d, e, asked(3, 3, LOCK), granted(3), believed(2)]);
    breaks(exclusion(&writer), "exclusion");
}

#[test]
fn permits_are_counted() {
    let two = |take| Mode::Permits { take, of: 3 };
    let fits = story([asked(1, 1, two(1)), granted(1), asked(2, 2, two(2)), granted(2), believed(1)]);
    exclusion(&fits).unwrap();
    one_grant_a_release(&fits).unwrap();
    let over = [asked(1, 1, two(2)), granted(1), asked(2, 2, two(2)), granted(2)];
    breaks(one_grant_a_release(&story(over.clone())), "one-grant");
    let [a, b, c, d] = over;
    breaks(exclusion(&story([a, b, c, d, believed(1)])), "exclusion");
}

#[test]
fn one_owner_has_no_more_permits_than_there_are() {
    let one = Mode::Permits { take: 1, of: 1 };
    let history = story([asked(1, 1, one), granted(1), asked(2, 1, one), granted(2), believed(1)]);
    breaks(exclusion(&history), "exclusion");
}
