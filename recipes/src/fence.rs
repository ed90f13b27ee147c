//! Refusing holders from the past, at the resource.

use std::sync::{Mutex, MutexGuard, PoisonError};

use coord_api::{Error, ErrorKind, FencingToken, Result};

/// What a resource outside the store needs to refuse a holder from the past: the largest token it has seen.
///
/// A holder that was frozen, or whose request was slow, may act after somebody else got the lock. It cannot know; the
/// resource can: it is sent the [token](crate::Hold::token) with each request, and refuses one smaller than it has
/// seen. The same token may come again, since one holder makes many requests.
///
/// A fence is only as durable as its number: keep it with the data it protects, and change both together. Two complete
/// programs show how, with a SQL table and with a file: `coord/examples/fenced_sql.rs` and `fenced_file.rs`. A database
/// that can compare in the statement itself needs no fence but a column.
///
/// ```
/// use coord_api::{FencingToken, Revision};
/// use coord_recipes::Fence;
///
/// let [older, newer] = [7, 12].map(|revision| FencingToken::new(0, Revision::new(revision)));
/// let fence = Fence::new();
/// let mut stock = 0;
/// fence.admit(newer, || stock = 25)?;
/// assert!(fence.admit(older, || stock = 9).is_err(), "a holder from the past");
/// fence.admit(newer, || stock -= 1)?;
/// assert_eq!(stock, 24);
/// # Ok::<(), coord_api::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Fence {
    newest: Mutex<u128>,
}

impl Fence {
    /// A fence that has seen no token.
    #[must_use]
    pub const fn new() -> Self {
        Self::restored(0)
    }

    /// A fence that has seen tokens up to this number: what [`Fence::newest`] gave before the restart.
    #[must_use]
    pub const fn restored(newest: u128) -> Self {
        Self { newest: Mutex::new(newest) }
    }

    /// The number of the largest token seen; zero before the first.
    #[must_use]
    pub fn newest(&self) -> u128 {
        *self.lock()
    }

    /// Does `action` unless the token is smaller than one seen before. No other action runs at the same time, so that
    /// none that was admitted earlier can end later.
    ///
    /// The token counts as seen also if the action fails in a way of its own.
    ///
    /// # Errors
    /// [`StaleToken`](ErrorKind::StaleToken) if the token is smaller; the action was not begun.
    pub fn admit<T>(&self, token: FencingToken, action: impl FnOnce() -> T) -> Result<T> {
        let mut newest = self.lock();
        if token.get() < *newest {
            return Err(Error::new(
                ErrorKind::StaleToken,
                "a newer holder has been here: this one is from the past",
            )
            .with_context("token", token)
            .with_context("newest", *newest));
        }
        *newest = token.get();
        Ok(action())
    }

    fn lock(&self) -> MutexGuard<'_, u128> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use coord_api::Revision;

    use super::*;

    fn token(epoch: u32, revision: u64) -> FencingToken {
        FencingToken::new(epoch, Revision::new(revision))
    }

    #[test]
    fn smaller_tokens_are_refused_and_change_nothing() {
        let fence = Fence::new();
        let mut done = Vec::new();
        for (token, admitted) in [
            (token(0, 5), true),
            (token(0, 4), false),
            (token(0, 5), true),
            (token(1, 1), true),
            (token(0, u64::MAX), false),
        ] {
            match fence.admit(token, || done.push(token)) {
                Ok(()) => assert!(admitted, "{token}"),
                Err(error) => {
                    assert!(!admitted, "{error}");
                    assert_eq!(error.kind(), ErrorKind::StaleToken);
                }
            }
        }
        assert_eq!(done, [token(0, 5), token(0, 5), token(1, 1)]);
        assert_eq!(fence.newest(), token(1, 1).get());
    }

    #[test]
    fn a_restored_fence_refuses_what_it_refused_before() {
        let fence = Fence::restored(token(0, 9).get());
        assert!(fence.admit(token(0, 8), || ()).is_err());
        assert!(fence.admit(token(0, 9), || ()).is_ok());
    }

    #[test]
    fn an_action_that_panics_leaves_the_fence_usable() {
        let fence = Fence::new();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = fence.admit(token(0, 3), || panic!("the action's own trouble"));
        }));
        assert!(panicked.is_err());
        assert!(fence.admit(token(0, 2), || ()).is_err(), "the token was seen");
        assert!(fence.admit(token(0, 3), || ()).is_ok());
    }
}
