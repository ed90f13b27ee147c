//! Sessions: renewed in the background, and ended.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use coord_api::{
    Result, SessionDriver, SessionId, SessionOptions,
    kit::{Backoff, Lease, Renewal, Runtime, Sessions, Stamp},
};

use crate::{
    client::Client,
    error::{Call, classify},
    factory::Settings,
    line::session_id,
};

/// Longest pause between two renewals that fail.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How the server is told that a session lives, and that it is over.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) number: u64,
    client: Client,
    settings: Settings,
    runtime: Runtime,
}

/// Opens a session and begins to renew it.
pub(crate) async fn open(
    client: Client,
    sessions: Sessions<Granted>,
    settings: Settings,
    options: &SessionOptions,
    runtime: Runtime,
) -> Result<Arc<dyn SessionDriver>> {
    // Before it is sent: the store counts from later, so the owner knows first.
    let sent = Stamp::now();
    // A reply that is lost leaves a session that nobody renews: it ends by itself, and asking again is harmless.
    let number = client.open_session(options.ttl).await.map_err(|e| classify(e, Call::Read))?;
    let lease = Lease::new(options.ttl, sent);
    let granted = Granted { number, client, settings, runtime: runtime.clone() };
    Ok(sessions.keep(session_id(number), lease, granted, &runtime))
}

#[async_trait]
impl Renewal for Granted {
    async fn renew(&self, _: &SessionId, lease: &Lease) {
        let period = lease.ttl() / self.settings.renewals;
        let mut backoff = Backoff::new(PAUSE_MAX.min(period));
        let mut pause = period;
        loop {
            tokio::time::sleep(pause).await;
            let sent = Stamp::now();
            match self.client.renew_session(self.number).await {
                Ok(true) => {
                    lease.renewed(sent);
                    backoff.reset();
                    pause = period;
                }
                Ok(false) => return,
                Err(_) => {
                    lease.suspend();
                    pause = backoff.next_delay(&self.runtime);
                }
            }
        }
    }

    async fn end(&self, _: &SessionId) -> Result<()> {
        self.client.end_session(self.number).await.map_err(|e| classify(e, Call::Write))
    }
}
