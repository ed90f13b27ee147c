//! The suites: those of `speed`, and those of `run`.

pub(crate) mod contended;
pub(crate) mod cost;
pub(crate) mod election;
pub(crate) mod footprint;
mod lock;
mod overhead;
mod registry;
pub(crate) mod round_trips;
pub(crate) mod throughput;
pub(crate) mod waiters;
mod watch;
mod write;

use coord_testbed::Kind;

use crate::{
    Result, note, raw,
    run::{Part, Pen, Plan, Store, SuiteName},
};

/// The suites of `run` in the order of the report, each with its tables.
pub(crate) const ALL: &[(SuiteName, &[Part])] = &[
    (SuiteName::Write, write::PARTS),
    (SuiteName::Watch, watch::PARTS),
    (SuiteName::Overhead, overhead::PARTS),
    (SuiteName::Lock, lock::PARTS),
    (SuiteName::Election, election::PARTS),
    (SuiteName::Registry, registry::PARTS),
    (SuiteName::Footprint, footprint::PARTS),
    (SuiteName::Cost, cost::PARTS),
];

/// Why a suite cannot run on a store; none if it can.
pub(crate) fn refuses(suite: SuiteName, store: &Store) -> Option<&'static str> {
    match suite {
        SuiteName::Cost if store.server().is_some() && !store.is_plain() => {
            Some("requests are counted by a proxy, which cannot read TLS and knows no password")
        }
        _ => None,
    }
}

/// Runs a suite once on one store.
pub(crate) async fn repetition(suite: SuiteName, store: &Store, plan: Plan, pen: &mut Pen<'_>) -> Result<()> {
    match suite {
        SuiteName::Write => write::repetition(store, plan, pen).await,
        SuiteName::Watch => watch::repetition(store, plan, pen).await,
        SuiteName::Overhead => overhead::repetition(store, plan, pen).await,
        SuiteName::Lock => lock::repetition(store, plan, pen).await,
        SuiteName::Election => election::repetition(store, plan, pen).await,
        SuiteName::Registry => registry::repetition(store, plan, pen).await,
        SuiteName::Footprint => footprint::repetition(store, plan, pen).await,
        SuiteName::Cost => cost::repetition(store, plan, pen).await,
    }
}

/// Lets a JVM compile what it will run often.
pub(crate) async fn warm_up(plan: Plan, store: &Store) -> Result<()> {
    let Some(server) = store.server() else { return Ok(()) };
    if plan.smoke || !matches!(server.kind(), Kind::ZooKeeper | Kind::ZooKeeper38) {
        return Ok(());
    }
    note(&format!("{}: warming up", store.name()));
    raw::warm_up(server, plan.span(crate::WARM_UP.as_secs_f64())).await
}
