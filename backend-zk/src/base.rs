//! The connection of calls that have no session of their own, replaced whenever its session ends.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use coord_api::{
    Error, Result, Retry,
    kit::{Backoff, CLOSE_TIME, Runtime},
};
use tokio::{
    sync::watch,
    time::{Instant, timeout, timeout_at},
};

use crate::driver::{Conn, Connector, Link, Role};

/// How long the driver may try to get its old session back before we try beside it.
///
/// It doubles its delay without a cap until the session is dead; a fresh session is as good to us.
const HEAD_START: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// A connection that is always being kept.
#[derive(Debug)]
pub(crate) struct Base {
    current: watch::Sender<Arc<Conn>>,
    closed: watch::Sender<bool>,
    runtime: Runtime,
}

impl Base {
    /// Opens the connection, and keeps it until it is closed or dropped.
    pub(crate) async fn open(connector: Connector, ttl: Duration) -> Result<Arc<Self>> {
        let conn = connector.open(Role::Base, ttl).await?;
        let runtime = connector.runtime.clone();
        let base = Arc::new(Self {
            current: watch::Sender::new(conn),
            closed: watch::Sender::new(false),
            runtime: runtime.clone(),
        });
        runtime.spawn(keep(Arc::downgrade(&base), connector, ttl));
        Ok(base)
    }

    /// A connection whose session is not over.
    pub(crate) async fn conn(&self, deadline: Instant) -> Result<Arc<Conn>> {
        let now = Arc::clone(&self.current.borrow());
        if !now.is_over() && !self.is_closed() {
            return Ok(now);
        }
        let mut current = self.current.subscribe();
        let mut closed = self.closed.subscribe();
        let usable = async {
            tokio::select! {
                biased;
                _ = closed.wait_for(|closed| *closed) => Err(closed_error()),
                conn = current.wait_for(|conn| !conn.is_over()) => match conn {
                    Ok(conn) => Ok(Arc::clone(&conn)),
                    Err(_) => Err(closed_error()),
                },
            }
        };
        timeout_at(deadline, usable).await.unwrap_or_else(|_| {
            Err(Error::new(coord_api::ErrorKind::Timeout, "no connection to the server before the deadline")
                .with_retry(Retry::Safe))
        })
    }

    /// Ends the connection and its session.
    pub(crate) async fn close(&self) -> Result<()> {
        self.closed.send_replace(true);
        let conn = Arc::clone(&self.current.borrow());
        conn.close(CLOSE_TIME).await
    }

    fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        // Closed already, as a rule; not so when opening the handle failed half-way.
        discard(&self.runtime, Arc::clone(&self.current.borrow()));
    }
}

fn closed_error() -> Error {
    Error::new(coord_api::ErrorKind::Closed, "the handle was closed")
}

/// Watches over the connection; ends with the base.
async fn keep(base: Weak<Base>, connector: Connector, ttl: Duration) {
    let runtime = connector.runtime.clone();
    loop {
        let Some(conn) = base.upgrade().map(|base| Arc::clone(&base.current.borrow())) else { return };
        if !in_trouble(&conn).await {
            // Up again in its old session.
            continue;
        }
        let replaced = tokio::select! {
            biased;
            new = replace(&base, &connector, ttl, &runtime) => new,
            () = back_up(&conn) => continue,
        };
        let Some(new) = replaced else { return };
        let Some(base) = base.upgrade() else {
            discard(&runtime, new);
            return;
        };
        if base.is_closed() {
            discard(&runtime, new);
            return;
        }
        let old = base.current.send_replace(new);
        discard(&runtime, old);
    }
}

fn discard(runtime: &Runtime, conn: Arc<Conn>) {
    runtime.spawn(async move { conn.close(CLOSE_TIME).await });
}

/// Returns true once the session is over or the connection has been down for a while.
async fn in_trouble(conn: &Conn) -> bool {
    let mut link = conn.link();
    let Ok(state) = link.wait_for(|link| *link != Link::Up).await.map(|link| *link) else { return true };
    if state != Link::Down {
        return true;
    }
    let changed = timeout(HEAD_START, link.wait_for(|link| *link != Link::Down)).await;
    !matches!(changed, Ok(Ok(link)) if *link == Link::Up)
}

async fn back_up(conn: &Conn) {
    let mut link = conn.link();
    if link.wait_for(|link| *link == Link::Up).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Opens another connection, however long it takes; `None` once nobody wants it.
async fn replace(
    base: &Weak<Base>,
    connector: &Connector,
    ttl: Duration,
    runtime: &Runtime,
) -> Option<Arc<Conn>> {
    let mut backoff = Backoff::new(BACKOFF_MAX);
    loop {
        if base.upgrade().is_none_or(|base| base.is_closed()) {
            return None;
        }
        match connector.open(Role::Base, ttl).await {
            Ok(conn) => {
                // A new session may land on a server that lags behind what this handle has seen.
                if conn.sync(Instant::now() + ttl).await.is_ok() {
                    return Some(conn);
                }
                discard(runtime, conn);
            }
            Err(error) => tracing::debug!(%error, "cannot replace the connection yet"),
        }
        backoff.sleep(runtime).await;
    }
}
