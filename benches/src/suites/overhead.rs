//! What our API costs over the raw driver, and the layers over the bare backend.

use crate::{
    Result,
    load::{self, Load},
    raw::{self, Operation, Side},
    raw_txn::{self, Conditional},
    run::{Chart, Part, Pen, Plan, Store},
};

const AT: &str = "tasks";
const CHARTS: &[Chart] = &[Chart::Lines("ops/s")];
const TEXT: &str = "Values of 100 bytes, one connection a side, all sides on the same server in turn. *coord* is the handle \
                    that `coord::connect` gives; *without layers* is the same backend without time-out, retry and \
                    trace. coord / this: taken in each repetition; above 1 ours is faster.";

pub(crate) const PARTS: &[Part] = &[
    Part { name: "get", title: "Overhead of get", text: TEXT, at: AT, charts: CHARTS },
    Part { name: "put", title: "Overhead of put", text: TEXT, at: AT, charts: CHARTS },
    Part {
        name: "compare-and-set",
        title: "Overhead of compare-and-set",
        text: TEXT,
        at: AT,
        charts: CHARTS,
    },
    Part {
        name: "txn",
        title: "Overhead of a transaction of two writes",
        text: TEXT,
        at: AT,
        charts: CHARTS,
    },
];

/// Ours is the first of the sides of an operation.
async fn sides(store: &Store, part: &str) -> Result<Vec<Side>> {
    let (full, bare) = (store.open().await?, store.bare().await?);
    let server = store.server().filter(|_| store.is_plain());
    Ok(match part {
        "get" | "put" => {
            let operation = if part == "get" { Operation::Get } else { Operation::Put };
            let mut sides = vec![raw::ours(&full, operation).await?];
            sides.push(Side { name: "coord without layers", ..raw::ours(&bare, operation).await? });
            if let Some(server) = server {
                sides.extend(raw::peers(server, operation).await?);
            }
            sides
        }
        _ => {
            let what = if part == "txn" { Conditional::Pair } else { Conditional::CompareAndSet };
            let mut sides = vec![
                Side { name: "coord", op: raw_txn::ours(&full, "/txn", what).await? },
                Side { name: "coord without layers", op: raw_txn::ours(&bare, "/bare", what).await? },
            ];
            if let Some(server) = server {
                sides.push(raw_txn::peer(server, what).await?);
            }
            sides
        }
    })
}

pub(crate) async fn repetition(store: &Store, plan: Plan, pen: &mut Pen<'_>) -> Result<()> {
    for Part { name: part, .. } in PARTS {
        let sides = sides(store, part).await?;
        for tasks in plan.pick(&[1, 16, 64, 256][..], &[1, 16][..]).iter().copied() {
            let mut ours: Option<Load> = None;
            for side in &sides {
                let load = load::run(&side.op, tasks, plan.settle() / 2, plan.span(0.2)).await?;
                let mut figures = vec![
                    ("ops/s", load.ops_per_s),
                    ("p50 ms", load.p50_ms),
                    ("p99 ms", load.p99_ms),
                    ("client CPU µs", load.cpu_us),
                ];
                match ours {
                    Some(ours) => figures.push(("coord / this", ours.ops_per_s / load.ops_per_s)),
                    None => ours = Some(load),
                }
                pen.put(part, side.name, tasks, &figures);
            }
        }
    }
    Ok(())
}
