//! One listener of a cache.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::stream::{self, BoxStream, StreamExt};
use tokio::sync::Notify;

use super::{Scope, event::CacheEvent, feed::Feed, mailbox::Mailbox};

/// What a listener has not read yet, as the feed and the listener share it.
#[derive(Debug)]
pub(super) struct Inbox {
    scope: Scope,
    mail: Mutex<Mail>,
    ready: Notify,
}

#[derive(Debug, Default)]
struct Mail {
    unread: Mailbox,
    closed: bool,
}

impl Inbox {
    pub(super) fn new(scope: Scope) -> Self {
        Self { scope, mail: Mutex::default(), ready: Notify::new() }
    }

    pub(super) const fn scope(&self) -> &Scope {
        &self.scope
    }

    pub(super) fn push(&self, event: CacheEvent) {
        self.lock().unread.push(event);
        self.ready.notify_one();
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.ready.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream of what happens in a [`Cache`](super::Cache).
///
/// Begins with [`CacheEvent::Initialized`]. A listener that reads slowly is told the whole difference in one
/// [`CacheEvent::Resynced`] instead of each change; the memory for it is bounded by the size of the cache. Dropping it
/// ends it.
#[derive(Debug)]
#[must_use = "a listener does nothing until it is read"]
pub struct Listener {
    inbox: Arc<Inbox>,
    /// Keeps the watch.
    _feed: Arc<Feed>,
}

impl Listener {
    pub(super) const fn new(inbox: Arc<Inbox>, feed: Arc<Feed>) -> Self {
        Self { inbox, _feed: feed }
    }

    /// The next event; `None` once the store's handle was closed.
    ///
    /// # Cancel safety
    /// Safe: an event is taken only when it is returned.
    pub async fn next(&mut self) -> Option<CacheEvent> {
        loop {
            {
                let mut mail = self.inbox.lock();
                if let Some(event) = mail.unread.pop() {
                    return Some(event);
                }
                if mail.closed {
                    return None;
                }
            }
            // A push since the look has left its permit: there is one listener an inbox.
            self.inbox.ready.notified().await;
        }
    }

    /// The same as a stream.
    #[must_use]
    pub fn into_stream(self) -> BoxStream<'static, CacheEvent> {
        stream::unfold(self, |mut listener| async move {
            let event = listener.next().await?;
            Some((event, listener))
        })
        .boxed()
    }
}
