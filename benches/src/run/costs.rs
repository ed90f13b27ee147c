//! The cost sheet: one line a call, the stores beside each other.

use std::fmt::Write as _;

use crate::{
    run::{SuiteName, record::Row},
    suites::cost::{OPERATIONS, REQUESTS, ROUND_TRIPS, WATCHING},
};

/// The sheet as Markdown; none if nothing was counted.
pub(crate) fn sheet(rows: &[Row]) -> Option<String> {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.suite == SuiteName::Cost).collect();
    let counted = |row: &&&Row| row.figure(REQUESTS).is_some();
    let (mut calls, mut stores): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for row in &rows {
        if !calls.contains(&row.at.as_str()) {
            calls.push(&row.at);
        }
    }
    for row in rows.iter().filter(counted) {
        if !stores.contains(&row.backend.as_str()) {
            stores.push(&row.backend);
        }
    }
    if calls.is_empty() {
        return None;
    }
    let mut out = String::from(
        "# What each call costs\n\nCounted by `coord-benches run --suite cost`, and compared with this page by a test. \
         Operations are calls of the `Backend` contract. For the stores with a server: requests, and round trips that are \
         waited for one after another; requests that are sent together share one. Operations and requests are with what a \
         call leaves to be done after it has returned, so they may be more. Nobody else works, and the call was made \
         before: the first one in a directory also makes the directory on ZooKeeper. Renewals of sessions are not in \
         it. A star: the call begins or ends a watch or a wait, and what that sends varies; the report has what was counted.\n\n| call | operations |",
    );
    stores.iter().for_each(|store| out += &format!(" {store}: requests | round trips |"));
    let _ = write!(out, "\n|---|---|{}\n", "---|---|".repeat(stores.len()));
    for call in calls {
        let of = |row: &&&Row| row.at == call;
        let cell = |row: Option<&&Row>, name| match row.and_then(|row| row.figure(name)) {
            Some(_) if name != ROUND_TRIPS && WATCHING.contains(&call) => "*".to_owned(),
            Some(found) => found.median.to_string(),
            None => String::new(),
        };
        let _ = write!(out, "| {call} | {} |", cell(rows.iter().find(of), OPERATIONS));
        for store in &stores {
            let row = rows.iter().filter(of).find(|row| row.backend == *store);
            let _ = write!(out, " {} | {} |", cell(row, REQUESTS), cell(row, ROUND_TRIPS));
        }
        out += "\n";
    }
    Some(out)
}
