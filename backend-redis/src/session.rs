//! Sessions: opened, renewed in the background, and ended.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use coord_api::{
    ErrorKind, Result, Revision, SessionDriver, SessionId, SessionOptions,
    kit::{Backoff, CLOSE_TIME, Lease, Renewal, Sessions, Stamp},
};
use tokio::time::Instant;

use crate::{
    conn::RESPONSE,
    error::{closed, is_final},
    link::Link,
    record::revision,
    script,
};

/// How long opening may take altogether.
const OPENING: Duration = Duration::from_secs(5);

/// How the server is told that a session lives, and that it is over.
#[derive(Debug)]
pub(crate) struct ByScript(Arc<Link>);

/// Opens a session and begins to renew it.
///
/// The id is ours, so that an attempt whose reply was lost is repeated and not doubled.
pub(crate) async fn open(
    link: Arc<Link>,
    sessions: Sessions<ByScript>,
    options: SessionOptions,
) -> Result<Arc<dyn SessionDriver>> {
    let id = SessionId::new(link.runtime.nonce().to_uuid());
    let until = Instant::now() + OPENING;
    let mut backoff = Backoff::new(Duration::from_secs(1));
    let sent = loop {
        let sent = Stamp::now();
        match send_open(&link, &id, options.ttl, until).await {
            Ok(()) => break sent,
            Err(error) if is_final(&error) || Instant::now() + RESPONSE >= until => return Err(error),
            Err(_) => backoff.sleep(&link.runtime).await,
        }
    };
    let lease = Lease::new(options.ttl, sent);
    let session = sessions.keep(id, lease, ByScript(Arc::clone(&link)), &link.runtime);
    // Closed while we opened: nobody else ends this one.
    if link.is_closed() { Err(closed()) } else { Ok(session) }
}

async fn send_open(link: &Arc<Link>, id: &SessionId, ttl: Duration, until: Instant) -> Result<()> {
    let conn = link.conn(until.min(Instant::now() + RESPONSE)).await?;
    let args = |call: &mut redis::Cmd| _ = call.arg(id.as_str()).arg(millis(ttl));
    conn.write(&script::OPEN, args, until).await?;
    conn.replicated(until).await
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[async_trait]
impl Renewal for ByScript {
    async fn renew(&self, session: &SessionId, lease: &Lease) {
        let link = &self.0;
        let period = lease.ttl() / 3;
        let mut backoff = Backoff::new((period / 3).min(Duration::from_secs(1)));
        let mut pause = period;
        loop {
            let conn = link.conn_now();
            if conn.is_none() {
                lease.suspend();
            }
            tokio::select! {
                biased;
                // Down: say so at once. Up again: renew at once.
                () = link.changed(conn.as_ref()) => {
                    if link.conn_now().is_none() {
                        continue;
                    }
                }
                () = tokio::time::sleep(pause) => {}
            }
            match self.renew_once(session, lease).await {
                Ok(()) => {
                    pause = period;
                    backoff.reset();
                }
                Err(error) if error.kind() == ErrorKind::SessionLost => return,
                Err(error) => {
                    tracing::debug!(%session, %error, "not renewed");
                    lease.suspend();
                    pause = backoff.next_delay(&link.runtime);
                }
            }
        }
    }

    async fn end(&self, session: &SessionId) -> Result<()> {
        let until = Instant::now() + CLOSE_TIME;
        let conn = self.0.conn(until).await?;
        let ended = conn.write(&script::CLOSE, |call| _ = call.arg(session.as_str()), until).await?;
        // Its keys are gone: a copy that still shows them may not answer for the store.
        self.0.note(Revision::new(revision(&ended)?));
        Ok(())
    }
}

impl ByScript {
    async fn renew_once(&self, session: &SessionId, lease: &Lease) -> Result<()> {
        let until = Instant::now() + RESPONSE.min(lease.ttl() / 3);
        let conn = self.0.conn(until).await?;
        // Before it is sent: the store may count from there.
        let sent = Stamp::now();
        conn.write(&script::KEEPALIVE, |call| _ = call.arg(session.as_str()), until).await?;
        lease.renewed(sent);
        Ok(())
    }
}
