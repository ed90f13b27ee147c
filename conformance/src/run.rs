//! Running cases: as tests, or for a report.

use std::{any::Any, fmt, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, future::LocalBoxFuture, stream};
use libtest_mimic::{Failed, Trial};
use tokio::runtime::Handle;

use crate::{CaseResult, Cx, Failure, Fixture, Need, Outcome, Report, Row, cases};

/// Longest a case may take before it counts as hung.
const CASE_TIMEOUT: Duration = Duration::from_secs(90);

/// How many cases of a report run at once: most of them wait.
const AT_A_TIME: usize = 8;

/// A promise and the function that checks it.
#[derive(Clone, Copy)]
pub struct Case {
    /// `group::what_is_promised`.
    pub name: &'static str,
    /// What it needs besides a store.
    pub need: Need,
    /// The check. Not `Send`: a case runs on the thread that asked for it, and spawns what must run elsewhere.
    pub run: fn(Arc<Cx>) -> LocalBoxFuture<'static, CaseResult>,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Case {
    /// Runs the case; a panic in it is a failure.
    #[allow(clippy::future_not_send, reason = "cases are not Send")]
    pub async fn check(&self, fixture: Arc<dyn Fixture>) -> CaseResult {
        let cx = Arc::new(Cx::new(fixture, self.name));
        let run = AssertUnwindSafe((self.run)(cx)).catch_unwind();
        match tokio::time::timeout(CASE_TIMEOUT, run).await {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => Err(Failure(panic_message(panic))),
            Err(_) => Err(Failure(format!("hung for {CASE_TIMEOUT:?}"))),
        }
    }
}

fn panic_message(panic: Box<dyn Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => (*panic.downcast::<&str>().unwrap_or(Box::new("the case panicked"))).to_owned(),
    }
}

/// All cases as tests of one fixture, named `fixture::group::promise`.
///
/// A case that the fixture cannot run is an ignored test, with the reason as its kind.
#[must_use]
pub fn trials(fixture: &Arc<dyn Fixture>, runtime: &Handle) -> Vec<Trial> {
    let make = |case: &Case| {
        let (case, runtime, offered) = (*case, runtime.clone(), fixture.offers(case.need));
        let name = format!("{}::{}", fixture.name(), case.name);
        let fixture = Arc::clone(fixture);
        let trial = Trial::test(name, move || {
            runtime.block_on(case.check(fixture)).map_err(|Failure(message)| Failed::from(message))
        });
        match offered {
            Ok(()) => trial,
            Err(reason) => trial.with_kind(reason).with_ignored_flag(true),
        }
    };
    cases::ALL.iter().map(make).collect()
}

/// Runs all cases whose name contains `filter`, several at a time, and reports in the order of the list.
///
/// `progress` hears the fixture's name and each row as it ends.
#[allow(clippy::future_not_send, reason = "cases are not Send")]
pub async fn run_all(fixture: Arc<dyn Fixture>, filter: &str, progress: impl Fn(&str, &Row)) -> Report {
    let wanted = cases::ALL.iter().filter(|case| case.name.contains(filter));
    let rows = stream::iter(wanted.map(|case| run_one(case, &fixture, &progress)));
    let mut report = Report::new(fixture.name());
    report.rows = rows.buffered(AT_A_TIME).collect().await;
    report
}

#[allow(clippy::future_not_send, reason = "cases are not Send")]
async fn run_one(case: &Case, fixture: &Arc<dyn Fixture>, progress: impl Fn(&str, &Row)) -> Row {
    let outcome = match fixture.offers(case.need) {
        Err(reason) => Outcome::NotApplicable { reason },
        Ok(()) => match case.check(Arc::clone(fixture)).await {
            Ok(()) => Outcome::Passed,
            Err(Failure(message)) => Outcome::Failed { message },
        },
    };
    let row = Row { case: case.name.to_owned(), outcome };
    progress(fixture.name(), &row);
    row
}
