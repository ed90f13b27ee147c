//! The shape of the workspace: who may depend on whom, and what no source may hold.
//!
//! Every rule says what to do where it is broken. The map is `ARCHITECTURE.md`, the reasons are in `docs/adr/`.

use std::{collections::BTreeSet, env, ffi::OsString, fmt::Write as _, process::Command};

use serde_json::Value;

#[path = "arrows/licences.rs"]
mod licences;
mod workspace;

use workspace::{files, read, root, shown};

/// Most lines of a source file: one idea each.
const LINES_MAX: usize = 420;

const CONTRACT: &str = "coord-api";
const FACADE: &str = "coord";
const BACKEND: &str = "coord-backend-";

const CONFORMANCE: &str = "coord-conformance";

/// Programs and not libraries: they may use what users use.
const TOOLS: &[&str] = &["coord-cli", "coord-benches"];

/// A package of the workspace and those of its dependencies that are ours.
#[derive(Debug)]
struct Package {
    name: String,
    /// Dependencies of the library itself and of its build script, optional ones included.
    normal: BTreeSet<String>,
    /// Those of them that a feature switches on.
    optional: BTreeSet<String>,
    /// Dependencies of its tests and examples.
    dev: BTreeSet<String>,
}

impl Package {
    fn is_backend(&self) -> bool {
        self.name.starts_with(BACKEND)
    }
}

/// The cargo that runs this test.
fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().expect("a list").clone()
}

fn packages() -> Vec<Package> {
    let mut metadata = Command::new(cargo());
    metadata.args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path"]);
    let output = metadata.arg(root().join("Cargo.toml")).output().expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata writes JSON");

    let name = |value: &Value| value["name"].as_str().expect("a name").to_owned();
    let members = list(&metadata["packages"]);
    let ours: BTreeSet<String> = members.iter().map(name).collect();
    let which = |member: &Value, wanted: &dyn Fn(&Value) -> bool| {
        let dependencies = list(&member["dependencies"]);
        dependencies.iter().filter(|d| wanted(d)).map(name).filter(|name| ours.contains(name)).collect()
    };
    let is_dev = |dependency: &Value| dependency["kind"].as_str() == Some("dev");
    let is_optional = |dependency: &Value| dependency["optional"].as_bool() == Some(true);
    let package = |member: &Value| Package {
        name: name(member),
        normal: which(member, &|d| !is_dev(d)),
        optional: which(member, &|d| !is_dev(d) && is_optional(d)),
        dev: which(member, &is_dev),
    };
    members.iter().map(package).collect()
}

fn package(name: &str) -> Package {
    packages().into_iter().find(|package| package.name == name).expect(name)
}

/// The code of a source without its comments and its unit tests, by line number.
fn code(text: &str) -> Vec<(usize, &str)> {
    let before_tests = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = before_tests.lines().enumerate().map(|(at, line)| {
        let line = line.trim_start();
        (at + 1, if line.starts_with("//") { "" } else { line.split(" //").next().unwrap_or_default() })
    });
    lines.filter(|(_, line)| !line.is_empty()).collect()
}

/// Whether `word` stands in `line` as a word of its own, in any case.
fn has_word(line: &str, word: &str) -> bool {
    line.to_lowercase().split(|c: char| !c.is_alphanumeric()).any(|part| part == word)
}

fn refuse(offenders: &[String], what_to_do: &str) {
    let list = offenders.iter().fold(String::new(), |mut list, offender| {
        let _ = write!(list, "\n  {offender}");
        list
    });
    assert!(offenders.is_empty(), "{what_to_do}{list}");
}

/// Refuses what `package` depends on beside `allowed`.
fn may_use(package: &Package, allowed: &[&str], what_to_do: &str) {
    let more = package.normal.iter().filter(|name| !allowed.contains(&name.as_str()));
    let offenders: Vec<_> = more.map(|name| format!("{} -> {name}", package.name)).collect();
    refuse(&offenders, what_to_do);
}

// ---- arrows ------------------------------------------------------------------------------------------------------

#[test]
fn the_contract_depends_on_nobody() {
    may_use(
        &package(CONTRACT),
        &[],
        "coord-api is what all others agree on: move what needs another crate into that crate",
    );
}

#[test]
fn a_backend_depends_on_the_contract_only() {
    let backends: Vec<_> = packages().into_iter().filter(Package::is_backend).collect();
    assert!(backends.len() >= 4, "the test looks at the wrong packages: {backends:?}");
    for backend in &backends {
        may_use(
            backend,
            &[CONTRACT],
            "a backend knows the contract and its driver: what several backends need goes into coord_api::kit, \
             what is a recipe into recipes/",
        );
    }
}

#[test]
fn recipes_and_layers_know_no_backend() {
    for name in ["coord-recipes", "coord-layers"] {
        may_use(
            &package(name),
            &[CONTRACT],
            "recipes and layers are written once for all stores: what they need must be in the contract, and then \
             every backend has it",
        );
    }
}

#[test]
fn the_registry_knows_the_recipes_and_no_backend() {
    may_use(
        &package("coord-registry"),
        &[CONTRACT, "coord-recipes"],
        "the registry is a recipe of recipes, the same on all stores: what it needs must be in the contract",
    );
}

#[test]
fn conformance_knows_no_backend() {
    let mut suite = package(CONFORMANCE);
    // The runner and the ready fixtures are a feature.
    suite.normal.retain(|name| !suite.optional.contains(name));
    may_use(
        &suite,
        &[CONTRACT, "coord-recipes", "coord-registry", "coord-config-centre"],
        "the suite takes a fixture, so that backends of others can run it: make the dependency optional, behind the \
         feature labs",
    );
}

#[test]
fn the_testbed_knows_none_of_ours() {
    let testbed = package("coord-testbed");
    let both: Vec<_> =
        testbed.normal.union(&testbed.dev).map(|name| format!("coord-testbed -> {name}")).collect();
    refuse(&both, "the testbed starts servers for anybody's tests: let the caller bring the client");
}

#[test]
fn only_tools_depend_on_the_facade() {
    let mut offenders = Vec::new();
    for package in packages() {
        let tool = TOOLS.contains(&package.name.as_str());
        // Its runner is a tool, and that is optional.
        let runner = package.name == CONFORMANCE && package.optional.contains(FACADE);
        if (package.normal.contains(FACADE) || package.dev.contains(FACADE)) && !tool && !runner {
            offenders.push(format!("{} -> {FACADE}", package.name));
        }
    }
    refuse(
        &offenders,
        "the facade is for users and brings every backend: a library uses coord-api, its tests coord-backend-memory",
    );
}

// ---- sources -----------------------------------------------------------------------------------------------------

#[test]
fn a_recipe_does_not_know_on_which_store_it_runs() {
    const STORES: &[&str] =
        &["zk", "zookeeper", "curator", "etcd", "redis", "valkey", "sqlite", "memory", "scheme"];
    const FACTS: &[&str] = &["guarantees", "limits", "backendinfo", "info"];
    let sources = files(&root().join("recipes/src"), &["rs"]);
    assert!(sources.len() >= 3, "the test looks at the wrong files: {sources:?}");
    let mut offenders = Vec::new();
    for path in &sources {
        let text = read(path);
        for (number, line) in code(&text) {
            // A log line is no fact about a store.
            let line = line.replace("tracing::info!", "");
            if let Some(word) = STORES.iter().chain(FACTS).find(|word| has_word(&line, word)) {
                offenders.push(format!("{}:{number}: {word}", shown(path)));
            }
        }
    }
    refuse(
        &offenders,
        "a recipe has no branch for a store and reads neither Guarantees nor Limits: change the contract instead, so \
         that every backend does what the recipe needs",
    );
}

#[test]
fn files_stay_short() {
    let long = files(root(), &["rs"]).into_iter().filter_map(|path| {
        let lines = read(&path).lines().count();
        (lines > LINES_MAX).then(|| format!("{}: {lines} lines", shown(&path)))
    });
    refuse(
        &long.collect::<Vec<_>>(),
        "a file holds one idea in at most 420 lines: split it where its idea ends",
    );
}

#[test]
fn no_data_gets_into_the_text_of_a_script() {
    const BUILDING: &[&str] =
        &["format!", "push_str", "write!", ".join(", ".replace(", ".concat(", "+ &", "+="];
    const SCRIPTS: &[&str] = &["EVALSHA", "\"SCRIPT\"", "Script::new", ".text()", "#!lua", "include_str!"];
    let sources = files(&root().join("backend-redis/src"), &["rs"]);
    let mut offenders = Vec::new();
    let mut seen = 0;
    for path in &sources {
        let text = read(path);
        let lines = code(&text);
        for (at, (number, line)) in lines.iter().enumerate() {
            if line.contains("\"EVAL\"") || line.contains(".invoke") {
                offenders.push(format!("{}:{number}: a script that is not loaded", shown(path)));
            }
            if !SCRIPTS.iter().any(|word| line.contains(word)) {
                continue;
            }
            seen += 1;
            let near = &lines[at.saturating_sub(3)..lines.len().min(at + 4)];
            let building = |line: &str| BUILDING.iter().any(|word| line.contains(word));
            if let Some((number, _)) = near.iter().find(|(_, line)| building(line)) {
                offenders.push(format!("{}:{number}: text is built beside a script", shown(path)));
            }
        }
    }
    assert!(seen >= 5, "the test looks at the wrong files: {seen} lines about scripts");
    refuse(
        &offenders,
        "the text of a script is constant, data goes through KEYS and ARGV: what is built from data can become code",
    );

    let scripts = files(&root().join("backend-redis/src"), &["lua"]);
    assert!(scripts.len() > 5, "the test looks at the wrong files");
    let mut offenders = Vec::new();
    for path in &scripts {
        for (at, line) in read(path).lines().enumerate() {
            if ["load", "loadstring", "dofile"].iter().any(|word| line.contains(&format!("{word}("))) {
                offenders.push(format!("{}:{}", shown(path), at + 1));
            }
        }
    }
    refuse(&offenders, "a script does not make code of data");
}

#[test]
fn nothing_is_left_undone() {
    // Put together, so that this file does not find itself.
    let words = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("todo", "!("),
        concat!("dbg", "!("),
        concat!("unimplemented", "!("),
    ];
    let sources = files(root(), &["rs", "lua", "sh", "toml"]);
    assert!(sources.len() > 100, "the test looks at the wrong files");
    let mut offenders = Vec::new();
    for path in &sources {
        for (at, line) in read(path).lines().enumerate() {
            if let Some(word) = words.iter().find(|word| line.contains(**word)) {
                offenders.push(format!("{}:{}: {word}", shown(path), at + 1));
            }
        }
    }
    refuse(&offenders, "finish it, or open an issue and leave the code as it is meant to be");
}
