//! Servers, handles and conditions for the tests.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::{future::Future, path::PathBuf, sync::Arc, time::Duration};

use coord_api::{
    Backend, BackendFactory, Config, Dir, Key, OpContext, Result, SessionDriver, SessionOptions,
};
use coord_backend_redis::RedisFactory;
use coord_testbed::{Kind, Provider, Server, ServerOptions};
use tokio::time::Instant;

/// The servers that everything must work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Redis8,
    Redis7,
    Valkey8,
}

/// Runs an async test on each of the servers.
#[macro_export]
macro_rules! on_all {
    ($(#[$meta:meta])* async fn $name:ident($which:ident: Which) $body:block) => {
        mod $name {
            use super::*;
            use $crate::common::Which;
            async fn test($which: Which) $body
            $(#[$meta])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn redis8() { test(Which::Redis8).await }
            $(#[$meta])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn redis7() { test(Which::Redis7).await }
            $(#[$meta])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn valkey8() { test(Which::Valkey8).await }
        }
    };
}

/// Starts a server of its own for the test.
pub(crate) async fn start(which: Which, options: ServerOptions) -> Server {
    let (kind, provider) = match which {
        Which::Redis8 => (Kind::Redis, Provider::choose(Kind::Redis).await.unwrap()),
        Which::Valkey8 => (Kind::Valkey, Provider::choose(Kind::Valkey).await.unwrap()),
        // Beside the others, where scripts/fetch-servers.sh puts it, unless told otherwise.
        Which::Redis7 => {
            let beside = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.servers/bin7"));
            let dir = std::env::var_os("COORD_TEST_REDIS7_DIR").map_or_else(beside, PathBuf::from);
            (Kind::Redis, Provider::Local(dir))
        }
    };
    Server::start(kind, &provider, options).await.unwrap()
}

/// One with an append-only file, as the testbed sets it up.
pub(crate) async fn plain(which: Which) -> Server {
    start(which, ServerOptions::new()).await
}

pub(crate) async fn connect(url: &str) -> Result<Arc<dyn Backend>> {
    RedisFactory.connect(&Config::from_url(url)?).await
}

pub(crate) async fn open(server: &Server) -> Arc<dyn Backend> {
    connect(&format!("{}/test", server.url())).await.unwrap()
}

pub(crate) async fn session(backend: &Arc<dyn Backend>, ttl_ms: u64) -> (Arc<dyn SessionDriver>, OpContext) {
    let session = backend.open_session(&SessionOptions::new(Duration::from_millis(ttl_ms))).await.unwrap();
    let ctx = OpContext::for_session(session.id().clone());
    (session, ctx)
}

pub(crate) fn ctx() -> OpContext {
    OpContext::default()
}

pub(crate) fn key(path: &str) -> Key {
    Key::parse(path).unwrap()
}

pub(crate) fn dir(path: &str) -> Dir {
    Dir::parse(path).unwrap()
}

/// Waits until `look` gives something, and fails with `what` after `limit`.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> F,
) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < end, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits for `future`, and fails with `what` after `limit`.
pub(crate) async fn within<T>(what: &str, limit: Duration, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(limit, future).await {
        Ok(value) => value,
        Err(_) => panic!("not within {limit:?}: {what}"),
    }
}

/// A raw connection, to do to the server what others do.
pub(crate) async fn raw(server: &Server) -> redis::aio::MultiplexedConnection {
    raw_url(&server.url()).await
}

pub(crate) async fn raw_url(url: &str) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(url).unwrap();
    let patient = redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(10)));
    client.get_multiplexed_async_connection_with_config(&patient).await.unwrap()
}

/// Sends one raw command.
pub(crate) async fn tell(
    conn: &mut redis::aio::MultiplexedConnection,
    words: &[&str],
) -> redis::RedisResult<redis::Value> {
    let mut command = redis::cmd(words[0]);
    words[1..].iter().for_each(|word| _ = command.arg(*word));
    command.query_async(conn).await
}
