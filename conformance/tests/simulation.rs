//! The simulation repeats from its seed.

use coord_conformance::sim::{Setup, run, scenarios};

fn trace(setup: &Setup) -> String {
    run(setup).expect("a run").history.to_json_lines().expect("it serialises")
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

#[test]
fn another_process_gives_the_same_run() {
    for scenario in scenarios::ALL {
        let setup = Setup::of(scenario, 11);
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.jsonl", scenario.name));
        let status = std::process::Command::new(env!("CARGO_BIN_EXE_coord-conformance"))
            .args(["simulate", "--scenario", scenario.name, "--seed", "11", "--trace"])
            .arg(&path)
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "{setup}");
        assert!(trace(&setup) == std::fs::read_to_string(&path).unwrap(), "{setup}: the runs differ");
    }
}

#[test]
fn a_reader_that_goes_away_changes_neither_the_work_nor_the_exit_code() {
    let simulate = |what: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_coord-conformance"));
        command.arg("simulate").args(what);
        let (read, write) = std::io::pipe().unwrap();
        drop(read);
        command.stdout(write.try_clone().unwrap()).stderr(write).status().unwrap().code()
    };
    assert_eq!(simulate(&["--scenario", "lock", "--seeds", "2"]), Some(0));
    assert_eq!(simulate(&["--scenario", "lock", "--seed", "2"]), Some(0));
    assert_eq!(simulate(&["--scenario", "nothing"]), Some(1));
}
