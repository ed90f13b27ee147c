//! `coord-benches run`, as a user runs it: every suite works on every store, and what goes wrong is told.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

use coord_testbed::{Kind, Provider, Server, ServerOptions};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};

/// The stores of the smoke run, with the variable that says where the server comes from.
const BACKENDS: [(&str, Option<&str>); 5] = [
    ("memory:", None),
    ("sqlite:", None),
    ("local:zookeeper", Some("COORD_TEST_ZK")),
    ("local:etcd", Some("COORD_TEST_ETCD")),
    ("local:redis", Some("COORD_TEST_REDIS")),
];
const SUITES: [&str; 8] = ["write", "watch", "overhead", "lock", "election", "registry", "footprint", "cost"];

/// Those that were not left out deliberately.
fn backends() -> Vec<&'static str> {
    let is_off = |variable: &str| std::env::var(variable).is_ok_and(|value| value == "off");
    let wanted = BACKENDS.into_iter().filter(|(_, variable)| !variable.is_some_and(is_off));
    wanted.map(|(backend, _)| backend).collect()
}

fn run(out: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coord-benches"));
    command.arg("run").args(args).arg("--out").arg(out);
    command.output().expect("the program runs")
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn results(out: &Path) -> Value {
    let text = std::fs::read(out.join("results.json")).expect("results are written");
    serde_json::from_slice(&text).expect("results are JSON")
}

fn rows(results: &Value) -> &[Value] {
    results["rows"].as_array().expect("rows")
}

fn temporary() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

/// Where Redis comes from; `None` if it was left out deliberately, or is somebody else's, and not ours to kill or to set
/// up.
async fn own_redis() -> Option<Provider> {
    if !backends().contains(&"local:redis") {
        return None;
    }
    let provider = Provider::choose(Kind::Redis).await.expect("a provider");
    (!matches!(provider, Provider::Url(_))).then_some(provider)
}

#[test]
fn every_suite_has_figures_on_every_store() {
    let out = temporary();
    let backends = backends();
    let args: Vec<&str> =
        ["--smoke", "--data", "memory", "--backend"].into_iter().chain(backends.clone()).collect();
    let output = run(out.path(), &args);
    assert!(output.status.success(), "{}", told(&output));
    let results = results(out.path());
    for backend in backends {
        let name = backend.trim_end_matches(':').trim_start_matches("local:");
        for suite in SUITES {
            let of = |row: &&Value| row["suite"] == suite && row["backend"] == name;
            let mut count = 0;
            for figure in
                rows(&results).iter().filter(of).flat_map(|row| row["figures"].as_array().expect("figures"))
            {
                let median = figure["sample"]["median"].as_f64();
                assert!(median.is_some_and(f64::is_finite), "{suite} on {name}: {figure}");
                count += 1;
            }
            assert!(count > 0, "{suite} on {name} has no figures");
        }
        let overlaps =
            rows(&results).iter().filter(|row| row["part"] == "contended" && row["backend"] == name);
        for row in overlaps {
            let of = |figure: &&Value| figure["name"] == "overlaps";
            let found = row["figures"].as_array().expect("figures").iter().find(of).expect("overlaps");
            assert_eq!(found["sample"]["max"], 0.0, "two held the lock at once: {row}");
        }
    }
    let report = std::fs::read_to_string(out.path().join("report.md")).expect("a report");
    for chart in report.split("](charts/").skip(1).map(|rest| rest.split(')').next().expect("a name")) {
        let drawing = std::fs::read_to_string(out.path().join("charts").join(chart)).expect(chart);
        assert!(drawing.contains("<svg") && drawing.trim_end().ends_with("</svg>"), "{chart}");
    }
    assert!(report.contains("](charts/write-one-writes-s.svg)"), "{report}");
}

#[test]
fn results_of_another_durability_are_not_mixed() {
    let out = temporary();
    let args = ["--smoke", "--suite", "write", "--backend", "sqlite:", "--data"];
    assert!(run(out.path(), &[&args[..], &["memory"]].concat()).status.success());
    let before = std::fs::read(out.path().join("results.json")).expect("results");

    let output = run(out.path(), &[&args[..], &["disk"]].concat());
    assert!(!output.status.success());
    assert!(told(&output).contains("may not be mixed"), "{}", told(&output));
    assert_eq!(std::fs::read(out.path().join("results.json")).expect("results"), before);

    // The same again is no mixture, and replaces what was there.
    let count = rows(&results(out.path())).len();
    assert!(run(out.path(), &[&args[..], &["memory"]].concat()).status.success());
    assert_eq!(rows(&results(out.path())).len(), count);
}

#[test]
fn results_of_another_version_are_not_mixed() {
    let out = temporary();
    let args = ["--smoke", "--suite", "write", "--data", "memory", "--backend", "sqlite:"];
    assert!(run(out.path(), &args).status.success());
    let here = results(out.path());
    let other = |change: &dyn Fn(&mut Value)| {
        let mut results = here.clone();
        change(&mut results);
        results
    };
    for (results, why) in [
        (
            other(&|results| results["stores"][0]["version"] = "SQLite 3.0.0".into()),
            "another sqlite: SQLite 3.0.0",
        ),
        (
            other(&|results| results["origin"]["drivers"][0] = "a driver 0.0.1".into()),
            "other drivers: a driver 0.0.1",
        ),
        (other(&|results| results["origin"]["commit"] = "abc".into()), "other commit: \"abc\""),
    ] {
        let earlier = results.to_string();
        std::fs::write(out.path().join("results.json"), &earlier).expect("written");
        let output = run(out.path(), &args);
        assert!(!output.status.success(), "{why}");
        let told = told(&output);
        assert!(told.contains("may not be mixed") && told.contains(why), "{why}: {told}");
        assert!(!told.contains("write on sqlite"), "it was measured: {told}");
        let left = std::fs::read_to_string(out.path().join("results.json")).expect("results");
        assert_eq!(left, earlier, "{why}");
    }
}

#[tokio::test]
async fn a_suite_that_cannot_run_on_a_store_says_why_and_fails() {
    let Some(provider) = own_redis().await else { return };
    let options = ServerOptions::new().auth("default", "a-password");
    let server = Server::start(Kind::Redis, &provider, options).await.expect("a server");
    let (out, url) = (temporary(), format!("redis://default:a-password@{}", server.addr()));
    let output = run(out.path(), &["--smoke", "--suite", "write,cost", "--backend", "memory:", &url]);
    assert!(!output.status.success());
    let told = told(&output);
    assert!(told.contains("cost on redis at ") && told.contains("counted by a proxy"), "{told}");
    assert!(!told.contains("write on memory"), "it was measured: {told}");
    assert!(!out.path().join("results.json").exists());
}

#[test]
fn what_is_no_store_is_refused_before_anything_is_measured() {
    let out = temporary();
    for (backend, why) in [
        ("local:postgres", "known: zookeeper"),
        ("postgres://127.0.0.1/", "unknown scheme"),
        ("etcd://127.0.0.1:1/app", "no path, please"),
        ("nothing", "URL"),
    ] {
        let output = run(out.path(), &["--smoke", "--suite", "write", "--backend", "memory:", backend]);
        assert!(!output.status.success(), "{backend}");
        assert!(told(&output).contains(why), "{backend}: {}", told(&output));
    }
    assert!(!out.path().join("results.json").exists());
}

#[tokio::test]
async fn a_server_that_dies_ends_the_run_with_what_was_measured() {
    let Some(provider) = own_redis().await else { return };
    let mut server = Server::start(Kind::Redis, &provider, ServerOptions::new()).await.expect("a server");
    let out = temporary();
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_coord-benches"));
    command.args([
        "run",
        "--smoke",
        "--suite",
        "write,lock",
        "--repetitions",
        "1000",
        "--backend",
        &server.url(),
    ]);
    let mut running = command
        .arg("--out")
        .arg(out.path())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(running.stderr.take().expect("piped")).lines();
    let mut told = String::new();
    while let Some(line) = lines.next_line().await.expect("text") {
        told += &line;
        // The first repetition is over.
        if line.contains("2 of 1000") {
            server.kill().await.expect("it dies");
        }
    }
    let status = running.wait().await.expect("it ends");
    assert!(!status.success(), "{told}");
    assert!(told.contains("the run ends here: write on redis at "), "{told}");
    let results = results(out.path());
    assert!(!rows(&results).is_empty());
    assert!(
        results["left_out"][0].as_str().is_some_and(|why| why.contains("everything after this")),
        "{results}"
    );
}

/// One line a call: operations, and requests and round trips of one store.
fn costs(sheet: &str, store: &str) -> Vec<[String; 4]> {
    let lines = sheet.lines().filter(|line| line.starts_with("| "));
    let mut lines = lines.map(|line| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>());
    let heads = lines.next().expect("a table");
    let at =
        heads.iter().position(|head| *head == format!("{store}: requests")).expect("a column of the store");
    lines.map(|cells| [&cells[1], &cells[2], &cells[at], &cells[at + 1]].map(String::clone)).collect()
}

/// Counts without noise: whoever changes them changes the page with them.
fn the_cost_sheet_is_true(store: &str) {
    let backend = format!("local:{store}");
    if !backends().contains(&backend.as_str()) {
        return;
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/benchmarks/costs.md");
    let committed = costs(&std::fs::read_to_string(&page).expect("the committed sheet"), store);
    // A machine that stands still for a while makes a call look longer, never shorter.
    for attempt in 1..=3 {
        let out = temporary();
        let output =
            run(out.path(), &["--suite", "cost", "--data", "memory", "--backend", "memory:", &backend]);
        assert!(output.status.success(), "{}", told(&output));
        let counted = costs(&std::fs::read_to_string(out.path().join("costs.md")).expect("a sheet"), store);
        if counted == committed {
            return;
        }
        let now = counted.iter().filter(|call| !committed.contains(call)).collect::<Vec<_>>();
        assert!(attempt < 3, "if this is as it should be, put it into {}: {now:?}", page.display());
    }
}

#[test]
fn the_cost_sheet_is_true_on_zookeeper() {
    the_cost_sheet_is_true("zookeeper");
}

#[test]
fn the_cost_sheet_is_true_on_etcd() {
    the_cost_sheet_is_true("etcd");
}

#[test]
fn the_cost_sheet_is_true_on_redis() {
    the_cost_sheet_is_true("redis");
}
