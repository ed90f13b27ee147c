//! Lets the planned strikes happen, each at its moment.

use std::sync::Arc;

use coord_api::Result;
use tokio::time::Instant;

use super::{
    faults::Kind,
    node::Node,
    plan::{Strike, WINDOW},
    world::World,
};

/// Runs through the plan, and heals everything at its end.
pub(crate) async fn blow(
    world: Arc<World>,
    nodes: Vec<Arc<Node>>,
    strikes: Vec<Strike>,
    dirs: &'static [&'static str],
) -> Result<()> {
    let began = Instant::now();
    for strike in strikes {
        tokio::time::sleep_until(began + strike.at).await;
        let struck = match strike.kind {
            Kind::Expiry => world.expire_one(strike.dice),
            Kind::EntryDeleted => world.delete_in(dirs, false, strike.dice).await?,
            Kind::DirectoryDeleted => world.delete_in(dirs, true, strike.dice).await?,
            Kind::WatchGap => {
                world.compact();
                true
            }
            _ => nodes.iter().find(|node| node.id == strike.client).is_some_and(|node| hit(node, &strike)),
        };
        if struck {
            world.fired(strike.kind, strike.client);
        }
    }
    tokio::time::sleep_until(began + WINDOW).await;
    for node in &nodes {
        node.link().heal();
        node.resume();
    }
    Ok(())
}

/// A strike at one client. Whether it did anything.
fn hit(node: &Arc<Node>, strike: &Strike) -> bool {
    let until = Instant::now() + strike.lasts;
    if node.is_dead() {
        return false;
    }
    match strike.kind {
        Kind::Partition => node.link().cut(until),
        Kind::OneWay => node.link().mute(until),
        Kind::WatchCut => node.server.faults().cut_watches(),
        Kind::Crash => {
            // The others must have somebody to contend with.
            if node.id <= 2 {
                return false;
            }
            node.die();
        }
        Kind::Pause => {
            if node.is_paused() {
                return false;
            }
            node.pause();
            let node = Arc::clone(node);
            node.world.network().clone().spawn(async move {
                tokio::time::sleep_until(until).await;
                node.resume();
            });
        }
        _ => return false,
    }
    true
}
