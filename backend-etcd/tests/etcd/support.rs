//! What the tests with a real server share.

use std::{sync::Arc, time::Duration};

use coord_api::{
    Backend, BackendFactory, Config, Dir, Entry, Key, Lifetime, OpContext, Ordered, OrderedCreate, Result,
    Seen, SessionDriver, SessionOptions, SessionState, Tag, Txn, WatchEvent, WatchStream,
};
use coord_backend_etcd::EtcdFactory;
use coord_testbed::{Kind, Provider, Server, ServerOptions};
use futures::StreamExt;
use tokio::task::JoinHandle;

/// Longer than anything takes that happens at all.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A server of its own for a test; `None` if tests with etcd are left out on purpose.
pub(crate) async fn server(options: ServerOptions) -> Option<Server> {
    let provider = Provider::choose(Kind::Etcd).await.expect("etcd can be started");
    if provider == Provider::Off {
        return None;
    }
    Some(Server::start(Kind::Etcd, &provider, options).await.expect("etcd starts"))
}

/// A server, or the end of the test with a word about it.
macro_rules! server {
    () => {
        server!(coord_testbed::ServerOptions::new())
    };
    ($options:expr) => {
        match $crate::support::server($options).await {
            Some(server) => server,
            None => {
                println!("left out: COORD_TEST_ETCD=off");
                return;
            }
        }
    };
}

/// Opens a store.
pub(crate) async fn open(url: &str) -> Result<Arc<dyn Backend>> {
    EtcdFactory.connect(&Config::from_url(url)?).await
}

/// The driver, for what others write.
pub(crate) async fn raw(server: &Server) -> etcd_client::Client {
    etcd_client::Client::connect([server.addr().to_string()], None).await.expect("the driver connects")
}

pub(crate) fn key(path: &str) -> Key {
    Key::parse(path).expect("a key")
}

pub(crate) fn dir(path: &str) -> Dir {
    Dir::parse(path).expect("a directory")
}

pub(crate) fn nobody() -> OpContext {
    OpContext::default()
}

pub(crate) async fn put(store: &Arc<dyn Backend>, path: &str, value: impl Into<Vec<u8>>) {
    let outcome = store.commit(&nobody(), Txn::new().put(key(path), value.into())).await.expect("a put");
    assert!(outcome.is_committed());
}

pub(crate) async fn get(store: &Arc<dyn Backend>, path: &str) -> Option<Entry> {
    store.get(&nobody(), &key(path)).await.expect("a get")
}

pub(crate) async fn session(store: &Arc<dyn Backend>, ttl: Duration) -> Arc<dyn SessionDriver> {
    store.open_session(&SessionOptions::new(ttl)).await.expect("a session")
}

pub(crate) fn owned_by(session: &Arc<dyn SessionDriver>) -> OpContext {
    OpContext::for_session(session.id().clone())
}

pub(crate) fn request(store: &Arc<dyn Backend>, path: &str, lifetime: Lifetime) -> OrderedCreate {
    OrderedCreate {
        dir: dir(path),
        tag: Tag::new("lock-").expect("a tag"),
        nonce: store.runtime().nonce(),
        value: "v".into(),
        lifetime,
    }
}

pub(crate) async fn join(store: &Arc<dyn Backend>, session: &Arc<dyn SessionDriver>, path: &str) -> Ordered {
    let request = request(store, path, Lifetime::Session);
    store.create_ordered(&owned_by(session), request).await.expect("a place in the line")
}

/// Waits for something that must happen.
pub(crate) async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, work).await.unwrap_or_else(|_| panic!("did not happen: {what}"))
}

pub(crate) async fn wait(store: &Arc<dyn Backend>, seen: Seen) {
    soon("what was seen is no longer true", store.wait(&nobody(), &seen)).await.expect("a wait");
}

/// The same in the background.
pub(crate) fn waiting(store: &Arc<dyn Backend>, seen: Seen) -> JoinHandle<()> {
    let store = Arc::clone(store);
    tokio::spawn(async move { wait(&store, seen).await })
}

pub(crate) async fn state(session: &Arc<dyn SessionDriver>, wanted: SessionState) {
    let mut states = session.state();
    soon("the session's state", states.wait_for(|state| *state == wanted)).await.expect("the driver lives");
}

pub(crate) async fn next(stream: &mut WatchStream) -> WatchEvent {
    soon("an event", stream.next()).await.expect("the watch goes on").expect("the watch is well")
}

/// Asks until the answer is yes.
#[expect(clippy::future_not_send, reason = "tests run on one thread")]
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, ask: impl Fn() -> F) {
    soon(what, async {
        while !ask().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}
