//! `coord-benches peers`, as a user runs it: every measure works on every store, and what is missing is told.

use std::process::{Command, Output};

use serde_json::Value;

/// The stores, with the variable that says where the server comes from.
const STORES: [(&str, &str); 3] =
    [("zk", "COORD_TEST_ZK"), ("etcd", "COORD_TEST_ETCD"), ("redis", "COORD_TEST_REDIS")];

/// Whether it was left out deliberately.
fn is_off(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|value| value == "off")
}

/// Runs it with its servers in memory; also what it found.
fn peers(args: &[&str]) -> (Output, Value) {
    let out = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_coord-benches"));
    command.args(["peers", "--data", "memory", "--out"]).arg(out.path()).args(args);
    let output = command.output().expect("the program runs");
    let text = std::fs::read(out.path().join("peers-memory.json")).unwrap_or_default();
    let report = std::fs::read_to_string(out.path().join("peers-memory.md")).unwrap_or_default();
    assert!(
        report.contains("| measure | ours | peer | ratio | reach | met |"),
        "{report}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    (output, serde_json::from_slice(&text).expect("results are JSON"))
}

fn list<'a>(results: &'a Value, name: &str) -> &'a [Value] {
    results[name].as_array().expect(name)
}

#[test]
fn every_measure_works_on_every_store() {
    let on: Vec<&str> =
        STORES.into_iter().filter(|(_, variable)| !is_off(variable)).map(|(name, _)| name).collect();
    if on.is_empty() {
        return;
    }
    let (output, results) = peers(&["--smoke", "--stores", &on.join(",")]);
    assert!(output.status.success(), "{results}\n{}", String::from_utf8_lossy(&output.stderr));
    // Packets between two readings of a counter: none if the machine stood still just then.
    let steady = |row: &&Value| row["measure"].as_str().is_some_and(|measure| !measure.contains("packets"));
    for row in list(&results, "rows").iter().filter(steady) {
        for sample in [&row["ours"], &row["peer"]["found"], &row["peer"]["ratio"]] {
            assert!(sample.is_null() || sample["median"].as_f64().is_some_and(f64::is_finite), "{row}");
        }
    }
    // Ours alone on Redis needs no package; the peer of etcd is built in.
    for (store, least) in [("redis", 5), ("etcd", 8)] {
        let prefix = format!("{store}: ");
        let of = |row: &&Value| row["measure"].as_str().is_some_and(|measure| measure.starts_with(&prefix));
        let count = list(&results, "rows").iter().filter(of).count();
        assert!(!on.contains(&store) || count >= least, "{count} rows on {store}: {results}");
    }
}

#[test]
fn a_missing_package_is_named_and_the_rest_is_measured() {
    if is_off("COORD_TEST_REDIS") {
        return;
    }
    let args =
        ["--stores", "redis", "--measures", "uncontended,burst", "--pairs", "1", "--python", "/no/python"];
    for (smoke, passes) in [(&["--scale", "0.01"][..], false), (&["--smoke"][..], true)] {
        let (output, results) = peers(&[&args[..], smoke].concat());
        assert_eq!(output.status.success(), passes, "{results}");
        let [left] = list(&results, "not_measured") else { panic!("{results}") };
        let why = left["why"].as_str().expect("why");
        assert!(why.contains("pip install redis") && why.contains("apt-get install python3-redis"), "{why}");
        assert!(left["measure"].as_str().is_some_and(|measure| measure.contains("uncontended")), "{left}");
        assert_eq!(list(&results, "rows").len(), 2, "{results}");
    }
}
