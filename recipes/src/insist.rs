//! Trying again until the store answers.

use std::time::Duration;

use coord_api::{Result, Retry, Session, kit::Backoff};

/// Longest pause between two tries.
pub(crate) const RETRY_CAP: Duration = Duration::from_secs(1);

/// For how long a request may be on its way: systems give up what a dead connection did not deliver after a quarter
/// of an hour.
pub(crate) const LATEST: Duration = Duration::from_secs(15 * 60);

/// Calls until the store answers, refuses for good, or the session is over.
///
/// Only for calls that may be sent again after a lost reply: reads, and writes whose second application changes
/// nothing.
pub(crate) async fn insist<T, F>(session: &Session, call: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    insist_telling(session, call).await.map(|(answer, _)| answer)
}

/// The same, and whether the reply to an earlier try was lost: a refusal may be the answer to our own write then.
pub(crate) async fn insist_telling<T, F>(session: &Session, call: impl Fn() -> F) -> Result<(T, bool)>
where
    F: Future<Output = Result<T>>,
{
    let mut backoff = Backoff::new(RETRY_CAP);
    let mut ambiguous = false;
    loop {
        let error = match call().await {
            Ok(answer) => return Ok((answer, ambiguous)),
            Err(error) => error,
        };
        ambiguous |= error.retry() == Retry::Ambiguous;
        if error.retry() == Retry::Never || !session.is_valid() {
            // An earlier try may have been applied, whatever became of the last one (promise G8).
            return Err(if ambiguous { error.with_retry(Retry::Ambiguous) } else { error });
        }
        backoff.sleep(&session.coord().runtime()).await;
    }
}
