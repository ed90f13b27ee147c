//! Sessions: opened, renewed in the background, and ended.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use coord_api::{
    Result, SessionDriver, SessionId, SessionOptions,
    kit::{Backoff, CLOSE_TIME, Lease, Renewal, Sessions, Stamp},
};
use tokio::time::Instant;

use crate::{error::is_final, store::Store};

/// How long opening may take altogether.
const OPENING: Duration = Duration::from_secs(5);
/// How long one renewal may take.
const RESPONSE: Duration = Duration::from_secs(2);

/// How the file is told that a session lives, and that it is over.
#[derive(Debug)]
pub(crate) struct InFile(Arc<Store>);

/// Opens a session and begins to renew it.
///
/// The id is ours, so that an attempt whose answer was lost is repeated and not doubled.
pub(crate) async fn open(
    store: Arc<Store>,
    sessions: Sessions<InFile>,
    options: SessionOptions,
) -> Result<Arc<dyn SessionDriver>> {
    let id = SessionId::new(store.runtime.nonce().to_uuid());
    let ttl_ms = i64::try_from(options.ttl.as_millis()).unwrap_or(i64::MAX);
    let until = Instant::now() + OPENING;
    let mut backoff = Backoff::new(Duration::from_secs(1));
    let sent = loop {
        let (sent, named) = (Stamp::now(), id.clone());
        let opened = store.write(until, move |state| Ok(state.open_session(&named, ttl_ms)?)).await;
        match opened {
            Ok(()) => break sent,
            Err(error) if is_final(&error) || Instant::now() + RESPONSE >= until => return Err(error),
            Err(_) => backoff.sleep(&store.runtime).await,
        }
    };
    let lease = Lease::new(options.ttl, sent);
    let session = sessions.keep(id, lease, InFile(Arc::clone(&store)), &store.runtime);
    // Closed while we opened: nobody else ends this one.
    store.ensure_open()?;
    Ok(session)
}

#[async_trait]
impl Renewal for InFile {
    async fn renew(&self, session: &SessionId, lease: &Lease) {
        let period = lease.ttl() / 3;
        let mut backoff = Backoff::new((period / 3).min(Duration::from_secs(1)));
        let mut pause = period;
        loop {
            tokio::time::sleep(pause).await;
            // Before it waits for its turn: the store counts from later.
            let (sent, id) = (Stamp::now(), session.clone());
            let until = Instant::now() + RESPONSE.min(period);
            match self.0.write(until, move |state| state.renew_session(&id)).await {
                Ok(()) => {
                    lease.renewed(sent);
                    pause = period;
                    backoff.reset();
                }
                // Over, or the file is gone for good.
                Err(error) if is_final(&error) => {
                    tracing::debug!(%session, %error, "the session ended");
                    return;
                }
                Err(error) => {
                    tracing::debug!(%session, %error, "not renewed");
                    lease.suspend();
                    pause = backoff.next_delay(&self.0.runtime);
                }
            }
        }
    }

    async fn end(&self, session: &SessionId) -> Result<()> {
        let (until, id) = (Instant::now() + CLOSE_TIME, session.clone());
        self.0.write(until, move |state| Ok(state.end_session(id.as_str())?)).await
    }
}
