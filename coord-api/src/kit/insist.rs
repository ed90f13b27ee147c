//! Trying again until the store answers.

use std::time::Duration;

use super::{Backoff, Runtime};
use crate::{Result, Retry};

/// Longest pause between two tries.
pub const RETRY_CAP: Duration = Duration::from_secs(1);

/// Calls until the store answers or refuses for good, or until `again` gives nothing to wait by any more.
///
/// Only for calls that may be sent again after a lost reply: reads, and writes whose second application changes
/// nothing. Each is told whether the reply to an earlier one was lost: a refusal may be the answer to our own write then.
///
/// ```
/// # coord_backend_memory::doc_example(async |coord| {
/// use coord_api::{Lifetime, kit::insist};
///
/// let coord = &coord;
/// let call = |lost: bool| async move {
///     let created = coord.create("/jobs/17", "", Lifetime::Persistent).await?;
///     Ok(created.is_some() || lost)
/// };
/// assert!(insist(|| Some(coord.runtime()), call).await?);
/// # Ok(())
/// # });
/// ```
///
/// # Errors
/// The last one, which is ambiguous if the reply to any try was lost.
///
/// # Cancel safety
/// As safe as `call`.
pub async fn insist<T, F>(again: impl Fn() -> Option<Runtime>, call: impl Fn(bool) -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let mut backoff = Backoff::new(RETRY_CAP);
    let mut lost = false;
    loop {
        let error = match call(lost).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        lost |= error.retry() == Retry::Ambiguous;
        match again().filter(|_| error.retry() != Retry::Never) {
            Some(runtime) => backoff.sleep(&runtime).await,
            // An earlier try may have been applied, whatever became of the last one (promise G8).
            None => return Err(if lost { error.with_retry(Retry::Ambiguous) } else { error }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::{Error, ErrorKind};

    fn refused() -> Error {
        Error::new(ErrorKind::PermissionDenied, "no")
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_after_a_lost_reply_is_ambiguous_and_each_call_is_told() {
        let again = || Some(Runtime::current().unwrap());
        for (first, retry) in
            [(Error::ambiguous("lost"), Retry::Ambiguous), (Error::unavailable("away"), Retry::Never)]
        {
            let (first, tries) = (Cell::new(Some(first)), Cell::new(0));
            let call = |lost| {
                tries.set(tries.get() + 1);
                let error = first.take().unwrap_or_else(refused);
                assert_eq!(lost, tries.get() > 1 && retry == Retry::Ambiguous);
                async { Err::<(), _>(error) }
            };
            let error = insist(again, call).await.unwrap_err();
            assert_eq!((error.kind(), error.retry(), tries.get()), (ErrorKind::PermissionDenied, retry, 2));
        }
        let error = insist(again, |_| async { Err::<(), _>(refused()) }).await.unwrap_err();
        assert_eq!(error.retry(), Retry::Never);
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_when_it_may_not_go_on() {
        let left = Cell::new(3);
        let again = || (left.replace(left.get() - 1) > 1).then(|| Runtime::current().unwrap());
        let call = |_| async { Err::<(), _>(Error::unavailable("away")) };
        assert_eq!(insist(again, call).await.unwrap_err().retry(), Retry::Safe);
        assert_eq!(left.get(), 0);
    }
}
