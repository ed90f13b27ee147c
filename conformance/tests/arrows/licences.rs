//! What everything we build on may be licensed under: the list in `deny.toml`, held without cargo-deny.

use std::{collections::HashSet, process::Command};

use serde_json::Value;

use super::{cargo, list, read, refuse, root};

/// Whether a licence expression can be met by `allowed` licences alone.
///
/// SPDX, of which AND binds tighter than OR; a slash is OR, as old manifests write it.
fn is_met(expression: &str, allowed: &HashSet<String>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let met = any(&mut rest, allowed);
    met && rest.is_empty()
}

fn any(rest: &mut &[&str], allowed: &HashSet<String>) -> bool {
    let mut met = all(rest, allowed);
    while let ["OR", more @ ..] = *rest {
        *rest = more;
        // Read first, so that the rest is read also where it does not matter.
        met = all(rest, allowed) || met;
    }
    met
}

fn all(rest: &mut &[&str], allowed: &HashSet<String>) -> bool {
    let mut met = one(rest, allowed);
    while let ["AND", more @ ..] = *rest {
        *rest = more;
        met = one(rest, allowed) && met;
    }
    met
}

fn one(rest: &mut &[&str], allowed: &HashSet<String>) -> bool {
    match *rest {
        ["(", more @ ..] => {
            *rest = more;
            let met = any(rest, allowed);
            let [")", more @ ..] = *rest else { return false };
            *rest = more;
            met
        }
        [licence, "WITH", exception, more @ ..] => {
            *rest = more;
            allowed.contains(&format!("{licence} WITH {exception}"))
        }
        [licence, more @ ..] => {
            *rest = more;
            allowed.contains(*licence)
        }
        [] => false,
    }
}

/// The licences that `deny.toml` allows.
fn allowed() -> HashSet<String> {
    let file = read(&root().join("deny.toml"));
    let (_, rest) = file.split_once("[licenses]").expect("deny.toml has a table licenses");
    let (_, rest) = rest.split_once("allow = [").expect("the table has a list allow");
    let (names, _) = rest.split_once(']').expect("the list ends");
    names.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_licence_is_one_that_we_allow() {
    // Only what this platform builds: cargo would fetch the packages of all others.
    let version = Command::new(cargo()).arg("-vV").output().expect("cargo runs");
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("cargo tells its host");
    let mut metadata = Command::new(cargo());
    metadata.args(["metadata", "--format-version", "1", "--all-features", "--filter-platform", host]);
    let output = metadata.current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata writes JSON");

    let built: HashSet<String> =
        list(&metadata["resolve"]["nodes"]).iter().map(|n| n["id"].to_string()).collect();
    let ours: HashSet<String> = list(&metadata["workspace_members"]).iter().map(Value::to_string).collect();
    let allowed = allowed();
    let mut offenders = Vec::new();
    let mut seen = 0;
    for package in list(&metadata["packages"]) {
        let id = package["id"].to_string();
        if ours.contains(&id) || !built.contains(&id) {
            continue;
        }
        seen += 1;
        let licence = package["license"].as_str().unwrap_or("none");
        if !is_met(licence, &allowed) {
            offenders.push(format!("{} {}: {licence}", package["name"], package["version"]));
        }
    }
    assert!(seen > 100, "the test looks at the wrong packages: {seen}");
    refuse(
        &offenders,
        "a dependency under a licence that deny.toml does not allow: use another crate, or add the licence there \
         after reading it",
    );
}

#[test]
fn an_expression_is_met_only_by_what_it_asks_for() {
    let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned).into();
    for good in [
        "MIT",
        "GPL-3.0 OR MIT",
        "MIT/Apache-2.0",
        "ISC AND (GPL-3.0 OR MIT)",
        "(MIT OR GPL-3.0) AND ISC",
        "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
    ] {
        assert!(is_met(good, &allowed), "{good}");
    }
    for bad in [
        "",
        "none",
        "GPL-3.0",
        "MIT AND GPL-3.0",
        "GPL-3.0 OR MIT AND GPL-2.0",
        "(MIT",
        "MIT ISC",
        "Apache-2.0",
    ] {
        assert!(!is_met(bad, &allowed), "{bad}");
    }
}
