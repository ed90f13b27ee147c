use std::collections::HashSet;

use super::*;
use crate::ErrorKind;

#[test]
fn the_grammar_refuses_what_some_store_refuses() {
    let long_segment = "x".repeat(256);
    let long_key = ["y".repeat(200).as_str(); 6].join("/");
    for bad in [
        "",
        "/",
        "//",
        "/a//b",
        "/a/",
        "a/",
        "/.",
        "/..",
        "/a/../b",
        "/a/./b",
        "/a\0",
        "/a\n",
        "/a\u{7f}",
        "/a\u{85}",
        "/a\u{e000}",
        "/a\u{fff0}",
        "/a\u{1f512}",
        &long_segment,
        &long_key,
    ] {
        let e = Key::parse(bad).expect_err(bad);
        assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{bad:?}");
    }
    for good in ["/a", "a", "/a/b", "/...", "/a b", "/ünï/漢字", "/{tag}", "/a%2Fb", "/*?[", "/-"] {
        Key::parse(good).unwrap_or_else(|e| panic!("{good:?}: {e}"));
    }
}

#[test]
fn the_leading_slash_is_optional_and_case_counts() {
    assert_eq!(Key::parse("a/b").unwrap(), Key::parse("/a/b").unwrap());
    assert_ne!(Key::parse("/Lock").unwrap(), Key::parse("/lock").unwrap());
}

#[test]
fn neighbours_are_not_inside() {
    let app = Dir::parse("/app").unwrap();
    for outside in ["/app2/x", "/app2", "/app", "/ap/p"] {
        assert!(!app.contains(&Key::parse(outside).unwrap()), "{outside}");
    }
    assert!(app.contains(&Key::parse("/app/app").unwrap()));
    assert_eq!(app.child_towards(&Key::parse("/app/b/c").unwrap()), Some(Key::parse("/app/b").unwrap()));
    assert!(Dir::root().contains(&Key::parse("/x").unwrap()));
}

#[test]
fn joining_and_stripping_are_inverse_even_for_equal_names() {
    let zoo = Dir::parse("/zoo").unwrap();
    for path in ["/zoo", "/zoo/zoo", "/a"] {
        let key = Key::parse(path).unwrap();
        assert_eq!(zoo.strip_key(&zoo.join_key(&key)), Some(key));
    }
}

#[test]
fn encoding_is_injective_and_stays_one_segment() {
    let texts = [
        "",
        "%",
        "%25",
        "/",
        "%2F",
        ".",
        "..",
        "...",
        "a/b",
        "a%2Fb",
        "a%252Fb",
        "\0",
        "\u{1f512}",
        "%F0%9F%94%92",
        "{a}",
        "a",
        "A",
        " ",
        "é",
    ];
    let dir = Dir::parse("/d").unwrap();
    let mut names = HashSet::new();
    for text in texts {
        let key = Key::encode(&dir, text).unwrap();
        assert_eq!(key.parent(), dir, "{text:?} left its directory");
        assert!(names.insert(key.name().to_owned()), "{text:?} collides as {}", key.name());
    }
}

#[test]
fn segments_are_read_as_they_were_written_and_no_others() {
    for text in ["", "%", "a/b 100%", ".", "..", "é\u{1f512}", "%2F", "%zz", "a", "\n", "live/head"] {
        assert_eq!(decode_segment(&encode_segment(text)).as_deref(), Some(text), "{text:?}");
    }
    for foreign in ["100%", "%4", "%zz", "%41", "%2f", "%FF", "%é", "%+1"] {
        assert_eq!(decode_segment(foreign), None, "{foreign:?}");
    }
}

/// A key that a namespace shows shares the text of the store's.
#[test]
fn a_key_is_the_same_whether_parsed_or_seen_from_a_namespace() {
    let root = Dir::parse("/app").unwrap();
    let parsed = Key::parse("/locks/a").unwrap();
    let seen = root.strip_key(&Key::parse("/app/locks/a").unwrap()).unwrap();
    assert_eq!((seen.as_str(), seen.name(), seen.to_string().as_str()), ("/locks/a", "a", "/locks/a"));
    assert_eq!((&seen, seen.parent(), seen.as_dir()), (&parsed, parsed.parent(), parsed.as_dir()));
    assert!(std::collections::HashSet::from([parsed.clone()]).contains(&seen));
    assert!(seen < Key::parse("/locks/b").unwrap() && seen > Key::parse("/locks").unwrap());
    assert_eq!(root.join_key(&seen), root.join_key(&parsed));
    let deep = Dir::parse("/locks").unwrap();
    assert_eq!((deep.strip_key(&seen).unwrap().as_str(), deep.relative(&seen)), ("/a", Some("a")));
}
