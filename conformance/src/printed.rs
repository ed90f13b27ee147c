//! What a run of [`trials`](crate::trials) has printed, as a report.

use std::collections::HashMap;

use crate::{Failure, Fixture, Outcome, Report, Row, cases};

/// Reads the results of one fixture, in the order of the list.
///
/// # Errors
/// A [`Failure`] that names the first case without a result: the run was cut short, or was one of another suite.
pub fn report_printed(fixture: &dyn Fixture, printed: &str) -> Result<Report, Failure> {
    let results: HashMap<_, _> = printed.lines().filter_map(result).collect();
    let mut report = Report::new(fixture.name());
    for case in cases::ALL {
        let name = format!("{}::{}", fixture.name(), case.name);
        let outcome = match (results.get(name.as_str()), fixture.offers(case.need)) {
            (Some(&"ok"), Ok(())) => Outcome::Passed,
            (Some(&"ignored"), Err(reason)) => Outcome::NotApplicable { reason },
            (Some(&"FAILED"), _) => Outcome::Failed { message: "see the run".to_owned() },
            _ => return Err(Failure(format!("the run says nothing of {name}"))),
        };
        report.rows.push(Row { case: case.name.to_owned(), outcome });
    }
    Ok(report)
}

/// The name and the result in a line such as `test etcd::kv::an_absent_key_is_none   ... ok`.
fn result(line: &str) -> Option<(&str, &str)> {
    let (name, result) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    // An ignored test has its reason before its name.
    Some((name.split_whitespace().next_back()?, result))
}

#[cfg(test)]
mod tests {
    use coord_backend_memory::MemoryFactory;

    use super::*;
    use crate::UrlFixture;

    fn memory() -> UrlFixture {
        UrlFixture::new("memory", "memory:", |config| {
            Box::pin(async move { coord_api::Registry::new().with(MemoryFactory).connect(&config).await })
        })
    }

    fn printed(fixture: &UrlFixture, failed: &str) -> String {
        let line = |case: &crate::Case| match fixture.offers(case.need) {
            Ok(()) if case.name == failed => format!("test memory::{}   ... FAILED\n", case.name),
            Ok(()) => format!("test memory::{}   ... ok\n", case.name),
            Err(reason) => format!("test [{reason}] memory::{} ... ignored\n", case.name),
        };
        cases::ALL.iter().map(line).collect()
    }

    #[test]
    fn what_a_run_printed_is_its_report() {
        let fixture = memory();
        let failed = cases::ALL[3].name;
        let report = report_printed(&fixture, &printed(&fixture, failed)).unwrap();
        let (passed, bad, left_out) = report.counts();
        assert_eq!((passed + bad + left_out, bad), (cases::ALL.len(), 1));
        assert!(left_out > 0 && matches!(report.rows[3].outcome, Outcome::Failed { .. }));
    }

    #[test]
    fn a_run_that_was_cut_short_is_no_report() {
        let fixture = memory();
        let printed = printed(&fixture, "");
        let cut = printed.rsplit_once("test ").unwrap().0;
        let last = cases::ALL.last().unwrap().name;
        assert!(report_printed(&fixture, cut).unwrap_err().0.contains(last));
    }
}
