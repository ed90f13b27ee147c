use std::{
    io::Write,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use coord_api::{Config, Coord, Lifetime, Registry};
use coord_backend_memory::MemoryFactory;
use tracing::instrument::WithSubscriber;
use tracing_subscriber::fmt::MakeWriter;

use super::*;
use crate::{ChaosLayer, ChaosPlan, Method};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

async fn traced(plan: &ChaosPlan, layer: &TraceLayer) -> Coord {
    let config = Config::from_url("memory:").unwrap();
    let coord = Registry::new().with(MemoryFactory).connect(&config).await.unwrap();
    coord.layer(&ChaosLayer::new(plan.clone())).layer(layer)
}

/// What is logged at `level` during a few calls, one of which fails.
async fn log_at(level: Level, layer: TraceLayer) -> String {
    let lines = Lines::default();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(level).with_ansi(false).with_writer(lines.clone()).finish();
    async {
        let plan = ChaosPlan::new();
        let coord = traced(&plan, &layer).await;
        let session = coord.session(Duration::from_secs(10)).await.unwrap();
        session.coord().create("/own", "s3cret-own", Lifetime::Session).await.unwrap();
        coord.put("/a", "s3cret-value").await.unwrap();
        coord.get("/a").await.unwrap();
        coord.list("/dir").await.unwrap();
        plan.lose_reply(Method::Commit, 1);
        coord.put("/lost", "s3cret-lost").await.unwrap_err();
        coord.get("/a").await.unwrap();
        coord.wait(&Seen::Absent(Key::parse("/a").unwrap())).await.unwrap();
    }
    .with_subscriber(subscriber)
    .await;
    let bytes = lines.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn every_call_has_one_span_with_its_fields_and_no_values() {
    let log = log_at(Level::DEBUG, TraceLayer::new()).await;
    for part in [
        "db.operation.name=\"open_session\"",
        "db.operation.name=\"commit\" coord.key=\"/a\"",
        "db.operation.name=\"get\" coord.key=\"/a\"",
        "db.operation.name=\"list\" coord.key=\"/dir\"",
        "db.operation.name=\"wait\" coord.key=\"/a\"",
        "coord.key=\"/own\" coord.session=",
        "coord.outcome=Unknown",
        "coord.duration=",
        "otel.kind=\"client\"",
        "error.type=\"unavailable\"",
        "otel.status_code=\"ERROR\"",
        "coord.event=\"session.opened\"",
        "coord.event=\"connection.suspended\"",
        "coord.event=\"connection.reconnected\"",
    ] {
        assert!(log.contains(part), "no {part} in:\n{log}");
    }
    assert!(!log.contains("s3cret"), "{log}");
    let calls = log.lines().filter(|line| line.contains("coord_layers::trace"));
    assert_eq!(calls.count(), 8, "{log}");
}

#[tokio::test]
async fn above_debug_only_what_happens_to_the_connection_is_said() {
    let log = log_at(Level::INFO, TraceLayer::new()).await;
    let names: Vec<_> = log.lines().filter_map(|line| line.split("coord.event=").nth(1)).collect();
    assert_eq!(names, ["\"connection.suspended\"", "\"connection.reconnected\""], "{log}");
    assert_eq!(log.lines().count(), 2, "{log}");
}

#[tokio::test]
async fn a_store_is_named_by_its_url_where_that_names_one_host() {
    let url = |text| TraceLayer::of_store(&StoreUrl::parse(text).unwrap());
    let log = log_at(Level::DEBUG, url("etcd://user:s3cret@h1:2379/app")).await;
    assert!(log.contains("db.namespace=\"/app\" server.address=\"h1\" server.port=2379"), "{log}");
    assert!(!log.contains("s3cret"), "{log}");
    let log = log_at(Level::DEBUG, url("etcd://h1,h2")).await;
    assert!(!log.contains("server.address") && !log.contains("db.namespace"), "{log}");
}
