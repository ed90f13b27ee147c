//! A tour with real processes, over the file that they share: a frozen holder, a killed leader, a change of configuration.
//!
//! ```sh
//! cargo run -p coord --example tour --features sqlite,config-centre
//! ```
//!
//! This program starts itself as the workers [alice and bob](worker), and does to them what happens to processes: it
//! stops one for longer than its session lives, and kills another. Nothing in the workers knows which store it is.

#![allow(clippy::print_stdout, reason = "a tour is for reading")]

mod acts;
mod process;
mod warehouse;
mod worker;

use std::{env, error::Error, time::Duration};

use tokio::time::Instant;

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// Short, so that the tour is.
const TTL: Duration = Duration::from_secs(3);

/// Where things are in the store.
const LOCK: &str = "/locks/apples";
const LEADER: &str = "/leader";
const CONFIG: &str = "/config";

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    if let [role, name, url] = arguments.as_slice() {
        return worker::run(role, name, url).await;
    }
    let dir = tempfile::tempdir()?;
    let url = format!("sqlite:{}", dir.path().join("tour.db").display());
    let store = coord::connect(&url).await?;
    let tour = Tour { url, store, began: Instant::now() };
    acts::lost_update(&tour).await?;
    acts::fenced(&tour).await?;
    acts::killed_leader(&tour).await?;
    acts::changed_configuration(&tour).await?;

    title("Next: the same on a server of yours");
    println!("  coord::connect(\"zk://127.0.0.1:2181/tour\")     ZooKeeper");
    println!("  coord::connect(\"etcd://127.0.0.1:2379/tour\")   etcd");
    println!("  coord::connect(\"redis://127.0.0.1:6379/tour\")  Redis or Valkey");
    println!("  or from a shell, with no program and no server at all:");
    println!("  cargo run -p coord-cli -- lock /locks/orders -- echo mine");
    Ok(())
}

/// What all acts need.
struct Tour {
    url: String,
    store: coord::Coord,
    began: Instant,
}

impl Tour {
    fn say(&self, text: impl AsRef<str>) {
        println!("  {:>5.1}s  {}", self.began.elapsed().as_secs_f32(), text.as_ref());
    }
}

fn title(text: &str) {
    println!("\n{text}");
}

/// The tour shows what is so: it stops where it is not.
fn ensure(holds: bool, what: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(format!("not so: {what}").into()) }
}
