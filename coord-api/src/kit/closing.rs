//! The end of a session when the store may not answer.

use std::{future::Future, time::Duration};

use tokio::time::timeout;

use crate::{Error, Result, Retry};

/// How long closing waits for the store's word.
///
/// Long for a store that is up, and short for whoever wants to go: what is not confirmed ends with the ttl.
pub const CLOSE_TIME: Duration = Duration::from_millis(1500);

/// The answer of closing a session, given the work that `tells` the store: `Ok` only if the store confirmed it, and
/// after [`CLOSE_TIME`] at the latest.
///
/// `tells` is dropped then: what it sends must be in a task of its own, or be on its way once it was polled.
///
/// # Errors
/// Ambiguous without the store's word; a refusal for good as it is.
pub async fn confirmed(tells: impl Future<Output = Result<()>>) -> Result<()> {
    let told = timeout(CLOSE_TIME, tells).await;
    let cause = match told {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(refused)) if refused.retry() == Retry::Never => return Err(refused),
        Ok(Err(cause)) => Some(cause),
        Err(_) => None,
    };
    let error = Error::ambiguous(
        "the store did not confirm the end of the session; its keys go after its ttl at the latest",
    );
    Err(match cause {
        Some(cause) => error.with_source(cause),
        None => error,
    })
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::time::Instant;

    use super::*;
    use crate::ErrorKind;

    #[tokio::test(start_paused = true)]
    async fn only_the_word_of_the_store_is_ok_and_nothing_takes_longer_than_the_bound() {
        let began = Instant::now();
        assert!(confirmed(ready(Ok(()))).await.is_ok());
        // Not sent at all is no better: the keys stay for a while.
        for tells in [ready(Err(Error::unavailable("away"))), ready(Err(Error::ambiguous("no reply")))] {
            assert_eq!(confirmed(tells).await.unwrap_err().retry(), Retry::Ambiguous);
        }
        let refused = confirmed(ready(Err(Error::new(ErrorKind::PermissionDenied, "no")))).await.unwrap_err();
        assert_eq!((refused.kind(), refused.retry()), (ErrorKind::PermissionDenied, Retry::Never));
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!(confirmed(pending()).await.unwrap_err().retry(), Retry::Ambiguous);
        assert_eq!(began.elapsed(), CLOSE_TIME);
    }
}
