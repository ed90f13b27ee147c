//! The one reader of the log, for all copies of the process.

use std::sync::Arc;

use coord_api::{
    Error, ErrorKind, Result, Retry,
    kit::{Backoff, Hubs},
};
use redis::Value;
use tokio::time::Duration;

use crate::{
    conn::{BLOCK, Conn, RESPONSE},
    feeds::Feeds,
    link::Link,
    record::{Batch, array, malformed},
};

/// Reads the log while there are copies, until the link is closed.
pub(crate) async fn run(link: Arc<Link>, feeds: Arc<Feeds>, hubs: Hubs) {
    let mut reader = Reader { link: Arc::clone(&link), feeds, hubs, position: None };
    tokio::select! {
        biased;
        // Dropped in the middle of a blocked read, with its connection: nothing of it is used again.
        () = link.closed() => {}
        () = reader.run() => {}
    }
}

struct Reader {
    link: Arc<Link>,
    feeds: Arc<Feeds>,
    hubs: Hubs,
    /// The last revision that all copies have seen or will see by their snapshots.
    position: Option<u64>,
}

impl Reader {
    async fn run(&mut self) {
        let mut backoff = Backoff::new(Duration::from_secs(1));
        let mut count = self.feeds.count();
        loop {
            if count.wait_for(|count| *count > 0).await.is_err() {
                return;
            }
            if let Err(error) = self.follow(&mut backoff).await {
                tracing::debug!(%error, "the log cannot be read");
                backoff.sleep(&self.link.runtime).await;
            }
        }
    }

    /// Follows the log over one connection, until it breaks or nobody listens.
    async fn follow(&mut self, backoff: &mut Backoff) -> Result<()> {
        let conn = self.connect().await?;
        if self.position.is_none() {
            self.position = Some(conn.revision().await?);
            self.feeds.restart();
        }
        let mut behind = false;
        while *self.feeds.count().borrow() > 0 {
            let entries = entries(conn.follow(self.position.unwrap_or(0)).await?)?;
            backoff.reset();
            if entries.is_empty() {
                behind = self.look(&conn, behind).await?;
                continue;
            }
            behind = false;
            self.take(entries)?;
        }
        self.position = None;
        self.feeds.stop();
        Ok(())
    }

    /// A connection of our own: a blocked read holds up all that is behind it. To the server of the calls, since
    /// snapshots come from there.
    async fn connect(&self) -> Result<Conn> {
        let calls = self.link.conn(tokio::time::Instant::now() + RESPONSE).await?;
        let conn = Conn::open(&self.link.settings, calls.host, BLOCK + RESPONSE).await?;
        if conn.server.run_id != calls.server.run_id {
            return Err(Error::unavailable("calls and log are on two servers"));
        }
        Ok(conn)
    }

    fn take(&mut self, entries: Vec<Value>) -> Result<()> {
        let mut batches = Vec::with_capacity(entries.len());
        for entry in entries {
            let batch = Batch::read(entry)?;
            let follows = self.position == Some(batch.previous) && batch.changes.is_some();
            self.position = Some(batch.revision);
            if follows {
                batches.push(Arc::new(batch));
            } else {
                // Trimmed before we saw it, or another history: the copies must look for themselves.
                tracing::debug!(revision = batch.revision, "a gap in the log");
                batches.clear();
                self.feeds.restart();
            }
        }
        self.feeds.deliver(&batches);
        Ok(())
    }

    /// Nothing came: is that so because nothing happened? Tells whether the store was ahead this time.
    async fn look(&mut self, conn: &Conn, behind: bool) -> Result<bool> {
        let now = conn.revision().await?;
        let position = self.position.unwrap_or(0);
        if now < position {
            tracing::warn!(now, position, "the history of the store went back");
            self.feeds.fail(&self.hubs, || {
                Error::new(ErrorKind::Unavailable, "the store lost its history: its revisions went back")
                    .with_retry(Retry::Safe)
            });
            self.position = None;
            return Err(malformed("the revision went back"));
        }
        if now > position && behind {
            // Twice in a row: the entries are gone from the log.
            self.position = Some(now);
            self.feeds.restart();
            return Ok(false);
        }
        Ok(now > position)
    }
}

/// The entries of an `XREAD` reply; none if the wait was in vain.
fn entries(reply: Value) -> Result<Vec<Value>> {
    match reply {
        Value::Nil => Ok(Vec::new()),
        Value::Map(streams) => match streams.into_iter().next() {
            Some((_, entries)) => array(entries),
            None => Ok(Vec::new()),
        },
        _ => Err(malformed("a read of the log of another form")),
    }
}
