//! How many writes a second a store takes, by the size of the value.

use std::sync::Arc;

use coord::Key;

use crate::{
    Result,
    load::{self, Op},
    run::{Chart, Part, Pen, Plan, Store},
};

pub(crate) const PARTS: &[Part] = &[
    Part {
        name: "one",
        title: "Writes, one at a time",
        text: "`put` by one task: each waits for the one before. What it takes is a round trip and what the store \
               does for durability.",
        at: "value bytes",
        charts: &[Chart::Lines("writes/s")],
    },
    Part {
        name: "many",
        title: "Writes, 64 at a time",
        text: "`put` by 64 tasks, each to a key of its own, through one handle: stores write several together then.",
        at: "value bytes",
        charts: &[Chart::Lines("writes/s"), Chart::Lines("MB/s")],
    },
];

const SIZES: [usize; 4] = [100, 1 << 10, 10 << 10, 64 << 10];
const TASKS: usize = 64;

pub(crate) async fn repetition(store: &Store, plan: Plan, pen: &mut Pen<'_>) -> Result<()> {
    let coord = store.open().await?;
    let sizes = plan.pick(&SIZES[..], &SIZES[..1]);
    let keys = (0..TASKS).map(|number| Key::parse(&format!("/write/k{number}")));
    let keys: Arc<[Key]> = keys.collect::<coord::Result<_>>()?;
    for size in sizes.iter().copied() {
        let value = vec![b'x'; size];
        for (part, tasks) in [("one", 1), ("many", TASKS)] {
            let (coord, keys, value) = (coord.clone(), Arc::clone(&keys), value.clone());
            let op: Op = Arc::new(move |task| {
                let (coord, keys, value) = (coord.clone(), Arc::clone(&keys), value.clone());
                Box::pin(async move { Ok(coord.put(&keys[task % TASKS], value).await.map(drop)?) })
            });
            let load = load::run(&op, tasks, plan.settle(), plan.span(0.5)).await?;
            let figures = [
                ("writes/s", load.ops_per_s),
                ("MB/s", load.ops_per_s * size as f64 / 1e6),
                ("p50 ms", load.p50_ms),
                ("p99 ms", load.p99_ms),
            ];
            pen.put(part, "coord", size, &figures);
        }
    }
    Ok(coord.close().await?)
}
