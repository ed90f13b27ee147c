//! `coord config` on the memory store, within this process: output and exit codes.

use std::fs;

use clap::Parser;
use coord::config_centre::{ConfigCentre, Consumer, ConsumerOptions, Identity};
use coord::{Coord, SessionOptions};
use coord_cli::{Cli, run};
use serde_json::{Value, json};

/// Runs `coord config ARGS` on the named store; what it wrote, and its exit code.
async fn config(store: &str, args: &[&str]) -> (String, u8) {
    let url = format!("--url=memory:{store}");
    let cli = Cli::try_parse_from([&["coord", &url, "config"], args].concat());
    let mut out = Vec::new();
    let code = run(cli.unwrap_or_else(|error| panic!("{error}")), &mut out).await;
    (String::from_utf8(out).expect("text"), code)
}

/// The same as JSON, with the exit code that is expected.
async fn document(store: &str, args: &[&str], expected: u8) -> Value {
    let (text, code) = config(store, &[args, &["-o", "json"]].concat()).await;
    assert_eq!(code, expected, "{args:?}: {text}");
    if text.is_empty() { Value::Null } else { serde_json::from_str(&text).expect("JSON") }
}

/// A store of this name that lives as long as the handle.
async fn open(store: &str) -> Coord {
    coord::connect(&format!("memory:{store}")).await.expect("memory")
}

#[tokio::test]
async fn items_are_set_read_and_rolled_back() {
    let _store = open("c-items").await;
    assert_eq!(config("c-items", &["get", "billing"]).await, (String::new(), 1));
    let set = ["set", "billing", "rate=100", "zone=", "--by", "ann", "--note", "the first"];
    let first = document("c-items", &set, 0).await;
    assert_eq!((&first["changed"], &first["generation"]), (&json!(true), &json!(1)));
    assert_eq!(document("c-items", &set, 0).await["changed"], json!(false));
    assert_eq!(config("c-items", &["get", "billing", "rate", "-o", "plain"]).await, ("100".to_owned(), 0));
    assert_eq!(config("c-items", &["get", "billing", "zone", "-o", "plain"]).await, (String::new(), 0));
    assert_eq!(config("c-items", &["get", "billing", "none"]).await.1, 1);
    assert_eq!(config("c-items", &["get", "billing", "-o", "plain"]).await.0, "rate=100\nzone=\n");
    let change = ["set", "billing", "rate=200", "--remove", "zone", "--by", "ben"];
    assert_eq!(document("c-items", &change, 0).await["release"], json!(2));
    assert_eq!(config("c-items", &["set", "billing", "--remove", "zone"]).await.1, 1);

    let diff = document("c-items", &["diff", "billing", "1"], 1).await;
    let expected = json!([
        { "item": "rate", "before": "100", "after": "200" },
        { "item": "zone", "before": "", "after": null },
    ]);
    assert_eq!(diff, expected);
    assert_eq!(config("c-items", &["diff", "billing", "2"]).await.1, 0);
    assert_eq!(config("c-items", &["diff", "billing", "7"]).await.1, 1, "there is no such release");

    let back = document("c-items", &["rollback", "billing", "1", "--by", "eve"], 0).await;
    assert_eq!((&back["generation"], &back["release"]), (&json!(3), &json!(1)));
    let history = document("c-items", &["history", "billing"], 0).await;
    let told: Vec<_> =
        history.as_array().expect("entries").iter().map(|one| (&one["op"], &one["by"])).collect();
    let expected =
        [("rollback", "eve"), ("publish", "ben"), ("publish", "ann")].map(|(op, by)| (json!(op), json!(by)));
    assert_eq!(told, expected.iter().map(|(op, by)| (op, by)).collect::<Vec<_>>());
    assert_eq!((&history[0]["from"], &history[0]["to"]), (&json!(2), &json!(1)));
    assert_eq!(document("c-items", &["ls"], 0).await, json!([{ "namespace": "billing" }]));
    assert_eq!(document("c-items", &["verify", "billing"], 0).await[0]["entries"], json!(3));
}

#[tokio::test]
async fn an_expectation_that_does_not_hold_is_a_conflict() {
    let _store = open("c-expect").await;
    assert_eq!(config("c-expect", &["set", "billing", "a=1", "--expect", "0"]).await.1, 0);
    assert_eq!(config("c-expect", &["set", "billing", "a=2", "--expect", "0"]).await.1, 3);
    assert_eq!(config("c-expect", &["set", "billing", "a=2", "--expect", "7"]).await.1, 3);
    assert_eq!(config("c-expect", &["rollback", "billing", "1", "--expect", "7"]).await.1, 3);
    assert_eq!(config("c-expect", &["get", "billing", "a"]).await.0, "1");
}

#[tokio::test]
async fn secrets_are_masked_unless_they_are_asked_for() {
    let store = open("c-secrets").await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("routes.yaml");
    fs::write(&file, "db:\n  host: h\n  password: hunter2 # kept\n").expect("written");
    config("c-secrets", &["set", "billing", "db.password=hunter2", "url=x://u:hunter2@h", "host=h"]).await;
    config("c-secrets", &["set", "billing", "db.password=hunter22"]).await;
    config("c-secrets", &["publish", "routes", file.to_str().expect("text")]).await;
    config("c-secrets", &["gray", "set", "billing", "half", "--percent", "50", "--set", "token=hunter2"])
        .await;
    for args in [
        &["get", "billing"][..],
        &["get", "billing", "db.password"],
        &["get", "billing", "--as", "i-1"],
        &["get", "routes"],
        &["diff", "billing", "1"],
        &["history", "billing"],
        &["gray", "ls", "billing"],
        &["instances", "billing"],
    ] {
        for format in ["json", "jsonl", "table", "plain"] {
            let (shown, _) = config("c-secrets", &[args, &["-o", format]].concat()).await;
            assert!(!shown.contains("hunter2"), "{args:?} {format}: {shown}");
        }
    }
    let shown = config("c-secrets", &["get", "billing", "db.password", "--show-secrets"]).await;
    assert_eq!(shown, ("hunter22".to_owned(), 0));
    let (whole, _) = config("c-secrets", &["get", "routes", "--show-secrets", "-o", "plain"]).await;
    assert_eq!(whole, "db:\n  host: h\n  password: hunter2 # kept\n", "byte for byte");
    drop(store);
}

#[tokio::test]
async fn values_are_encrypted_with_a_key_and_opened_with_it_only() {
    let store = open("c-keys").await;
    let folder = tempfile::tempdir().expect("a folder");
    let key = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::write(&file, text).expect("written");
        file.to_str().expect("text").to_owned()
    };
    let (right, wrong) = (key("right", &format!("{}\n", "r".repeat(32))), key("wrong", &"w".repeat(32)));
    let set = ["set", "billing", "db.password=hunter2", "host=h", "--key-file", &right];
    assert_eq!(config("c-keys", &set).await.1, 0);
    let stored = store.get(format!("/config/billing/rel/{:020}", 1)).await.unwrap().expect("published").value;
    let stored = String::from_utf8_lossy(&stored).into_owned();
    assert!(!stored.contains("hunter2") && stored.contains("coord-sealed:1:1:"), "{stored}");
    let get = ["get", "billing", "db.password", "--show-secrets", "--key-file"];
    assert_eq!(config("c-keys", &[&get[..], &[&right]].concat()).await, ("hunter2".to_owned(), 0));
    assert_eq!(config("c-keys", &[&get[..], &[&wrong]].concat()).await, (String::new(), 125));
    let (text, code) = config("c-keys", &["get", "billing", "--key-file", &key("short", "x")]).await;
    assert_eq!((text.as_str(), code), ("", 125));
}

#[tokio::test]
async fn gray_rules_are_set_previewed_promoted_and_abandoned() {
    let store = open("c-gray").await;
    config("c-gray", &["set", "billing", "rate=100", "limit=5"]).await;
    let billing = ConfigCentre::new(&store, "/config").unwrap().namespace("billing").unwrap();
    let keeper = coord::SessionKeeper::new(&store, SessionOptions::default());
    let mut consumers = Vec::new();
    for (id, zone) in [("i-1", "a"), ("i-2", "b")] {
        let options = ConsumerOptions::new(Identity::new(id).with_label("zone", zone)).with_report(&keeper);
        let consumer = Consumer::open(&billing, options).unwrap();
        consumer.ready().await.unwrap();
        consumers.push(consumer);
    }
    while billing.instances().await.unwrap().reports.iter().filter(|one| one.generation.is_some()).count() < 2
    {
        tokio::task::yield_now().await;
    }
    let set =
        ["gray", "set", "billing", "canary", "--label", "zone=a", "--set", "rate=200", "--remove", "limit"];
    assert_eq!(document("c-gray", &set, 0).await["generation"], json!(2));
    let rules = document("c-gray", &["gray", "ls", "billing"], 0).await;
    assert_eq!((&rules[0]["matches"], &rules[0]["of"]), (&json!(1), &json!(2)), "{rules}");
    assert_eq!(rules[0]["gives"], json!({ "set": { "rate": "200" }, "remove": ["limit"] }));
    let view = ["get", "billing", "rate", "-o", "plain", "--as", "me", "--label"];
    assert_eq!(config("c-gray", &[&view[..], &["zone=a"]].concat()).await.0, "200");
    assert_eq!(config("c-gray", &[&view[..], &["zone=b"]].concat()).await.0, "100");

    let instances = document("c-gray", &["instances", "billing"], 0).await;
    assert_eq!((&instances[0]["id"], &instances[0]["labels"]), (&json!("i-1"), &json!({ "zone": "a" })));
    assert!(instances[0]["age_seconds"].is_u64());
    let widened = ["gray", "set", "billing", "canary", "--percent", "100"];
    assert_eq!(document("c-gray", &widened, 0).await["generation"], json!(3));
    assert_eq!(config("c-gray", &[&view[..], &["zone=b"]].concat()).await.0, "200");
    assert_eq!(document("c-gray", &["gray", "promote", "billing", "canary"], 0).await["release"], json!(2));
    assert_eq!(config("c-gray", &["get", "billing", "-o", "plain"]).await.0, "rate=200\n");
    assert_eq!(config("c-gray", &["gray", "abandon", "billing", "canary"]).await.1, 1, "it is gone");
}

#[tokio::test]
async fn namespaces_go_out_and_come_in() {
    let _store = open("c-files").await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    config("c-files", &["set", "billing", "rate=100"]).await;
    config("c-files", &["set", "routes", "a=b"]).await;
    let (archive, dir) = (path("all.tar"), path("dir"));
    assert_eq!(config("c-files", &["export", &archive]).await.1, 0);
    assert_eq!(config("c-files", &["export", &archive]).await.1, 125, "it is there already");
    assert_eq!(config("c-files", &["export", &dir, "billing"]).await.1, 0);
    assert_eq!(
        fs::read_to_string(path("dir/billing/items.json")).expect("there"),
        "{\n  \"rate\": \"100\"\n}\n"
    );
    assert_eq!(config("c-files", &["export", &path("x"), "none"]).await.1, 1);

    let import = ["--root", "/other", "import", &archive, "--dry-run"];
    let told = document("c-files", &import, 0).await;
    assert_eq!((&told[1]["namespace"], &told[1]["outcome"]), (&json!("routes"), &json!("created")));
    assert_eq!(document("c-files", &["--root", "/other", "ls"], 0).await, json!([]));
    document("c-files", &["--root", "/other", "import", &archive], 0).await;
    fs::write(path("dir/billing/items.json"), "{\"rate\": \"7\"}").expect("written");
    assert_eq!(config("c-files", &["--root", "/other", "import", &dir]).await.1, 3);
    let overwrite = ["--root", "/other", "import", &dir, "--on-conflict", "overwrite"];
    assert_eq!(document("c-files", &overwrite, 0).await[0]["outcome"], json!("overwritten"));
    assert_eq!(
        config("c-files", &["--root", "/other", "get", "billing", "rate", "-o", "plain"]).await.0,
        "7"
    );
    fs::write(path("bad.tar"), "no archive").expect("written");
    assert_eq!(config("c-files", &["import", &path("bad.tar")]).await.1, 125);
}

#[tokio::test]
async fn documents_are_published_by_the_name_of_their_file() {
    let _store = open("c-documents").await;
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).expect("written");
        folder.path().join(name).to_str().expect("text").to_owned()
    };
    for (name, text) in [("a.json", "{}"), ("a.yml", "a: 1\n"), ("a.toml", "a = 1"), ("a.txt", "any [")] {
        assert_eq!(config("c-documents", &["publish", "doc", &write(name, text)]).await.1, 0, "{name}");
        assert_eq!(config("c-documents", &["get", "doc", "-o", "plain"]).await.0, text);
    }
    let items = write("items", "{\"rate\": \"1\"}");
    assert_eq!(config("c-documents", &["publish", "doc", &items]).await.1, 125, "what is it?");
    assert_eq!(config("c-documents", &["publish", "doc", &items, "--format", "items"]).await.1, 0);
    assert_eq!(config("c-documents", &["get", "doc", "rate"]).await.0, "1");
    assert_eq!(config("c-documents", &["publish", "doc", &write("bad.json", "{")]).await.1, 125);
    assert_eq!(
        config("c-documents", &["publish", "doc", &write("none", ""), "--format", "items"]).await.1,
        125
    );
    assert_eq!(document("c-documents", &["history", "doc"], 0).await.as_array().map(Vec::len), Some(5));
}

#[tokio::test]
async fn what_somebody_changed_by_hand_is_found() {
    let store = open("c-verify").await;
    config("c-verify", &["set", "billing", "rate=100"]).await;
    config("c-verify", &["set", "billing", "rate=200"]).await;
    let key = format!("/config/billing/rel/{:020}", 1);
    store.put(key.as_str(), "{}").await.unwrap();
    let audit = document("c-verify", &["verify", "billing"], 1).await;
    assert_eq!(audit[0]["key"], json!(key));
    assert!(audit[0]["broken"].is_string());
}
