//! Commands on the memory store, within this process: their output to the letter.

use clap::Parser;
use coord::{Coord, Lifetime};
use coord_cli::{Cli, run};

/// Runs `coord ARGS` on the named store; what it wrote, and its exit code.
async fn coord(store: &str, args: &[&str]) -> (String, u8) {
    let url = format!("--url=memory:{store}");
    let cli = Cli::try_parse_from([&["coord", &url], args].concat()).expect("arguments");
    let mut out = Vec::new();
    let code = run(cli, &mut out).await;
    (String::from_utf8(out).expect("text"), code)
}

/// A store of this name that lives as long as the handle.
async fn open(store: &str) -> Coord {
    coord::connect(&format!("memory:{store}")).await.expect("memory")
}

#[tokio::test]
async fn values_are_text_when_they_are_utf8_and_base64_when_not() {
    let store = open("values").await;
    store.put("/text", "line\n\"quoted\" ü").await.unwrap();
    store.put("/bytes", vec![0xff, 0x00]).await.unwrap();
    let (text, code) = coord("values", &["get", "/text", "-o", "json"]).await;
    assert!(code == 0 && text.contains(r#""value": "line\n\"quoted\" ü""#), "{text}");
    let (text, _) = coord("values", &["get", "/bytes", "-o", "jsonl"]).await;
    assert!(text.contains(r#""value":{"base64":"/wA="}"#) && text.ends_with("}\n"), "{text}");
    assert_eq!(coord("values", &["get", "/text", "-o", "plain"]).await.0, "line\n\"quoted\" ü");
}

#[tokio::test]
async fn a_hostile_value_cannot_draw_on_the_terminal() {
    let store = open("hostile").await;
    store.put("/a", "\u{1b}[2Jgone\nKEY").await.unwrap();
    let (text, _) = coord("hostile", &["get", "/a", "-o", "table"]).await;
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.starts_with("KEY") && !text.contains('\u{1b}'), "{text}");
}

#[tokio::test]
async fn names_are_listed_in_each_format() {
    let store = open("names").await;
    store.put("/d/a", "").await.unwrap();
    store.put("/d/b/c", "").await.unwrap();
    assert_eq!(coord("names", &["ls", "/d", "-o", "plain"]).await, ("/d/a\n/d/b\n".to_owned(), 0));
    let (text, _) = coord("names", &["ls", "/d", "-o", "jsonl"]).await;
    assert_eq!(text.lines().next(), Some(r#"{"key":"/d/a","nonce":null,"tag":null}"#));
    let (text, _) = coord("names", &["ls", "/d", "-o", "table"]).await;
    assert_eq!(text, "KEY   PLACE IN LINE\n/d/a  -\n/d/b  -\n");
    assert_eq!(coord("names", &["ls", "/none", "-o", "plain"]).await, (String::new(), 0));
}

#[tokio::test]
async fn conditions_that_do_not_hold_are_conflicts() {
    let store = open("conditions").await;
    let (version, code) = coord("conditions", &["put", "/a", "1", "--create", "-o", "plain"]).await;
    assert_eq!(code, 0);
    assert_eq!(coord("conditions", &["put", "/a", "2", "--create"]).await.1, 3);
    let old = version.trim();
    assert_eq!(coord("conditions", &["put", "/a", "2", "--version", old]).await.1, 0);
    assert_eq!(coord("conditions", &["put", "/a", "3", "--version", old]).await.1, 3);
    assert_eq!(coord("conditions", &["put", "/none", "3", "--version", old]).await.1, 3);
    assert_eq!(coord("conditions", &["del", "/a", "--version", old]).await.1, 3);
    assert_eq!(store.get("/a").await.unwrap().unwrap().value, "2");
    assert_eq!(coord("conditions", &["del", "/a"]).await.1, 0);
    assert_eq!(coord("conditions", &["del", "/a"]).await.1, 1);
    assert_eq!(coord("conditions", &["get", "/a"]).await.1, 1);
}

#[tokio::test]
async fn an_owner_is_shown() {
    let store = open("owner").await;
    let session = store.session(std::time::Duration::from_secs(10)).await.unwrap();
    session.coord().create("/mine", "", Lifetime::Session).await.unwrap();
    let (text, _) = coord("owner", &["get", "/mine", "-o", "jsonl"]).await;
    assert!(text.contains(&format!(r#""owner":"{}""#, session.id())), "{text}");
}

#[tokio::test]
async fn bad_input_is_refused_before_anything_is_sent() {
    let store = open("bad").await;
    let long = "x".repeat(2000);
    for key in ["", "/", "/a/", "/a//b", "/a/../b", "/a\nb", "//", long.as_str()] {
        for args in [&["get", key][..], &["put", key, "1"], &["del", key], &["lock", key, "--", "true"]] {
            let error = Cli::try_parse_from([&["coord"], args].concat()).expect_err("refused");
            assert_eq!(error.exit_code(), 2, "{args:?}");
        }
    }
    for dir in ["/a/../b", "/a\nb", "//", long.as_str()] {
        for command in ["ls", "watch"] {
            let error = Cli::try_parse_from(["coord", command, dir]).expect_err("refused");
            assert_eq!(error.exit_code(), 2, "{command} {dir:?}");
        }
    }
    assert_eq!(coord("bad", &["put", "/a", &"x".repeat(1_000_001)]).await.1, 125);
    assert!(store.list("/").await.unwrap().children.is_empty());
    for args in [
        &["gte", "/a"][..],
        &["get"],
        &["get", "/a", "-o", "yaml"],
        &["put", "/a", "1", "--version", "x"],
        &["put", "/a", "1", "--version", "1", "--create"],
        &["lock", "/a"],
        &["lock", "/a", "--ttl", "15", "--", "true"],
        &["lock", "/a", "-E", "256", "--", "true"],
        &["--config", "x", "--url", "memory:", "ls"],
    ] {
        let error = Cli::try_parse_from([&["coord"], args].concat()).expect_err("refused");
        assert_eq!(error.exit_code(), 2, "{args:?}");
    }
}

#[tokio::test]
async fn doctor_knows_the_store_and_what_is_wrong() {
    let _store = open("doctor").await;
    let (text, code) = coord("doctor", &["doctor", "-o", "json"]).await;
    assert!(code == 0 && text.contains(r#""backend": "memory""#) && text.contains(r#""ok": true"#), "{text}");
    let (text, code) = coord("doctor", &["doctor", "-o", "table"]).await;
    assert!(code == 0 && text.contains("an acknowledged write survives: nothing, it is in memory"), "{text}");
    let warnings = text.lines().filter(|line| line.starts_with("warning")).count();
    let verdict =
        text.lines().last().and_then(|line| line.strip_prefix("verdict")).unwrap_or_default().trim();
    let expected = match warnings {
        0 => "ok".to_owned(),
        1 => "ok, with 1 warning".to_owned(),
        _ => format!("ok, with {warnings} warnings"),
    };
    assert_eq!(verdict, expected);
    let (text, code) = coord("doctor?nmespace=x", &["doctor", "-o", "table"]).await;
    assert!(code == 1 && text.contains("did you mean \"namespace\"?"), "{text}");
}
