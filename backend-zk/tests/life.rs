//! Opening, sessions, outages and the end, on real servers.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::{
    io::Write,
    sync::{Arc, Mutex},
    time::Duration,
};

use common::*;
use coord_api::{
    Error, ErrorKind, Freshness, Lifetime, Outcome, Retry, Seen, SessionOptions, SessionState, Start,
    WatchEvent,
};
use coord_testbed::{Cluster, Kind, Link, Provider};
use futures::StreamExt;
use tokio::{io::AsyncWriteExt, net::TcpListener, time::Instant};

#[tokio::test]
async fn trouble_at_opening_is_typed_and_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let chatty = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (silent_at, chatty_at) = (silent.local_addr().unwrap(), chatty.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = chatty.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    for (url, kind) in [
        ("zk://127.0.0.1:1/a".to_owned(), ErrorKind::Unavailable),
        ("zk://no-such-host.invalid:2181".to_owned(), ErrorKind::Unavailable),
        (format!("zk://{silent_at}"), ErrorKind::Unavailable),
        (format!("zk://{chatty_at}"), ErrorKind::Unavailable),
        ("zk:nowhere".to_owned(), ErrorKind::Config),
        ("zk://h?tls_ca=/x".to_owned(), ErrorKind::Config),
        ("zk://h?acl=creator".to_owned(), ErrorKind::Config),
    ] {
        let began = Instant::now();
        let join = if url.contains('?') { '&' } else { '?' };
        let error = try_open(&format!("{url}{join}connect_timeout=2s")).await.map(drop).unwrap_err();
        let retry = if kind == ErrorKind::Unavailable { Retry::Safe } else { Retry::Never };
        assert_eq!((error.kind(), error.retry()), (kind, retry), "{url}: {error}");
        assert!(began.elapsed() < Duration::from_secs(3), "{url}: {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn one_server_of_several_is_enough_to_open() {
    on_each(async |server| {
        let url = format!("zk://127.0.0.1:1,{},127.0.0.1:2/deep/chroot", server.addr());
        let coord = open(&url).await;
        coord.put("/a", "1").await.unwrap();
        let root = open(&server.url()).await;
        assert_eq!(root.get("/deep/chroot/a").await.unwrap().unwrap().value, "1");
        let info = coord.info();
        assert!(info.server.starts_with("ZooKeeper 3."), "{info:?}");
        assert_eq!(info.guarantees.durability, coord_api::Durability::Restart);
        assert!(info.warnings.iter().any(|warning| warning.contains("single")), "{info:?}");
        for coord in [coord, root] {
            coord.close().await.unwrap();
        }
        server.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn closing_ends_sessions_waits_and_watches() {
    on_each(async |server| {
        let observer = open(&server.url()).await;
        let coord = open(&server.url()).await;
        let session = coord.session(Duration::from_secs(30)).await.unwrap();
        session.coord().create("/e", "", Lifetime::Session).await.unwrap().unwrap();
        let other = coord.session(Duration::from_secs(30)).await.unwrap();
        other.coord().create("/f", "", Lifetime::Session).await.unwrap().unwrap();
        session.close().await.unwrap();
        session.close().await.unwrap();
        let latest = observer.clone().with_freshness(Freshness::Latest);
        assert_eq!(latest.get("/e").await.unwrap(), None, "gone when close returns");
        let lost = session.coord().create("/e", "", Lifetime::Session).await.unwrap_err();
        assert_eq!((lost.kind(), lost.outcome()), (ErrorKind::SessionLost, Outcome::NotApplied));

        let mut stream = coord.watch("/w").await.unwrap();
        next(&mut stream).await;
        let waits = [
            Seen::Absent(key("/x/y")),
            Seen::Absent(key("/x")),
            Seen::Value(key("/f"), coord_api::Revision::new(u64::MAX)),
        ]
        .map(|seen| {
            let coord = coord.clone();
            tokio::spawn(async move { coord.wait(&seen).await })
        });
        coord.close().await.unwrap();
        coord.close().await.unwrap();
        assert_eq!(latest.get("/f").await.unwrap(), None);
        assert!(!other.is_valid());
        for wait in waits {
            let error = within("the wait ends", wait).await.unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Closed);
        }
        let ended = within("the stream ends", async {
            loop {
                match stream.next().await {
                    Some(Ok(_)) => {}
                    other => return other,
                }
            }
        })
        .await;
        assert_eq!(ended.unwrap().unwrap_err().kind(), ErrorKind::Closed);
        for error in [
            coord.get("/a").await.map(drop).unwrap_err(),
            coord.list("/w").await.map(drop).unwrap_err(),
            coord.put("/a", "").await.map(drop).unwrap_err(),
            coord.wait(&Seen::Absent(key("/a/b"))).await.unwrap_err(),
            coord.watch("/w").await.map(drop).unwrap_err(),
            coord.session(Duration::from_secs(5)).await.map(drop).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
        }
        observer.close().await.unwrap();
        server.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn dropping_everything_ends_sessions_and_connections() {
    on_each(async |server| {
        let observer = open(&server.url()).await;
        let proxy = server.proxied().await.unwrap();
        let coord = open(&proxy.url()).await;
        let session = coord.session(Duration::from_secs(60)).await.unwrap();
        session.coord().create("/e", "", Lifetime::Session).await.unwrap().unwrap();
        // An abandoned opening leaves no session either.
        drop(tokio::time::timeout(Duration::from_millis(1), coord.session(Duration::from_secs(60))).await);
        drop(session);
        drop(coord);
        eventually("the ephemeral is gone", || async { observer.get("/e").await.unwrap().is_none() }).await;
        let alive = || async {
            let mut stream = tokio::net::TcpStream::connect(server.addr()).await.unwrap();
            stream.write_all(b"cons").await.unwrap();
            let mut answer = String::new();
            tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer).await.unwrap();
            answer.lines().filter(|line| line.contains("sid=")).count()
        };
        // The observer's own connections stay.
        eventually("the connections are closed", || async { alive().await <= 2 }).await;
        observer.close().await.unwrap();
        server.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_session_cut_off_is_lost_here_before_the_server_lets_go() {
    on_each(async |server| {
        let proxy = server.proxied().await.unwrap();
        let cut = open(&proxy.url()).await;
        let observer = open(&server.url()).await;
        let ttl = Duration::from_secs(2);
        let session = cut.session(ttl).await.unwrap();
        assert_eq!(session.ttl(), ttl);
        session.coord().create("/s/e", "", Lifetime::Session).await.unwrap().unwrap();
        let seen = Seen::Exists(key("/s/e"));
        let gone = tokio::spawn({
            let observer = observer.clone();
            async move {
                observer.wait(&seen).await.unwrap();
                Instant::now()
            }
        });
        let mut states = session.states();
        proxy.set(Link::BlackHole);
        within("suspended", states.wait_for(|state| *state == SessionState::Suspended)).await.unwrap();
        within("lost", session.lost()).await;
        let lost_at = Instant::now();
        let gone_at = within("gone at the server", gone).await.unwrap();
        assert!(lost_at < gone_at, "lost {:?} too late", lost_at - gone_at);
        let error = session.coord().create("/s/x", "", Lifetime::Session).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::SessionLost, Outcome::NotApplied));
        proxy.set(Link::Up);
        // Lost is final, and the handle goes on with new sessions.
        assert!(!session.is_valid());
        let again = within("a new session", async {
            loop {
                if let Ok(session) = cut.session(Duration::from_secs(10)).await {
                    return session;
                }
            }
        })
        .await;
        assert_ne!(again.id(), session.id());
        within("works", async { while again.coord().put("/s/x", "").await.is_err() {} }).await;
        for coord in [cut, observer] {
            coord.close().await.unwrap();
        }
        server.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_outage_longer_than_every_session_is_survived_by_the_handle() {
    on_each(async |mut server| {
        let coord = open(&format!("{}?base_session_ttl=2s&operation_timeout=1s", server.url())).await;
        coord.put("/w/a", "1").await.unwrap();
        let mut stream = coord.watch("/w").await.unwrap();
        assert!(matches!(next(&mut stream).await, WatchEvent::Snapshot { .. }));
        let wait = tokio::spawn({
            let coord = coord.clone();
            async move { coord.wait(&Seen::Absent(key("/w/b"))).await }
        });
        server.kill().await.unwrap();
        let error = coord.get("/w/a").await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Unavailable), "{error}");
        // Past 7/5 of the ttl the driver itself gives the session up.
        tokio::time::sleep(Duration::from_secs(4)).await;
        server.restart().await.unwrap();
        let writer = open(&server.url()).await;
        writer.put("/w/b", "2").await.unwrap();
        within("the wait", wait).await.unwrap().unwrap();
        within("the change", async {
            loop {
                match next(&mut stream).await {
                    WatchEvent::Put(entry) if entry.key.name() == "b" => return,
                    WatchEvent::Snapshot { entries, .. } if entries.len() == 2 => return,
                    _ => {}
                }
            }
        })
        .await;
        eventually("works again", || async { coord.get("/w/b").await.is_ok() }).await;
        for coord in [coord, writer] {
            coord.close().await.unwrap();
        }
        server.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_handle_sees_its_own_writes_whichever_server_its_sessions_are_on() {
    let Provider::Local(bin) = Provider::choose(Kind::ZooKeeper).await.unwrap() else { return };
    let cluster = Cluster::start_three(Kind::ZooKeeper, &Provider::Local(bin), options()).await.unwrap();
    let coord = open(&cluster.url()).await;
    assert_eq!(coord.info().guarantees.durability, coord_api::Durability::Quorum);
    let mut sessions = Vec::new();
    for _ in 0..4 {
        sessions.push(coord.session(Duration::from_secs(10)).await.unwrap());
    }
    for round in 0..100 {
        let writer = &sessions[round % sessions.len()];
        let written = writer.coord().put("/r/a", round.to_string()).await.unwrap();
        for reader in std::iter::once(&coord).chain(sessions.iter().map(|session| session.coord())) {
            let entry = reader.get("/r/a").await.unwrap().unwrap();
            assert!(entry.meta.modified >= written.revision, "{round}: {entry:?}");
        }
        let mine = join(writer, "/l").await;
        assert!(coord.list("/l").await.unwrap().position(&mine.key).is_some());
        assert!(writer.coord().delete(mine.key.clone()).await.unwrap());
        assert!(coord.list("/l").await.unwrap().position(&mine.key).is_none());
    }
    coord.close().await.unwrap();
    cluster.stop().await.unwrap();
}

#[tokio::test]
async fn the_loss_of_any_one_of_three_servers_ends_nothing() {
    let Provider::Local(bin) = Provider::choose(Kind::ZooKeeper).await.unwrap() else { return };
    let mut cluster = Cluster::start_three(Kind::ZooKeeper, &Provider::Local(bin), options()).await.unwrap();
    let coord = open(&cluster.url()).await;
    let session = coord.session(Duration::from_secs(30)).await.unwrap();
    session.coord().create("/s/mine", "", Lifetime::Session).await.unwrap().unwrap();
    let mut stream = coord.watch("/w").await.unwrap();
    assert!(matches!(next(&mut stream).await, WatchEvent::Snapshot { .. }));
    for node in 0..3 {
        cluster.nodes_mut()[node].kill().await.unwrap();
        let name = format!("/w/{node}");
        eventually("writes go on", || async { session.coord().put(name.as_str(), "").await.is_ok() }).await;
        within("the watch goes on", async {
            loop {
                match next(&mut stream).await {
                    WatchEvent::Put(entry) if entry.key.as_str() == name => return,
                    WatchEvent::Snapshot { entries, .. }
                        if entries.iter().any(|entry| entry.key.as_str() == name) =>
                    {
                        return;
                    }
                    _ => {}
                }
            }
        })
        .await;
        assert!(session.is_valid(), "{:?}", session.state());
        cluster.nodes_mut()[node].restart().await.unwrap();
    }
    let latest = coord.clone().with_freshness(Freshness::Latest);
    let entry = latest.get("/s/mine").await.unwrap().unwrap();
    assert_eq!(entry.meta.owner.as_ref(), Some(session.id()));
    coord.close().await.unwrap();
    cluster.stop().await.unwrap();
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// In a process of its own would be cleaner; the subscriber is set once for this file, and sees every test.
#[tokio::test]
async fn no_secret_is_logged_or_shown_at_any_level() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_env_filter("trace")
        .with_writer(move || writer.clone())
        .try_init()
        .unwrap();
    on_each(async |server| {
        let url = server.url().replace("//", "//canary-user:canary-password@");
        let config = coord_api::Config::from_url(&format!("{url}?acl=creator")).unwrap();
        let backend = bare(&format!("{url}?acl=creator")).await;
        let session = backend.open_session(&SessionOptions::new(Duration::from_secs(10))).await.unwrap();
        let coord = open(&url).await;
        coord.put("/a", "canary-value").await.unwrap();
        let mut stream = coord.watch("/").await.unwrap();
        let shown = format!("{backend:?} {session:?} {coord:?} {config:?} {:?}", next(&mut stream).await);
        let errors: Vec<Error> = vec![
            coord.put("/a", vec![b'c'; 1_000_001]).await.map(drop).unwrap_err(),
            coord.create("/x", "canary-value", Lifetime::Session).await.map(drop).unwrap_err(),
            try_open("zk://canary-user:canary-password@127.0.0.1:1").await.map(drop).unwrap_err(),
        ];
        let shown = format!("{shown} {errors:?} {}", errors[0]);
        assert!(!shown.contains("canary-password") && !shown.contains("canary-value"), "{shown}");
        drop(backend.watch(&plain(), &dir("/"), Start::Snapshot).await.unwrap());
        backend.close().await.unwrap();
        coord.close().await.unwrap();
        server.stop().await.unwrap();
    })
    .await;
    let log = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(log.contains("zookeeper_client"), "the driver logs at this level");
    for secret in ["canary-password", "canary-value"] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
}
