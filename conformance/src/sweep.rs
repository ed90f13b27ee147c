//! Dropping a future at every await point.

use std::{
    future::{Future, poll_fn},
    task::Poll,
};

/// Polls `future` at most `polls` times, then drops it; `None` if it had not ended.
///
/// Between two polls other tasks run until the future is woken, so each count is another await point.
pub async fn drop_after<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut left = polls;
    poll_fn(move |cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
