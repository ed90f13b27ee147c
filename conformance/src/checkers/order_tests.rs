use super::{
    What,
    facts::{Hold, Line, Mode, Token, Why},
    order::{fifo, re_entry, tokens},
    story::{breaks, story},
};

const LOCK: Mode = Mode::Exclusive;
const READ: Mode = Mode::Shared;

fn asked(ask: u64, owner: u64, mode: Mode) -> What {
    Hold::Asked { ask, name: "/l".into(), owner, mode, group: None }.into()
}

fn granted(ask: u64, token: Token, entry: u64) -> What {
    Hold::Granted { ask, token, entry }.into()
}

fn releasing(ask: u64) -> What {
    Hold::Releasing { ask }.into()
}

fn joined(entry: u64, mode: Mode) -> What {
    Line::Joined { name: "/l".into(), entry, session: entry, mode, ask: None }.into()
}

fn left(entry: u64, why: Why) -> What {
    Line::Left { name: "/l".into(), entry, why }.into()
}

#[test]
fn tokens_grow() {
    let grants = |first, second| {
        story([
            asked(1, 1, LOCK),
            asked(2, 2, LOCK),
            granted(1, first, 5),
            releasing(1),
            granted(2, second, 6),
        ])
    };
    assert_eq!(tokens(&grants(5, 6)).unwrap().contended, 1);
    breaks(tokens(&grants(6, 5)), "token");
    // As with a session id for a token: the same again.
    breaks(tokens(&grants(5, 5)), "token");
}

#[test]
fn readers_have_tokens_of_their_own_above_the_last_writer() {
    let reads = |writer, one, two| {
        story([
            asked(1, 1, LOCK),
            granted(1, writer, 1),
            asked(2, 2, READ),
            asked(3, 3, READ),
            granted(3, two, 3),
            granted(2, one, 2),
        ])
    };
    tokens(&reads(1, 2, 3)).unwrap();
    breaks(tokens(&reads(1, 3, 3)), "token");
    breaks(tokens(&reads(4, 3, 5)), "token");
}

#[test]
fn a_place_that_is_entered_again_keeps_its_token() {
    let again = story([asked(1, 1, LOCK), granted(1, 5, 5), asked(2, 1, LOCK), granted(2, 5, 5)]);
    tokens(&again).unwrap();
    re_entry(&again).unwrap();
    let fresh = story([asked(1, 1, LOCK), granted(1, 5, 5), asked(2, 1, LOCK), granted(2, 6, 6)]);
    tokens(&fresh).unwrap();
    breaks(re_entry(&fresh), "re-entry");
}

#[test]
fn an_entry_stays_until_its_last_hold_is_released() {
    let enter_twice =
        [asked(1, 1, LOCK), granted(1, 5, 5), asked(2, 1, LOCK), granted(2, 5, 5), releasing(2)];
    let [a, b, c, d, e] = enter_twice.clone();
    breaks(re_entry(&story([a, b, c, d, e, left(5, Why::Owner), releasing(1)])), "re-entry");
    let [a, b, c, d, e] = enter_twice.clone();
    re_entry(&story([a, b, c, d, e, releasing(1), left(5, Why::Owner)])).unwrap();
    let [a, b, c, d, e] = enter_twice;
    re_entry(&story([a, b, c, d, e, left(5, Why::SessionEnded)])).unwrap();
}

#[test]
fn the_line_is_served_in_order() {
    let second_first = [joined(5, LOCK), joined(6, LOCK), asked(1, 1, LOCK), asked(2, 2, LOCK)];
    let [a, b, c, d] = second_first.clone();
    breaks(fifo(&story([a, b, c, d, granted(2, 6, 6)])), "fifo");
    // The one ahead is dead: it is ignored as soon as the store has removed it.
    let [a, b, c, d] = second_first;
    let stats = fifo(&story([a, b, c, d, left(5, Why::SessionEnded), granted(2, 6, 6)])).unwrap();
    assert_eq!(stats.judged, 1);
}

#[test]
fn without_a_line_the_entries_of_grants_are_in_order() {
    let grants = |first, second| {
        story([
            asked(1, 1, LOCK),
            asked(2, 2, LOCK),
            granted(1, 1, first),
            releasing(1),
            granted(2, 2, second),
        ])
    };
    fifo(&grants(5, 6)).unwrap();
    breaks(fifo(&grants(6, 5)), "fifo");
}

#[test]
fn readers_pass_readers_and_no_writer() {
    let line = [joined(5, READ), joined(6, READ), asked(2, 2, READ)];
    let [a, b, c] = line.clone();
    fifo(&story([a, b, c, granted(2, 6, 6)])).unwrap();
    let [a, b, c] = line;
    breaks(fifo(&story([a, joined(4, LOCK), b, c, granted(2, 6, 6)])), "fifo");
}

#[test]
fn permits_pass_where_they_fit() {
    let mode = |take| Mode::Permits { take, of: 3 };
    let line =
        |ahead| story([joined(5, mode(ahead)), joined(6, mode(2)), asked(2, 2, mode(2)), granted(2, 6, 6)]);
    fifo(&line(1)).unwrap();
    breaks(fifo(&line(2)), "fifo");
}

#[test]
fn who_held_before_stands_in_line_like_others() {
    let history = story([
        joined(5, LOCK),
        asked(1, 1, LOCK),
        granted(1, 5, 5),
        releasing(1),
        left(5, Why::Owner),
        joined(6, LOCK),
        joined(7, LOCK),
        asked(3, 1, LOCK),
        granted(3, 7, 7),
    ]);
    breaks(fifo(&history), "fifo");
}

#[test]
fn a_writer_steps_down_past_waiting_writers() {
    let history = story([
        joined(5, LOCK),
        asked(1, 1, LOCK),
        granted(1, 5, 5),
        joined(6, LOCK),
        joined(7, READ),
        asked(3, 1, READ),
        granted(3, 7, 7),
    ]);
    fifo(&history).unwrap();
}
