//! No password and no value shows in what is logged or printed, at any level, of us or of the driver.

use std::{
    io,
    sync::{Arc, Mutex},
};

use coord_api::{Backend, BackendFactory, Config, Key, OpContext, Start, Txn};
use coord_backend_etcd::EtcdFactory;
use coord_testbed::{Kind, Provider, Server, ServerOptions};
use futures::StreamExt;

const PASSWORD: &str = "canary-password";
const WRONG: &str = "canary-wrong";
const VALUE: &str = "canary-value";

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("a log").extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn secrets_are_in_no_log_and_in_no_message() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .init();
    let provider = Provider::choose(Kind::Etcd).await.expect("etcd can be started");
    if provider == Provider::Off {
        println!("left out: COORD_TEST_ETCD=off");
        return;
    }
    let options = ServerOptions::new().auth("root", PASSWORD);
    let mut server = Server::start(Kind::Etcd, &provider, options).await.expect("etcd starts");
    let mut said = String::new();

    let config = |password| Config::from_url(&format!("etcd://root:{password}@{}", server.addr())).unwrap();
    said += &format!("{:?}", EtcdFactory.connect(&config(WRONG)).await.expect_err("a wrong password"));
    let store: Arc<dyn Backend> = EtcdFactory.connect(&config(PASSWORD)).await.expect("the right password");
    let ctx = OpContext::default();
    let key = Key::parse("/d/a").unwrap();
    let mut watch = store.watch(&ctx, &key.parent(), Start::Snapshot).await.unwrap();
    said += &format!("{:?}", watch.next().await);
    said += &format!("{:?}", store.commit(&ctx, Txn::new().put(key.clone(), VALUE)).await);
    said += &format!("{:?}", watch.next().await);
    said += &format!("{:?}", store.get(&ctx, &key).await);
    server.kill().await.unwrap();
    said += &format!("{:?}", store.commit(&ctx, Txn::new().put(key.clone(), VALUE)).await);
    said += &format!("{:?} {store:?} {EtcdFactory:?}", store.info());
    let _ = store.close().await;

    let log = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(log.contains("TRACE"), "the log was listened to");
    for (where_, text) in [("messages", &said), ("log", &log)] {
        for secret in [PASSWORD, WRONG, VALUE] {
            let line = text.lines().find(|line| line.contains(secret));
            assert!(line.is_none(), "{secret} in the {where_}: {line:?}");
        }
    }
    assert!(said.contains("value_bytes"), "something was printed: {said}");
}
