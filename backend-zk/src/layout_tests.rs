use coord_api::{Dir, Key};

use super::*;

const UUID: &str = "01234567-89ab-cdef-0123-456789abcdef";

fn place(name: &str) -> Option<(String, bool, i32)> {
    parse(name).map(|place| (place.tag.as_str().to_owned(), place.nonce.is_some(), place.sequence))
}

/// The line of these names, by name.
fn ordered(names: &[&str]) -> Vec<String> {
    let dir = Dir::parse("/line").unwrap();
    let keys = names.iter().map(|name| Key::from_store(&format!("{}{name}", dir.prefix())));
    line(keys).into_iter().map(|child| child.key.name().to_owned()).collect()
}

/// As the server prints a sequence: Java's `%010d`.
fn printed(sequence: i32) -> String {
    if sequence < 0 { format!("-{:09}", sequence.unsigned_abs()) } else { format!("{sequence:010}") }
}

#[test]
fn our_own_names_read_back_whatever_the_sequence() {
    let nonce = Nonce::from_uuid(UUID).unwrap();
    for tag in ["lock-", "latch-", "__READ__", "__WRIT__", "lease-", "a"] {
        let tag = Tag::new(tag).unwrap();
        for sequence in [
            0,
            5,
            999_999_999,
            1_000_000_000,
            i32::MAX,
            i32::MIN,
            i32::MIN + 1,
            -1_000_000_000,
            -999_999_999,
            -5,
            -1,
        ] {
            let name = format!("{}{}", prefix(nonce, &tag), printed(sequence));
            let read = parse(&name);
            let expected = Place { tag: tag.clone(), nonce: Some(nonce), sequence };
            // A bare word before a sign cannot be told from a tag that ends in a dash.
            if tag.as_str() == "a" && (-i32::MAX..=-1_000_000_000).contains(&sequence) {
                continue;
            }
            assert_eq!(read, Some(expected), "{name}");
        }
    }
}

#[test]
fn foreign_places_count_and_other_names_do_not() {
    assert_eq!(place("lock-0000000005"), Some(("lock-".into(), false, 5)));
    // Nine digits behind a dash are what the server prints for minus five.
    assert_eq!(place("lock-000000005"), Some(("lock".into(), false, -5)));
    assert_eq!(place(&format!("_c_{UUID}-latch-0000000007")), Some(("latch-".into(), true, 7)));
    for other in [
        "",
        "lock",
        "lock-",
        "0000000005",
        "lock-00000000x5",
        "lock-00000000٥٥",
        "löck-0000000005",
        "lock-\u{202e}0000000005",
        "ä000000005",
        "-000000005",
        "leader",
        "lock-+000000005",
        "lock-9999999999",
        "0123456789012345678901234567890123456789-0000000005",
        "_c_",
        "_c_-0000000005x",
        "ready",
    ] {
        assert_eq!(place(other), None, "{other:?}");
    }
    // A broken frame is part of the tag, not a reason to overlook who stands there.
    assert_eq!(place("_c_zz-lock-0000000005"), Some(("_c_zz-lock-".into(), false, 5)));
}

#[test]
fn the_counter_wraps_and_the_line_does_not() {
    let names = ["lock--2147483648", "lock-2147483646", "lock--2147483647", "lock-2147483647"];
    assert_eq!(
        ordered(&names),
        ["lock-2147483646", "lock-2147483647", "lock--2147483648", "lock--2147483647"]
    );
    assert_eq!(ordered(&["lock-0000000000", "lock--000000001"]), ["lock--000000001", "lock-0000000000"]);
    assert_eq!(ordered(&["lock-0000000010", "lock-0000000009"]), ["lock-0000000009", "lock-0000000010"]);
}

#[test]
fn places_come_first_and_a_stranger_far_ahead_does_not_turn_the_line() {
    assert_eq!(
        ordered(&["z", "lock-2147483647", "a", "lock-0000000001", "lock-0000000000"]),
        ["lock-0000000000", "lock-0000000001", "lock-2147483647", "a", "z"]
    );
    assert_eq!(ordered(&[]), [""; 0]);
}

#[test]
fn tags_share_one_sequence() {
    let read = format!("_c_{UUID}-__READ__0000000002");
    assert_eq!(
        ordered(&["__WRIT__0000000003", &read, "lock-0000000001"]),
        ["lock-0000000001", &read, "__WRIT__0000000003"]
    );
}
