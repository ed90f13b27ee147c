//! The roles of `docs/roles.md` on real servers: the page's own lines set them up, and each may do its work and no more.

#[path = "roles/etcd.rs"]
mod etcd;
#[path = "roles/redis.rs"]
mod redis;
#[path = "roles/zookeeper.rs"]
mod zookeeper;

use std::{path::PathBuf, time::Duration};

use coord::{Coord, ErrorKind, SessionOptions};
use coord_api::{Error, Result};
use coord_config_centre::{ConfigCentre, Consumer, ConsumerOptions, Content, Edit, Identity, Namespace};
use coord_recipes::SessionKeeper;
use coord_registry::{Instance, Registry};
use coord_testbed::{Kind, Provider, Server, ServerOptions};
use futures::StreamExt;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(20);

/// The lines of the page's only block of this language.
fn block(language: &str) -> Vec<String> {
    let page = include_str!("../../docs/roles.md");
    let start = page.find(&format!("```{language}\n")).expect("the page has the block") + language.len() + 4;
    let block = &page[start..start + page[start..].find("```").expect("it ends")];
    block.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// The URL that the page gives to a role, with this server in the place of `host`.
fn url(server: &Server, scheme: &str, role: &str) -> String {
    let page = include_str!("../../docs/roles.md");
    let begin = format!("`{scheme}://{role}:");
    let start = page.find(&begin).expect("the page has the URL") + 1;
    let url = &page[start..start + page[start..].find('`').expect("it ends")];
    url.replace("@host", &format!("@{}", server.addr()))
}

/// A tool that is laid out beside the servers.
fn tool(name: &str) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let servers = std::env::var_os("COORD_SERVERS").map_or_else(|| root.join(".servers"), PathBuf::from);
    servers.join("bin").join(name)
}

async fn start(kind: Kind, options: ServerOptions) -> Server {
    let provider = match Provider::choose(kind).await.expect("a server") {
        Provider::Docker => panic!("set COORD_TEST_{kind:?}=local: its tools run beside it"),
        provider => provider,
    };
    Server::start(kind, &provider, options).await.expect("a server")
}

async fn open(url: &str) -> Coord {
    coord::connect(url).await.expect("the role may log in")
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(SOON, future).await.unwrap_or_else(|_| panic!("not in time: {what}"))
}

fn billing(coord: &Coord) -> Namespace {
    ConfigCentre::new(coord, "/config").and_then(|centre| centre.namespace("billing")).expect("good names")
}

async fn publish(coord: &Coord, rate: &str) -> Result<()> {
    let edit = Edit::by("publisher").note("a role's work");
    billing(coord).publish(Content::items([("rate", rate)]), &edit).await?.done().map(drop)
}

async fn register(coord: &Coord) -> Result<()> {
    let keeper = SessionKeeper::new(coord, SessionOptions::default());
    let registry = Registry::new(coord, "/services")?;
    let instance = Instance::new("billing", "b1", "10.0.0.7", 8080);
    let registered = registry.register_timeout(&keeper, instance, Duration::from_secs(5)).await?;
    let found = registry.instances("billing").await?;
    assert_eq!(found.instances.len(), 1);
    registered.close().await
}

#[track_caller]
fn refused(what: &str, done: Result<()>) {
    let error: Error = done.expect_err(what);
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{what}: {error}");
}

/// What publishers and readers do, and what readers must not.
async fn configure(publisher: &Coord, reader: &Coord, reports: bool) {
    publish(publisher, "100").await.expect("publishers publish");
    let mut options = ConsumerOptions::new(Identity::new("billing-7"));
    let keeper = SessionKeeper::new(reader, SessionOptions::default());
    if reports {
        options = options.with_report(&keeper);
    }
    let consumer = Consumer::open(&billing(reader), options).expect("good options");
    let first = soon("the first configuration", consumer.ready()).await.expect("readers read");
    assert_eq!(first.item("rate"), Some("100"));
    let mut changes = consumer.changes();
    publish(publisher, "200").await.expect("publishers publish");
    soon("the second configuration", async {
        while changes.next().await.expect("it goes on").item("rate") != Some("200") {}
    })
    .await;
    let reported = async || billing(publisher).instances().await.expect("publishers see reports").reports;
    if reports {
        soon("the report", async {
            while reported().await.is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }
    let history = billing(publisher).history(10).await.expect("publishers see the history");
    assert!(history.entries.len() >= 2);
    refused("a reader publishes", publish(reader, "0").await);
    assert_eq!(billing(publisher).get("rate").await.expect("it reads").as_deref(), Some("200"));
}

/// Where roles share a namespace, registrars and those of the configuration keep out of each other's way.
async fn keep_apart(publisher: &Coord, reader: &Coord, registrar: &Coord) {
    refused("a registrar publishes", publish(registrar, "0").await);
    refused("a registrar reads the configuration", billing(registrar).current().await.map(drop));
    for (role, coord) in [("a publisher", publisher), ("a reader", reader)] {
        refused(&format!("{role} registers"), register(coord).await);
    }
}
