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

async fn traced(plan: &ChaosPlan) -> Coord {
    let config = Config::from_url("memory:").unwrap();
    let coord = Registry::new().with(MemoryFactory).connect(&config).await.unwrap();
    coord.layer(&ChaosLayer::new(plan.clone())).layer(&TraceLayer::new())
}

/// What is logged at `level` during a few calls, one of which fails.
async fn log_at(level: Level) -> String {
    let lines = Lines::default();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(level).with_ansi(false).with_writer(lines.clone()).finish();
    async {
        let plan = ChaosPlan::new();
        let coord = traced(&plan).await;
        let session = coord.session(Duration::from_secs(10)).await.unwrap();
        session.coord().create("/own", "s3cret-own", Lifetime::Session).await.unwrap();
        coord.put("/a", "s3cret-value").await.unwrap();
        coord.get("/a").await.unwrap();
        coord.list("/dir").await.unwrap();
        plan.lose_reply(Method::Commit, 1);
        coord.put("/lost", "s3cret-lost").await.unwrap_err();
        coord.wait(&Seen::Absent(Key::parse("/a").unwrap())).await.unwrap();
    }
    .with_subscriber(subscriber)
    .await;
    let bytes = lines.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn every_call_has_one_span_with_its_fields_and_no_values() {
    let log = log_at(Level::DEBUG).await;
    for part in [
        "coord.op=\"open_session\" coord.backend=\"memory\"",
        "coord.op=\"commit\" coord.backend=\"memory\" coord.key=\"/a\"",
        "coord.op=\"get\" coord.backend=\"memory\" coord.key=\"/a\"",
        "coord.op=\"list\" coord.backend=\"memory\" coord.key=\"/dir\"",
        "coord.op=\"wait\" coord.backend=\"memory\" coord.key=\"/a\"",
        "coord.key=\"/own\" coord.session=",
        "outcome=Unknown",
        "elapsed_us=",
    ] {
        assert!(log.contains(part), "no {part} in:\n{log}");
    }
    assert!(!log.contains("s3cret"), "{log}");
    assert_eq!(log.lines().count(), 7, "{log}");
}

#[tokio::test]
async fn nothing_is_said_above_debug() {
    assert_eq!(log_at(Level::INFO).await, "");
}
