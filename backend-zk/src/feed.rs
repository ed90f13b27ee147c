//! What the feeds of mirrors have in common.

use std::{panic::AssertUnwindSafe, time::Duration};

use coord_api::{Result, kit::Hub};
use futures::FutureExt;

use crate::line::feed_panicked;

pub(crate) const FEED_BACKOFF_MAX: Duration = Duration::from_secs(1);

/// Runs a feed until nobody wants it; a feed that ends by itself, however, is told to those who wait.
pub(crate) async fn supervised(
    hub: &Hub,
    feed: impl Future<Output = Result<()>>,
    unused: impl Future<Output = ()>,
) {
    tokio::select! {
        biased;
        () = unused => {}
        end = AssertUnwindSafe(feed).catch_unwind() => match end {
            Ok(Ok(())) => {}
            Ok(Err(error)) => hub.fail(error),
            // The driver panics on some broken replies; nobody must wait for ever because of it.
            Err(_) => hub.fail(feed_panicked()),
        },
    }
}
