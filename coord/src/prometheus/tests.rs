use std::{collections::BTreeSet, sync::Arc, time::Duration};

use coord_api::{Coord, Txn, WatchEvent, events::Event, kit::Runtime};
use coord_backend_memory::{MemoryBackend, MemoryStore};
use coord_layers::{TimeoutLayer, metrics::measured};
use coord_recipes::Lock;
use futures::StreamExt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::*;

/// Runs a program whose numbers go to a recorder of its own, and returns the page.
fn page_of<F: Future<Output = ()>>(program: impl FnOnce() -> F) -> String {
    let recorder = Recorder::default();
    metrics::with_local_recorder(&recorder, || {
        names::ALL.iter().for_each(names::Metric::describe);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.unwrap().block_on(program());
    });
    text::page(&recorder)
}

/// A bit of everything that is counted.
async fn everything() {
    let runtime = Runtime::current().unwrap();
    let backend = MemoryBackend::new(&MemoryStore::new(&runtime), runtime.clone());
    let faults = backend.faults();
    let coord = measured(Coord::new(Arc::new(backend)).layer(&TimeoutLayer::new(Duration::from_secs(1))));

    let mut watch = coord.watch("/dir").await.unwrap();
    watch.next().await;
    coord.put("/dir/a", "s3cret").await.unwrap();
    assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Put(_)))));
    let refused = coord.commit(Txn::new().check_absent("/dir/a")).await;
    assert!(!refused.unwrap().is_committed());

    let (session, other) = (
        coord.session(Duration::from_secs(10)).await.unwrap(),
        coord.session(Duration::from_secs(10)).await.unwrap(),
    );
    let guard = Lock::new(&session, "/locks/a").unwrap().acquire().await.unwrap();
    let theirs = Lock::new(&other, "/locks/a").unwrap();
    assert!(theirs.acquire_timeout(Duration::from_secs(1)).await.unwrap().is_none());
    let waiting = tokio::spawn(async move { theirs.acquire().await });
    tokio::time::sleep(Duration::from_millis(50)).await; // the clock is paused: it waits by now
    guard.release().await.unwrap();
    let held = waiting.await.unwrap().unwrap();

    let mut events = coord.events();
    faults.cut_off();
    coord.get("/dir/a").await.unwrap_err();
    while events.next().await.is_some_and(|event| !matches!(event, Event::SessionSuspended { .. })) {}
    faults.reconnect();
    faults.compact();
    while events.next().await.is_some_and(|event| !matches!(event, Event::Reconnected)) {}
    coord.get("/dir/a").await.unwrap();
    while watch.next().await.is_some_and(|event| !matches!(event, Ok(WatchEvent::Snapshot { .. }))) {}
    let generation = || Event::Configured { namespace: "app".to_owned(), generation: 7 };
    coord.reporter().tell(generation);
    coord.reporter().tell(|| Event::Instances { service: "pay".to_owned(), count: 3 });
    session.close().await.unwrap();
    drop(held);
    tokio::time::sleep(Duration::from_secs(1)).await;
}

fn sample<'p>(page: &'p str, series: &str) -> &'p str {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in:\n{page}"))
}

#[test]
fn every_metric_is_given_with_its_labels_and_no_key() {
    let page = page_of(everything);
    for metric in names::ALL {
        assert!(
            page.contains(&format!("# HELP {} {}\n", metric.name, metric.help)),
            "{}:\n{page}",
            metric.name
        );
        let lines = page.lines().filter(|line| {
            line.strip_prefix(metric.name)
                .is_some_and(|rest| rest.starts_with(['{', '_']) && !line.contains("le="))
        });
        for line in lines {
            let (_, labels) = line.split_once('{').unwrap();
            let labels: BTreeSet<_> =
                labels.split("=\"").map(|part| part.rsplit([',', '"', '{']).next().unwrap()).collect();
            for label in metric.labels {
                assert!(labels.contains(label), "{label} in {line}");
            }
        }
    }
    assert!(!page.contains("/dir") && !page.contains("/locks") && !page.contains("s3cret"), "{page}");
    for (series, value) in [
        ("coord_operations_total{operation=\"commit\",outcome=\"rejected\",store=\"memory\"}", "1"),
        ("coord_operations_total{operation=\"get\",outcome=\"ok\",store=\"memory\"}", "1"),
        ("coord_sessions{store=\"memory\"}", "1"),
        ("coord_sessions_ended_total{end=\"closed\",store=\"memory\"}", "1"),
        ("coord_turns_held{recipe=\"lock\",store=\"memory\"}", "0"),
        ("coord_turns_waiting{recipe=\"lock\",store=\"memory\"}", "0"),
        ("coord_turn_wait_seconds_count{end=\"gave_up\",recipe=\"lock\",store=\"memory\"}", "1"),
        ("coord_turn_wait_seconds_count{end=\"acquired\",recipe=\"lock\",store=\"memory\"}", "2"),
        ("coord_turn_hold_seconds_count{end=\"released\",recipe=\"lock\",store=\"memory\"}", "2"),
        ("coord_config_generation{namespace=\"app\",store=\"memory\"}", "7"),
        ("coord_registry_instances{service=\"pay\",store=\"memory\"}", "3"),
        ("coord_watches{store=\"memory\"}", "0"),
    ] {
        assert_eq!(sample(&page, series), value, "{series}");
    }
}

#[test]
fn buckets_are_cumulative_and_text_is_escaped() {
    let page = page_of(|| async {
        let histogram = metrics::histogram!("a.b", "who" => "x\"y\\z\n");
        [0.002, 0.3, 1e9].into_iter().for_each(|value| histogram.record(value));
        metrics::gauge!("1g").set(f64::NAN);
    });
    let labels = r#"who="x\"y\\z\n""#;
    assert_eq!(sample(&page, &format!("a_b_bucket{{{labels},le=\"0.0025\"}}")), "1");
    assert_eq!(sample(&page, &format!("a_b_bucket{{{labels},le=\"86400\"}}")), "2");
    assert_eq!(sample(&page, &format!("a_b_bucket{{{labels},le=\"+Inf\"}}")), "3");
    assert_eq!(sample(&page, &format!("a_b_count{{{labels}}}")), "3");
    assert_eq!(sample(&page, "_1g"), "NaN");
    assert!(page.contains("# TYPE a_b histogram\n"), "{page}");
}

async fn ask(at: std::net::SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(at).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    reply
}

#[tokio::test]
async fn the_page_is_served_and_nothing_else() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let serving = tokio::spawn(serve(listener, || ready("a 1\n".to_owned())));
    let reply = ask(at, "GET /metrics?x=1 HTTP/1.1\r\nHost: h\r\n\r\n").await;
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.ends_with("\r\n\r\na 1\n"), "{reply}");
    assert!(reply.contains("version=0.0.4") && reply.contains("Content-Length: 4\r\n"), "{reply}");
    let reply = ask(at, "HEAD /metrics HTTP/1.1\r\n\r\n").await;
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.ends_with("\r\n\r\n"), "{reply}");
    assert!(ask(at, "GET / HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 404 "));
    assert!(ask(at, "POST /metrics HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 405 "));
    assert!(ask(at, "\r\n\r\n").await.starts_with("HTTP/1.1 405 "));
    // One that says nothing holds up nobody.
    let _silent = TcpStream::connect(at).await.unwrap();
    assert!(ask(at, "GET /metrics HTTP/1.0\r\n\r\n").await.contains(" 200 "));
    serving.abort();
}
