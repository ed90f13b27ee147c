//! Servers and handles for the tests.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::future_not_send,
    reason = "helpers of tests, each file uses its part"
)]

use std::{future::Future, time::Duration};

use coord_api::{
    Backend, BackendFactory, Config, Coord, Dir, Key, Lifetime, Nonce, OpContext, Ordered, OrderedCreate,
    Registry, Session, Tag, WatchEvent, WatchStream,
};
use coord_backend_zk::ZkFactory;
use coord_testbed::{Kind, Provider, Server, ServerOptions};
use futures::StreamExt;

/// How long a condition may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The servers that every test runs on; those that are `off` are left out.
pub(crate) const KINDS: [Kind; 2] = [Kind::ZooKeeper, Kind::ZooKeeper38];

pub(crate) fn options() -> ServerOptions {
    ServerOptions::new().container_check_interval(Duration::from_millis(300))
}

pub(crate) async fn start(kind: Kind, options: ServerOptions) -> Option<Server> {
    match Provider::choose(kind).await.unwrap() {
        Provider::Off => None,
        provider => Some(Server::start(kind, &provider, options).await.unwrap()),
    }
}

/// Runs `test` on a fresh server of each kind.
pub(crate) async fn on_each<F: Future<Output = ()>>(test: impl Fn(Server) -> F) {
    for kind in KINDS {
        if let Some(server) = start(kind, options()).await {
            test(server).await;
        }
    }
}

pub(crate) async fn open(url: &str) -> Coord {
    try_open(url).await.unwrap()
}

pub(crate) async fn try_open(url: &str) -> coord_api::Result<Coord> {
    Registry::new().with(ZkFactory).connect(&Config::from_url(url)?).await
}

/// The bare backend, without layers.
pub(crate) async fn bare(url: &str) -> std::sync::Arc<dyn Backend> {
    ZkFactory.connect(&Config::from_url(url).unwrap()).await.unwrap()
}

/// A key that the handle left in a version that no directory has.
pub(crate) async fn known(coord: &Coord, path: &str) {
    for value in ["1", "2"] {
        coord.put(path, value).await.unwrap();
    }
}

pub(crate) async fn value(coord: &Coord, path: &str) -> Option<String> {
    coord.get(path).await.unwrap().map(|entry| String::from_utf8(entry.value.to_vec()).unwrap())
}

pub(crate) fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

pub(crate) fn dir(text: &str) -> Dir {
    Dir::parse(text).unwrap()
}

pub(crate) fn request(line: &str, nonce: Nonce) -> OrderedCreate {
    OrderedCreate {
        dir: dir(line),
        tag: Tag::new("lock-").unwrap(),
        nonce,
        value: "me".into(),
        lifetime: Lifetime::Session,
    }
}

/// Joins a line with a nonce of its own.
pub(crate) async fn join(session: &Session, line: &str) -> Ordered {
    let coord = session.coord();
    coord.backend().create_ordered(&of(session), request(line, coord.runtime().nonce())).await.unwrap()
}

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("not in time: {what}"))
}

/// Asks until the answer is yes.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, ask: impl Fn() -> F) {
    within(what, async {
        while !ask().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

/// The next event that is not mere progress.
pub(crate) async fn next(stream: &mut WatchStream) -> WatchEvent {
    loop {
        match within("an event", stream.next()).await.expect("the stream goes on").unwrap() {
            WatchEvent::Progress(_) => {}
            event => return event,
        }
    }
}

pub(crate) fn of(session: &Session) -> OpContext {
    OpContext::for_session(session.id().clone())
}

pub(crate) fn plain() -> OpContext {
    OpContext::default()
}
