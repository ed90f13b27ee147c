//! The simulation repeats from its seed.

use coord_conformance::sim::{Setup, run, scenarios};

fn trace(setup: &Setup) -> String {
    run(setup).unwrap().history.to_json_lines().unwrap()
}

#[test]
fn the_same_seed_gives_the_same_run_to_the_byte() {
    for scenario in scenarios::ALL {
        for seed in 0..30 {
            let setup = Setup::of(scenario, seed);
            let (first, second) = (trace(&setup), trace(&setup));
            assert!(first.len() > 1000, "{setup}: nothing happened");
            let differs = first.lines().zip(second.lines()).position(|(a, b)| a != b);
            assert!(first == second, "{setup}: the runs differ from line {differs:?}");
        }
    }
}
