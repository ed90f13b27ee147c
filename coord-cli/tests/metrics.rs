//! The names of metrics: what is given, what the page tells, and what the dashboard shows.

use std::{collections::BTreeSet, path::Path, process::Command};

use coord::layers::metrics::names::{self, Kind, Metric};
use coord_cli::METRICS;
use serde_json::Value;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn given() -> impl Iterator<Item = &'static Metric> {
    names::ALL.iter().chain(METRICS)
}

/// What a metric is called on a page.
fn series(metric: &Metric) -> Vec<String> {
    match metric.kind {
        Kind::Histogram => ["_bucket", "_sum", "_count"].map(|end| format!("{}{end}", metric.name)).to_vec(),
        Kind::Counter | Kind::Gauge => vec![metric.name.to_owned()],
    }
}

/// The words of a text that are names of metrics.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| word.starts_with("coord_"))
}

/// All that a document asks a data source for.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                match value {
                    Value::String(text) if name == "expr" || name == "query" => found.push(text.clone()),
                    _ => expressions(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| expressions(value, found)),
        _ => {}
    }
}

#[test]
fn the_dashboard_shows_what_is_given_and_all_of_it() {
    let dashboard: Value = serde_json::from_str(&read("docs/grafana/coord.json")).expect("JSON");
    let mut asked = Vec::new();
    expressions(&dashboard, &mut asked);
    let asked: BTreeSet<&str> = asked.iter().flat_map(|text| words(text)).collect();
    let known: BTreeSet<String> = given().flat_map(series).collect();
    let unknown: Vec<_> = asked.iter().filter(|name| !known.contains(**name)).collect();
    assert!(unknown.is_empty(), "the dashboard shows what nobody gives: {unknown:?}");
    for metric in given() {
        assert!(
            series(metric).iter().any(|name| asked.contains(name.as_str())),
            "the dashboard does not show {}",
            metric.name
        );
    }
}

#[test]
fn the_page_of_the_documentation_names_what_is_given() {
    let page = read("docs/observability.md");
    let row = |metric: &Metric| {
        let kind = format!("{:?}", metric.kind).to_lowercase();
        // Every metric has the label of the store, which the tables leave out.
        let labels = metric.labels.iter().filter(|label| **label != "store");
        let labels: Vec<_> = labels.map(|label| format!("`{label}`")).collect();
        format!("| `{}` | {kind} | {} |", metric.name, labels.join(", ")).replace("|  |", "| |")
    };
    for metric in given() {
        assert!(page.contains(&row(metric)), "no row {}", row(metric));
    }
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `coord_")?.split('`').next());
    let told: BTreeSet<_> = rows.map(|rest| format!("coord_{rest}")).collect();
    let known: BTreeSet<_> = given().map(|metric| metric.name.to_owned()).collect();
    assert_eq!(told, known, "the tables name what nobody gives");
}

#[test]
fn an_address_that_is_taken_is_told_and_so_is_one_that_is_none() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let serve = |address: &str| {
        let args = ["--url", "memory:metrics", "serve-metrics", "--listen", address];
        let output = Command::new(env!("CARGO_BIN_EXE_coord")).args(args).output().expect("coord starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let address = taken.local_addr().expect("bound").to_string();
    let (code, said) = serve(&address);
    assert!(code == Some(125) && said.contains(&format!("cannot listen on {address}")), "{code:?}: {said}");
    let (code, said) = serve("nowhere");
    assert!(code == Some(2) && said.contains("--listen"), "{code:?}: {said}");
}
