//! Results as Markdown, for people.

use std::fmt::Write as _;

use crate::{
    report::shown,
    run::{
        charts::Drawn,
        record::{Part, Results, Row},
    },
    suites,
};

/// The whole report, with the charts that were drawn.
pub(crate) fn markdown(results: &Results, drawn: &[Drawn]) -> String {
    let mut out = String::from(
        "# Stores compared\n\nWritten by `coord-benches run`; how it is measured stands in the \
                                [README](README.md).\n\n",
    );
    facts(&mut out, results);
    for (suite, parts) in suites::ALL {
        for part in *parts {
            let rows = |row: &&Row| row.suite == *suite && row.part == part.name;
            let rows: Vec<_> = results.rows.iter().filter(rows).collect();
            if !rows.is_empty() {
                table(&mut out, part, &rows);
                let charts = drawn.iter().filter(|drawn| drawn.suite == *suite && drawn.part == part.name);
                for chart in charts {
                    let _ = write!(out, "\n![{}: {}](charts/{})\n", part.title, chart.figure, chart.file);
                }
            }
        }
    }
    if !results.left_out.is_empty() {
        out += "\n## Not measured\n\n";
        results.left_out.iter().for_each(|text| out += &format!("- {text}\n"));
    }
    out
}

fn facts(out: &mut String, results: &Results) {
    let origin = &results.origin;
    let rows = [
        ("date", results.date.clone()),
        ("commit", origin.commit.clone()),
        ("build", format!("{}, {}", origin.build, origin.compiler)),
        ("machine", format!("{}; servers and clients share it", origin.machine)),
        ("system", origin.system.clone()),
        ("load average before", results.load_average.clone()),
        ("drivers", origin.drivers.join(", ")),
        (
            "commands",
            results.commands.iter().map(|command| format!("`{command}`")).collect::<Vec<_>>().join("; "),
        ),
    ];
    for (name, value) in rows {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(out, "- {name}: {value}");
    }
    *out += "\n| store | version | durability | largest value |\n|---|---|---|---|\n";
    for store in &results.stores {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} bytes |",
            store.name, store.version, store.durability, store.value_max_bytes
        );
    }
    *out += "\nFigures are medians, with the smallest and largest repetition in brackets. The stores take turns: each \
             repetition visits all of them.\n";
}

fn table(out: &mut String, part: &Part, rows: &[&Row]) {
    let mut names: Vec<&str> = Vec::new();
    for figure in rows.iter().flat_map(|row| &row.figures) {
        if !names.contains(&figure.name.as_str()) {
            names.push(&figure.name);
        }
    }
    let _ = write!(out, "\n## {}\n\n{}\n\n| store | side | {} |", part.title, part.text, part.at);
    names.iter().for_each(|name| *out += &format!(" {name} |"));
    let _ = write!(out, "\n|---|---|---|{}\n", "---|".repeat(names.len()));
    for row in rows {
        let _ = write!(out, "| {} | {} | {} |", row.backend, row.side, row.at);
        for name in &names {
            let figure = row.figure(name).map(shown).unwrap_or_default();
            let _ = write!(out, " {figure} |");
        }
        *out += "\n";
    }
}
