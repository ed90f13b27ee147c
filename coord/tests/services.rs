//! The example of two services runs on every store, and nothing changes but one line of its configuration.

use std::{env, fs, path::PathBuf};

use coord_testbed::{Kind, Provider, Server, ServerOptions};
use tokio::process::Command;

fn services() -> PathBuf {
    let tests = env::current_exe().expect("this program").with_file_name("");
    tests.with_file_name("examples").join("services")
}

/// Runs it in a directory whose `coord.toml` names the store.
async fn runs_on(url: &str) {
    let (services, dir) = (services(), tempfile::tempdir().expect("a directory"));
    assert!(services.exists(), "cargo test -p coord --all-features builds {}", services.display());
    fs::write(dir.path().join("coord.toml"), format!("url = {url:?}\n")).expect("written");
    let run =
        Command::new(services).current_dir(&dir).env_remove("COORD_URL").output().await.expect("it runs");
    let (said, complained) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{url}\n{said}\n{complained}");
    for words in ["all answered", "b2 crashes", "90, says b3", "5. It sells well"] {
        assert!(said.contains(words), "{words}\n{said}");
    }
}

async fn runs_on_a(kind: Kind) {
    let provider = Provider::choose(kind).await.expect("a server");
    if provider != Provider::Off {
        let server = Server::start(kind, &provider, ServerOptions::new()).await.expect("it starts");
        runs_on(&server.url()).await;
        server.stop().await.expect("it ends");
    }
}

#[tokio::test]
async fn on_zookeeper() {
    runs_on_a(Kind::ZooKeeper).await;
}

#[tokio::test]
async fn on_etcd() {
    runs_on_a(Kind::Etcd).await;
}

#[tokio::test]
async fn on_redis() {
    runs_on_a(Kind::Redis).await;
}

#[tokio::test]
async fn on_valkey() {
    runs_on_a(Kind::Valkey).await;
}

#[tokio::test]
async fn in_memory() {
    runs_on("memory:").await;
}

#[tokio::test]
async fn in_a_file() {
    let dir = tempfile::tempdir().expect("a directory");
    runs_on(&format!("sqlite:{}", dir.path().join("services.db").display())).await;
}
