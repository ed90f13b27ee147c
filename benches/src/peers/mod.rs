//! Locks, watches and registrations against other clients: Curator, etcd's own lock service, redis-py, kazoo.
//!
//! Each side is a process of its own, in whatever language its client is written, and all speak alike: READY when it is
//! connected; for each line of its input BEGIN and END around what counts, and then its figures.

mod args;
mod fan;
mod measures;
mod packages;
mod party;
mod side;
mod table;

use coord_testbed::Kind;

pub(crate) use args::{PeersArgs, SideArgs};
pub(crate) use side::run as side;

use crate::{Result, WARM_UP, args::SERVERS, counters::Reader, facts::Facts, note, raw, say, stand};
use measures::Bench;
use packages::Packages;
use party::Gauge;
use table::Table;

/// Measures what was asked for; false if a part of it could not be measured.
pub(crate) async fn run(args: &PeersArgs) -> Result<bool> {
    let packages = Packages::find(args).await?;
    let mut table = Table::new(Facts::gather(args.data, args.pairs()));
    for (_, kind) in SERVERS.into_iter().filter(|(name, _)| args.on(*name)) {
        if let Err(error) = on_server(args, kind, &packages, &mut table).await {
            note(&format!("{kind}: {error}"));
            table.failed(kind.name(), error.to_string());
        }
    }
    table.facts.servers.extend(packages.others());
    say(&table.markdown())?;
    if let Some(dir) = &args.out {
        table.write(dir, args.data)?;
    }
    Ok(table.is_whole(args.smoke))
}

/// All measures on one server. Fails if that dies.
async fn on_server(args: &PeersArgs, kind: Kind, packages: &Packages, table: &mut Table) -> Result<()> {
    let server = stand::start(kind, args.data).await?;
    let durability = stand::durability(kind, args.data);
    table.facts.servers.push(format!("{kind} {} ({durability})", server.version()));
    if kind == Kind::ZooKeeper && !args.smoke {
        note(&format!("{kind}: warming up"));
        raw::warm_up(&server, WARM_UP).await?;
    }
    let reader = Reader::new(&server).await?;
    let gauge = Gauge::Server(reader);
    for measure in args.measures() {
        let mut bench = Bench { args, server: &server, gauge: &gauge, packages, table };
        if let Err(error) = measures::run(measure, &mut bench).await {
            note(&format!("{kind}: {measure:?}: {error}"));
            table.failed(&format!("{kind}: {measure:?}"), error.to_string());
            // What fails with the server ends its part; what fails without it does not.
            gauge.read().await.map_err(|error| format!("the server no longer answers: {error}"))?;
        }
    }
    Ok(server.stop().await?)
}
