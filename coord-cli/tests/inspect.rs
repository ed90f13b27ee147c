//! Transactions, explanations, sessions and copies on the memory store, within this process.

use std::time::Duration;

use clap::Parser;
use coord::api::{Nonce, OrderedCreate, Tag};
use coord::{
    Candidate, Coord, Dir, Lifetime, Lock, RwLock, Semaphore, Session, SessionKeeper, SessionOptions,
};
use coord_cli::{Cli, run};
use serde_json::{Value, json};

const TTL: Duration = Duration::from_secs(30);
const DEADLINE: Duration = Duration::from_secs(30);

/// Runs `coord ARGS` on the named store; what it wrote, and its exit code.
async fn coord(store: &str, args: &[&str]) -> (String, u8) {
    let url = format!("--url=memory:{store}");
    let cli = Cli::try_parse_from([&["coord", &url], args].concat()).expect("arguments");
    let mut out = Vec::new();
    let code = run(cli, &mut out).await;
    (String::from_utf8(out).expect("text"), code)
}

async fn document(store: &str, args: &[&str]) -> (Value, u8) {
    let (text, code) = coord(store, &[args, &["-o", "json"]].concat()).await;
    (serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")), code)
}

/// A store of this name that lives as long as the handle.
async fn open(store: &str) -> Coord {
    coord::connect(&format!("memory:{store}")).await.expect("memory")
}

async fn session(store: &Coord) -> Session {
    store.session(TTL).await.expect("a session")
}

/// Waits until so many names are in the directory.
async fn names(store: &Coord, dir: &str, count: usize) {
    let deadline = tokio::time::Instant::now() + DEADLINE;
    while store.list(dir).await.expect("listed").children.len() != count {
        assert!(tokio::time::Instant::now() < deadline, "never {count} names in {dir}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_transaction_is_applied_whole_or_says_what_failed() {
    let store = open("txn").await;
    let args = ["txn", "absent /frozen", "create /running v42", "put /last two words"];
    let (told, code) = document("txn", &args).await;
    assert_eq!((code, &told["committed"]), (0, &json!(true)));
    assert_eq!(told["written"][1]["key"], json!("/last"));
    assert_eq!(store.get("/last").await.unwrap().unwrap().value, "two words");

    let (told, code) =
        document("txn", &["txn", "put /last v43", "absent /frozen", "create /running v43"]).await;
    let failed = json!({ "statement": 3, "what": "create", "key": "/running" });
    assert_eq!((code, &told["committed"], &told["failed"]), (3, &json!(false), &failed));
    assert_eq!(store.get("/last").await.unwrap().unwrap().value, "two words", "nothing was written");

    let version = store.get("/last").await.unwrap().unwrap().meta.version;
    let (check, stale) = (format!("version /last {version}"), format!("version /last {}", version.get() + 1));
    let (told, code) = document("txn", &["txn", "exists /running", &stale, "delete /last"]).await;
    assert_eq!((code, &told["failed"]["statement"]), (3, &json!(2)));
    let (text, code) = coord("txn", &["txn", &check, "delete /last", "-o", "plain"]).await;
    assert_eq!((text.as_str(), code), ("/last\tdeleted\n", 0));
    assert!(store.get("/last").await.unwrap().is_none());
}

#[tokio::test]
async fn a_transaction_that_is_none_is_a_wrong_argument() {
    let store = open("wrong").await;
    for args in [
        &["txn", "put /a 1", "remove /b"][..],
        &["txn", "put /a 1", "version /b"],
        &["txn", "put /a 1", "put /a 2"],
        &["txn", "put /a//b 1"],
        &["txn", ""],
    ] {
        assert_eq!(coord("wrong", args).await, (String::new(), 2), "{args:?}");
    }
    assert!(store.list("/").await.unwrap().children.is_empty());
}

#[tokio::test]
async fn explain_tells_who_has_a_lock_and_who_waits() {
    let store = open("lock").await;
    let (text, code) = coord("lock", &["explain", "/locks/orders", "-o", "table"]).await;
    assert_eq!((text.as_str(), code), ("/locks/orders: nobody holds it and nobody waits\n", 1));

    let (one, two) = (session(&store).await, session(&store).await);
    let guard = Lock::new(&one, "/locks/orders").unwrap().acquire().await.unwrap();
    let lock = Lock::new(&two, "/locks/orders").unwrap();
    let waiting = tokio::spawn(async move { lock.acquire().await });
    names(&store, "/locks/orders", 2).await;

    let (told, code) = document("lock", &["explain", "/locks/orders"]).await;
    assert_eq!((code, &told["kind"]), (0, &json!("lock")));
    let (holder, waiter) = (&told["holders"][0], &told["waiters"][0]);
    assert_eq!(holder["session"], json!(one.id().as_str()));
    assert_eq!(holder["token"], json!(guard.token().to_string()));
    assert_eq!(waiter["session"], json!(two.id().as_str()));
    assert_eq!(holder["asked_to_release"], json!(false));

    assert!(Lock::new(&two, "/locks/orders").unwrap().request_release().await.unwrap());
    let (text, _) = coord("lock", &["explain", "/locks/orders", "-o", "table"]).await;
    assert!(text.starts_with("/locks/orders: lock: held by 1, 1 waiting\nSTATE "), "{text}");
    assert!(text.lines().nth(2).is_some_and(|line| line.contains("asked to give it back")), "{text}");

    guard.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    let (told, _) = document("lock", &["explain", "/locks/orders"]).await;
    assert_eq!(told["holders"][0]["token"], json!(guard.token().to_string()));
    assert_eq!(told["waiters"], json!([]));
}

#[tokio::test]
async fn an_age_is_told_where_the_entry_tells_it() {
    let store = open("ages").await;
    let session = session(&store).await;
    let guard = Lock::new(&session, "/locks/old").unwrap().acquire().await.unwrap();
    // As programs name theirs that do not tell the time.
    let request = OrderedCreate {
        dir: Dir::parse("/locks/old").unwrap(),
        tag: Tag::new("lock-").unwrap(),
        nonce: Nonce::new(7),
        value: "10.0.0.7".into(),
        lifetime: Lifetime::Session,
    };
    session.coord().create_ordered(request).await.unwrap();
    let (told, _) = document("ages", &["explain", "/locks/old"]).await;
    let (holder, waiter) = (&told["holders"][0], &told["waiters"][0]);
    assert!(holder["joined"].is_string() && holder["age_seconds"].is_u64(), "{told}");
    assert_eq!((&waiter["joined"], &waiter["age_seconds"]), (&Value::Null, &Value::Null), "{told}");
    // The request to give it back takes the value of the entry, and not its age.
    Lock::new(&session, "/locks/old").unwrap().request_release().await.unwrap();
    let ages = async |command: &[&str]| {
        let (text, _) = coord("ages", &[command, &["-o", "table"]].concat()).await;
        let age = |line: &str| line.split("  ").filter(|cell| !cell.is_empty()).nth(1).map(str::to_owned);
        text.lines().skip(2).filter_map(age).collect::<Vec<_>>()
    };
    let told = ages(&["explain", "/locks/old"]).await;
    assert!(told[0].ends_with('s') && told[1] == "unknown", "{told:?}");
    drop(guard);
}

#[tokio::test]
async fn explain_knows_the_other_recipes() {
    let store = open("recipes").await;
    let one = session(&store).await;

    let uploads = Semaphore::open(&one, "/limits/uploads", 3).await.unwrap();
    let _held = uploads.acquire_many(2).await.unwrap();
    let more = tokio::spawn(async move { uploads.acquire_many(2).await });
    names(&store, "/limits/uploads", 2).await;
    let (told, code) = document("recipes", &["explain", "/limits/uploads"]).await;
    assert_eq!((code, &told["kind"], &told["permits"]), (0, &json!("semaphore"), &json!(3)));
    assert_eq!((&told["holders"][0]["wants"], &told["waiters"][0]["wants"]), (&json!("2"), &json!("2")));
    more.abort();

    let catalogue = RwLock::new(&one, "/locks/catalogue").unwrap();
    let _readers = (catalogue.read().await.unwrap(), catalogue.read().await.unwrap());
    let (told, _) = document("recipes", &["explain", "/locks/catalogue"]).await;
    assert_eq!((&told["kind"], &told["holders"][1]["wants"]), (&json!("read/write lock"), &json!("read")));

    let keeper = SessionKeeper::new(&store, SessionOptions::new(TTL));
    let candidate = Candidate::new(&keeper, "/elections/scheduler", "node-1").unwrap();
    let leadership = candidate.leadership().await.unwrap();
    let (told, _) = document("recipes", &["explain", "/elections/scheduler"]).await;
    assert_eq!((&told["kind"], &told["holders"][0]["value"]), (&json!("election"), &json!("node-1")));
    assert_eq!(told["holders"][0]["token"], json!(leadership.epoch().to_string()));

    store.put("/plain/key", "x").await.unwrap();
    let (told, code) = document("recipes", &["explain", "/plain"]).await;
    assert_eq!((code, &told["kind"], &told["beside"][0]["key"]), (1, &Value::Null, &json!("/plain/key")));
}

#[tokio::test]
async fn sessions_are_known_by_what_they_own() {
    let store = open("sessions").await;
    assert_eq!(coord("sessions", &["sessions", "-o", "plain"]).await, (String::new(), 1));
    let (one, two, idle) = (session(&store).await, session(&store).await, session(&store).await);
    store.put("/app/config", "x").await.unwrap();
    for (session, key) in [(&one, "/app/members/a"), (&one, "/other/deep/b"), (&two, "/app/members/c")] {
        session.coord().create(key, "", Lifetime::Session).await.unwrap();
    }
    let (told, code) = document("sessions", &["sessions"]).await;
    let owned = |session: &Session| {
        let sessions = told["sessions"].as_array().expect("a list");
        let keys = sessions.iter().find(|told| told["session"] == session.id().as_str());
        let key = |key: &Value| key["key"].as_str().expect("a key").to_owned();
        keys.map(|told| told["keys"].as_array().expect("a list").iter().map(key).collect::<Vec<_>>())
    };
    assert_eq!(code, 0);
    assert_eq!(owned(&one).as_deref(), Some(&["/app/members/a".to_owned(), "/other/deep/b".to_owned()][..]));
    assert_eq!(owned(&two).map(|keys| keys.len()), Some(1));
    assert_eq!(owned(&idle), None, "it owns nothing");
    let (text, _) = coord("sessions", &["sessions", "/other", "-o", "plain"]).await;
    assert_eq!(text, format!("{}\t/other/deep/b\n", one.id()));
}

#[tokio::test]
async fn a_copy_holds_what_the_source_holds() {
    let (from, to) = (open("from").await, open("to").await);
    for at in 0..250 {
        from.put(format!("/app/{}/{at}", at % 7), vec![0xff, u8::try_from(at).unwrap()]).await.unwrap();
    }
    // Larger than half of what a transaction may hold: pages end by bytes, too.
    for at in 0..3 {
        from.put(format!("/large/{at}"), vec![b'x'; 600_000]).await.unwrap();
    }
    let owner = session(&from).await;
    owner.coord().create("/app/members/me", "", Lifetime::Session).await.unwrap();
    let _guard = Lock::new(&owner, "/locks/l").unwrap().acquire().await.unwrap();

    let copy = ["copy", "memory:from", "memory:to"];
    let (told, code) = document("usual", &[&copy[..], &["--dry-run"]].concat()).await;
    assert_eq!((code, &told["keys"], &told["sha256"]), (0, &json!(253), &Value::Null));
    assert!(to.list("/").await.unwrap().children.is_empty(), "a dry run writes nothing");

    let (told, code) = document("usual", &copy).await;
    assert_eq!((code, &told["keys"], &told["bytes"]), (0, &json!(253), &json!(1_800_500)));
    assert_eq!(
        (told["differs"].as_array().map(Vec::len), told["left_out"].as_array().map(Vec::len)),
        (Some(0), Some(2))
    );
    assert_eq!(told["left_out"][0]["key"], json!("/app/members/me"));
    assert_eq!(to.get("/app/3/3").await.unwrap().unwrap().value, vec![0xff, 3]);
    assert!(to.get("/app/members/me").await.unwrap().is_none());

    let (text, code) = coord("usual", &copy).await;
    assert_eq!((text.as_str(), code), ("", 3), "there is something");
    from.put("/app/3/3", "new").await.unwrap();
    to.put("/more", "stays").await.unwrap();
    let (again, code) = document("usual", &[&copy[..], &["--overwrite"]].concat()).await;
    assert_eq!(code, 0);
    assert_ne!(told["sha256"], again["sha256"]);
    assert_eq!(to.get("/app/3/3").await.unwrap().unwrap().value, "new");
    assert_eq!(to.get("/more").await.unwrap().unwrap().value, "stays");
}

#[tokio::test]
async fn directories_of_one_store_are_copied_as_well() {
    let store = open("dirs").await;
    store.put("/app/a/b", "1").await.unwrap();
    let (told, code) = document("dirs", &["copy", "/app", "/copies/app"]).await;
    assert_eq!((code, &told["keys"]), (0, &json!(1)));
    assert_eq!(store.get("/copies/app/a/b").await.unwrap().unwrap().value, "1");
    // Into itself: what is written is not read again.
    let (told, code) = document("dirs", &["copy", "/", "/below"]).await;
    assert_eq!((code, &told["keys"]), (0, &json!(2)));
    for wrong in ["relative", "memry", "/a//b", "zk://h:0"] {
        let error = Cli::try_parse_from(["coord", "copy", "/app", wrong]).expect_err("refused");
        assert_eq!(error.exit_code(), 2, "{wrong}");
    }
    // No such scheme: told when it is opened.
    assert_eq!(coord("dirs", &["copy", "/app", "memry:x"]).await.1, 125);
}

#[tokio::test]
async fn bench_measures_and_leaves_nothing() {
    let store = open("bench").await;
    let (told, code) = document("bench", &["bench", "--count", "5"]).await;
    assert_eq!(code, 0);
    let times = told["times"].as_array().expect("a list");
    assert_eq!(times.len(), 4);
    for time in times {
        assert_eq!(time["count"], json!(5));
        let of = |name: &str| time[name].as_u64().expect("a number");
        assert!(of("min_us") <= of("p50_us") && of("p50_us") <= of("p99_us") && of("p99_us") <= of("max_us"));
    }
    assert!(store.list("/").await.unwrap().children.is_empty());
}

#[cfg(feature = "conformance")]
#[tokio::test]
async fn the_suite_runs_on_the_store_of_the_url() {
    let _store = open("suite").await;
    let args = ["conformance", "--filter", "kv::an_absent_key_is_none", "-o", "plain"];
    let (text, code) = coord("suite", &args).await;
    assert!(code == 0 && text.starts_with("## Stores") && text.contains("1 passed, 0 failed"), "{text}");
    assert_eq!(coord("suite?namespace=x", &args).await, (String::new(), 125));
}
