//! How long the small things take: `cargo bench -p coord-benches --bench micro`.

#[path = "cases/mod.rs"]
mod cases;

use cases::Bench;
use criterion::Criterion;

struct Timed(Criterion);

impl Bench for Timed {
    fn case<R>(&mut self, group: &str, name: &str, mut op: impl FnMut() -> R) {
        self.0.benchmark_group(group).bench_function(name, |bencher| bencher.iter(&mut op));
    }
}

fn main() {
    let mut bench = Timed(Criterion::default().configure_from_args());
    cases::all(&mut bench);
    bench.0.final_summary();
}
