//! Servers that are set up in other ways, and data that others wrote.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod common;

use std::{
    io::Write,
    sync::{Arc, Mutex},
    time::Duration,
};

use common::*;
use coord_api::{
    Backend, ErrorKind, Lifetime, Nonce, OrderedCreate, Outcome, Retry, SessionState, Start, Tag, Txn,
    WatchEvent,
};
use coord_testbed::ServerOptions;
use futures::StreamExt;
use redis::Value;
use tracing_subscriber::fmt::MakeWriter;

const SOON: Duration = Duration::from_secs(10);

fn place(nonce: u128) -> OrderedCreate {
    let (tag, nonce) = (Tag::new("lock-").unwrap(), Nonce::new(nonce));
    OrderedCreate { dir: dir("/line"), tag, nonce, value: "".into(), lifetime: Lifetime::Session }
}

async fn put(
    backend: &Arc<dyn Backend>,
    path: &str,
    value: impl Into<bytes::Bytes>,
) -> coord_api::Result<()> {
    backend.commit(&ctx(), Txn::new().put(key(path), value)).await.map(drop)
}

on_all! {
async fn a_server_that_evicts_is_refused(which: Which) {
    for policy in ["allkeys-lru", "volatile-ttl"] {
        let server = start(which, ServerOptions::new().extra("maxmemory-policy", policy)).await;
        let e = connect(&server.url()).await.unwrap_err();
        assert_eq!((e.kind(), e.retry()), (ErrorKind::Config, Retry::Never), "{e}");
        assert!(e.to_string().contains("noeviction") && e.to_string().contains(policy), "{e}");
    }
}
}

on_all! {
async fn out_of_memory_refuses_new_data_and_keeps_sessions_and_deletions(which: Which) {
    let server = plain(which).await;
    let backend = open(&server).await;
    let (session, mine) = session(&backend, 1_000).await;
    let place = backend.create_ordered(&mine, place(1)).await.unwrap();
    put(&backend, "/a", "1").await.unwrap();
    let mut conn = raw(&server).await;
    tell(&mut conn, &["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();
    let e = put(&backend, "/b", "1").await.unwrap_err();
    assert_eq!((e.kind(), e.outcome()), (ErrorKind::Unavailable, Outcome::NotApplied), "{e}");
    assert!(e.to_string().contains("out of memory"), "{e}");
    let e = backend.open_session(&coord_api::SessionOptions::default()).await.unwrap_err();
    assert!(e.to_string().contains("out of memory"), "{e}");
    // Three times the ttl.
    let until = tokio::time::Instant::now() + Duration::from_secs(3);
    while tokio::time::Instant::now() < until {
        assert!(backend.get(&ctx(), &place.key).await.unwrap().is_some());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(*session.state().borrow(), SessionState::Live);
    let delete = backend.commit(&ctx(), Txn::new().delete(key("/a"))).await.unwrap();
    assert!(delete.is_committed());
    session.close().await.unwrap();
    assert_eq!(backend.get(&ctx(), &place.key).await.unwrap(), None);
    tell(&mut conn, &["CONFIG", "SET", "maxmemory", "0"]).await.unwrap();
    put(&backend, "/b", "1").await.unwrap();
}
}

/// What `docs/backends/redis.md` tells administrators to set.
const ACL: &str = "~{test}:* resetchannels -@all +info +evalsha +script|load +xread +wait +time +type \
    +hget +hmget +hset +hdel +zadd +zrem +zscore +zcard +zrange +zrangebyscore +zrangebylex +zremrangebylex \
    +xadd +xrange +xlen +xtrim";

on_all! {
async fn the_smallest_acl_is_enough_and_the_page_shows_it(which: Which) {
    let page = include_str!("../../docs/backends/redis.md");
    assert!(page.split_whitespace().collect::<Vec<_>>().join(" ").contains(&ACL.split_whitespace().collect::<Vec<_>>().join(" ")));
    let server = plain(which).await;
    let mut conn = raw(&server).await;
    let mut command = redis::cmd("ACL");
    command.arg("SETUSER").arg("app").arg("on").arg(">s3cret");
    ACL.split_whitespace().for_each(|rule| _ = command.arg(rule));
    command.query_async::<()>(&mut conn).await.unwrap();
    let backend = connect(&format!("redis://app:s3cret@{}/test?log_max=1&replicas=0", server.addr())).await.unwrap();
    let mut watch = backend.watch(&ctx(), &dir("/"), Start::Snapshot).await.unwrap();
    within("a snapshot", SOON, watch.next()).await.unwrap().unwrap();
    let (session, mine) = session(&backend, 1_000).await;
    let place = backend.create_ordered(&mine, place(1)).await.unwrap();
    // Large enough for the log to look at its size.
    put(&backend, "/a/b", vec![b'x'; 20_000]).await.unwrap();
    backend.list(&ctx(), &dir("/a")).await.unwrap();
    within("the change", SOON, async { while !matches!(watch.next().await, Some(Ok(WatchEvent::Put(_)))) {} }).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(*session.state().borrow(), SessionState::Live);
    session.close().await.unwrap();
    assert_eq!(backend.get(&ctx(), &place.key).await.unwrap(), None);
    // A command less, another namespace.
    let e = connect(&format!("redis://app:s3cret@{}/other", server.addr())).await.unwrap_err();
    assert_eq!((e.kind(), e.retry()), (ErrorKind::PermissionDenied, Retry::Never), "{e}");
    tell(&mut conn, &["ACL", "SETUSER", "app", "-xadd"]).await.unwrap();
    let e = put(&backend, "/a/c", "1").await.unwrap_err();
    assert_eq!((e.kind(), e.outcome()), (ErrorKind::PermissionDenied, Outcome::NotApplied), "{e}");
}
}

/// Everything that was logged, at the finest level.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<u8>>>);

impl Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for Logged {
    type Writer = Self;
    fn make_writer(&'w self) -> Self {
        self.clone()
    }
}

/// One test for all that has to do with secrets: the log of a process can be captured once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_password_and_no_value_gets_into_an_error_or_a_log() {
    let logged = Logged::default();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(logged.clone());
    subscriber.init();
    for which in [Which::Redis8, Which::Redis7, Which::Valkey8] {
        let mut server = start(which, ServerOptions::new().auth("alice", "c4nary-right")).await;
        let at = server.addr();
        for (user, kind) in [
            ("alice:c4nary-wrong@", ErrorKind::Unauthenticated),
            ("mallory:c4nary-wrong@", ErrorKind::Unauthenticated),
            (":c4nary-wrong@", ErrorKind::Unauthenticated),
            ("", ErrorKind::Unauthenticated),
        ] {
            let e = connect(&format!("redis://{user}{at}/test")).await.unwrap_err();
            assert_eq!((e.kind(), e.retry()), (kind, Retry::Never), "{which:?} {user}: {e}");
            assert!(!format!("{e} {e:?}").contains("c4nary"), "{e}");
        }
        let backend = connect(&format!("redis://alice:c4nary-right@{at}/test")).await.unwrap();
        assert!(!format!("{backend:?}").contains("c4nary"), "{backend:?}");
        put(&backend, "/a", "c4nary-value").await.unwrap();
        let mut watch = backend.watch(&ctx(), &dir("/"), Start::Snapshot).await.unwrap();
        within("a snapshot", SOON, watch.next()).await.unwrap().unwrap();
        server.restart().await.unwrap();
        until("it works again", SOON, || async { put(&backend, "/a", "c4nary-value").await.ok() }).await;
        let large = Txn::new().create(key("/a"), "c4nary-value", Lifetime::Session);
        let e = backend.commit(&ctx(), large).await.unwrap_err();
        assert!(!format!("{e} {e:?}").contains("c4nary"), "{e}");
        backend.close().await.unwrap();
    }
    let text = String::from_utf8_lossy(&logged.0.lock().unwrap()).into_owned();
    assert!(text.contains("connected again"), "nothing was logged: no test");
    let line = text.lines().find(|line| line.contains("c4nary"));
    assert_eq!(line, None);
}

on_all! {
async fn records_that_others_broke_are_named_and_stop_nothing(which: Which) {
    let server = plain(which).await;
    let backend = open(&server).await;
    let mut conn = raw(&server).await;
    put(&backend, "/d/good", "1").await.unwrap();
    put(&backend, "/d/bad", "1").await.unwrap();
    for garbage in [&b""[..], b"x", b"\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\xff", b"\x02 a format of the future ......"] {
        let mut break_it = redis::cmd("HSET");
        break_it.arg("{test}:kv").arg("/d/bad").arg(garbage).query_async::<()>(&mut conn).await.unwrap();
        let e = backend.get(&ctx(), &key("/d/bad")).await.unwrap_err();
        assert!(e.kind() == ErrorKind::Malformed && e.to_string().contains("/d/bad"), "{e}");
        let e = put(&backend, "/d/bad", "2").await.unwrap_err();
        assert!(e.kind() == ErrorKind::Malformed && e.to_string().contains("key=/d/bad"), "{e}");
        assert_eq!(backend.list(&ctx(), &dir("/d")).await.unwrap().children.len(), 2);
    }
    let mut watch = backend.watch(&ctx(), &dir("/d"), Start::Snapshot).await.unwrap();
    match within("a snapshot", SOON, watch.next()).await.unwrap().unwrap() {
        WatchEvent::Snapshot { entries, .. } => assert_eq!(entries.len(), 1),
        event => panic!("{event:?}"),
    }
    // An index that names a key of another form, and one that is not even text.
    let mut index = redis::cmd("ZADD");
    index.arg("{test}:ix").arg(0).arg(&b"/d/\xff"[..]).arg(0).arg("/d//x").arg(0).arg("no slash");
    index.query_async::<()>(&mut conn).await.unwrap();
    assert!(backend.list(&ctx(), &dir("/d")).await.unwrap().children.len() >= 2);
    assert!(backend.list(&ctx(), &dir("/")).await.is_ok());
    // An entry of the log that says nonsense.
    let mut nonsense = redis::cmd("XADD");
    let rev: String = redis::cmd("HGET").arg("{test}:m").arg("rev").query_async(&mut conn).await.unwrap();
    nonsense.arg("{test}:ev").arg(format!("{rev}-1")).arg(&b"p"[..]).arg(&b"\xff"[..]).arg("o").arg("xx");
    nonsense.query_async::<()>(&mut conn).await.unwrap();
    assert!(backend.commit(&ctx(), Txn::new().delete(key("/d/bad"))).await.unwrap().is_committed());
    put(&backend, "/d/after", "1").await.unwrap();
    within("the watch goes on", SOON, async {
        loop {
            match watch.next().await.unwrap().unwrap() {
                WatchEvent::Put(entry) if entry.key == key("/d/after") => break,
                WatchEvent::Snapshot { entries, .. } if entries.iter().any(|e| e.key == key("/d/after")) => break,
                _ => {}
            }
        }
    })
    .await;
}
}

on_all! {
async fn keys_of_another_type_are_named_and_nothing_is_half_written(which: Which) {
    for (name, kind) in [("m", "string"), ("kv", "string"), ("ix", "hash"), ("ss", "hash"), ("ow", "hash"), ("ev", "list")] {
        let server = plain(which).await;
        let backend = open(&server).await;
        let (_session, mine) = session(&backend, 60_000).await;
        let mut conn = raw(&server).await;
        let full = format!("{{test}}:{name}");
        tell(&mut conn, &["DEL", &full]).await.unwrap();
        match kind {
            "string" => tell(&mut conn, &["SET", &full, "x"]).await.unwrap(),
            "hash" => tell(&mut conn, &["HSET", &full, "x", "y"]).await.unwrap(),
            _ => tell(&mut conn, &["RPUSH", &full, "x"]).await.unwrap(),
        };
        let before = tell(&mut conn, &["HGETALL", "{test}:kv"]).await;
        let e = backend.commit(&mine, Txn::new().create(key("/a"), "1", Lifetime::Session)).await.unwrap_err();
        assert!(e.kind() == ErrorKind::Malformed && e.to_string().contains(&full), "{name}: {e}");
        let e = backend.create_ordered(&mine, place(1)).await.unwrap_err();
        assert!(e.kind() == ErrorKind::Malformed && e.to_string().contains(&full), "{name}: {e}");
        // A put touches four of them.
        if ["m", "kv", "ix", "ev"].contains(&name) {
            let e = put(&backend, "/p", "1").await.unwrap_err();
            assert!(e.kind() == ErrorKind::Malformed && e.to_string().contains(&full), "{name}: {e}");
        }
        if name == "kv" {
            let e = backend.get(&ctx(), &key("/a")).await.unwrap_err();
            assert!(e.kind() == ErrorKind::Malformed && e.to_string().contains(&full), "{name}: {e}");
        }
        assert_eq!(tell(&mut conn, &["HGETALL", "{test}:kv"]).await, before, "{name}");
    }
}
}

on_all! {
async fn a_namespace_of_a_newer_version_is_refused_and_left_alone(which: Which) {
    let server = plain(which).await;
    let mut conn = raw(&server).await;
    tell(&mut conn, &["HSET", "{test}:m", "schema", "2", "rev", "5"]).await.unwrap();
    let e = connect(&format!("{}/test", server.url())).await.unwrap_err();
    assert_eq!((e.kind(), e.retry()), (ErrorKind::Config, Retry::Never), "{e}");
    assert!(e.to_string().contains("schema=2") && e.to_string().contains("newer"), "{e}");
    let keys = tell(&mut conn, &["KEYS", "*"]).await.unwrap();
    assert!(matches!(keys, Value::Array(keys) if keys.len() == 1));
    // Others are not concerned.
    connect(&format!("{}/other", server.url())).await.unwrap();
}
}

on_all! {
async fn a_hundred_handles_leave_nothing_behind(which: Which) {
    let server = plain(which).await;
    let mut conn = raw(&server).await;
    let clients = async |conn: &mut redis::aio::MultiplexedConnection| match tell(conn, &["CLIENT", "LIST"]).await.unwrap() {
        Value::BulkString(list) => String::from_utf8(list).unwrap().lines().count(),
        Value::VerbatimString { text, .. } => text.lines().count(),
        other => panic!("{other:?}"),
    };
    let before = clients(&mut conn).await;
    for i in 0..100 {
        let backend = open(&server).await;
        let (session, mine) = session(&backend, 30_000).await;
        backend.create_ordered(&mine, place(1)).await.unwrap();
        let mut watch = backend.watch(&ctx(), &dir("/w"), Start::Snapshot).await.unwrap();
        within("a snapshot", SOON, watch.next()).await.unwrap().unwrap();
        // Every second one is only dropped.
        if i % 2 == 0 {
            backend.close().await.unwrap();
        }
        drop((watch, session, backend));
    }
    until("only the first connection is left", SOON, || {
        let mut conn = conn.clone();
        async move { (clients(&mut conn).await == before).then_some(()) }
    })
    .await;
    for (what, command) in [("sessions", ["ZCARD", "{test}:ss"]), ("owned keys", ["ZCARD", "{test}:ow"]), ("keys", ["HLEN", "{test}:kv"])] {
        assert_eq!(tell(&mut conn, &command).await.unwrap(), Value::Int(0), "{what}");
    }
}
}

on_all! {
async fn only_the_bytes_of_large_values_bound_the_log_too(which: Which) {
    let server = plain(which).await;
    let backend = open(&server).await;
    let value = bytes::Bytes::from(vec![7_u8; 1_000_000]);
    for i in 0..100 {
        put(&backend, &format!("/large/{}", i % 3), value.clone()).await.unwrap();
    }
    let mut conn = raw(&server).await;
    let length: i64 = redis::cmd("XLEN").arg("{test}:ev").query_async(&mut conn).await.unwrap();
    assert!((20..=75).contains(&length), "{length} entries of a megabyte");
    assert_eq!(backend.get(&ctx(), &key("/large/2")).await.unwrap().unwrap().value, value);
}
}

on_all! {
async fn a_jump_of_the_servers_clock_does_not_end_sessions(which: Which) {
    let server = plain(which).await;
    let backend = open(&server).await;
    let (session, mine) = session(&backend, 3_000).await;
    let place = backend.create_ordered(&mine, place(1)).await.unwrap();
    let mut conn = raw(&server).await;
    // As if the clock had been 60 s behind until now.
    for (key, field) in [("{test}:m", "tick")] {
        tell(&mut conn, &["HINCRBY", key, field, "-60000"]).await.unwrap();
    }
    tell(&mut conn, &["ZINCRBY", "{test}:ss", "-60000", session.id().as_str()]).await.unwrap();
    assert!(backend.commit(&mine, Txn::new().update(place.key.clone(), "mine")).await.unwrap().is_committed());
    // And a backward jump does not make them immortal.
    tell(&mut conn, &["HINCRBY", "{test}:m", "tick", "600000"]).await.unwrap();
    tell(&mut conn, &["ZINCRBY", "{test}:ss", "600000", session.id().as_str()]).await.unwrap();
    // What judges a deadline looks at the clock first; a put judges none.
    assert!(backend.commit(&mine, Txn::new().update(place.key.clone(), "still")).await.unwrap().is_committed());
    let score: f64 = redis::cmd("ZSCORE").arg("{test}:ss").arg(session.id().as_str()).query_async(&mut conn).await.unwrap();
    let now: (f64, f64) = redis::cmd("TIME").query_async(&mut conn).await.unwrap();
    assert!(score <= now.0 * 1000.0 + 5_000.0, "{score} {now:?}");
    assert_eq!(*session.state().borrow(), SessionState::Live);
}
}

#[tokio::test]
async fn servers_that_are_not_there_are_unavailable() {
    let e = connect("redis://127.0.0.1:1/test").await.unwrap_err();
    assert_eq!((e.kind(), e.retry()), (ErrorKind::Unavailable, Retry::Safe), "{e}");
    assert!(e.to_string().contains("host=127.0.0.1:1"), "{e}");
    // The first that can be used is.
    let server = plain(Which::Redis8).await;
    let backend = connect(&format!("redis://127.0.0.1:1,{}/test", server.addr())).await.unwrap();
    put(&backend, "/a", "1").await.unwrap();
}
