//! Requests under way: bounded in number and in time, and never cut short by a caller who goes away.

use std::{
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use coord_api::{Error, ErrorKind, Retry, kit::Runtime};
use futures::FutureExt;
use tokio::{
    sync::{OwnedSemaphorePermit, watch},
    time::{Instant, timeout_at},
};
use zookeeper_client as zk;

use super::{Conn, Effect, Fault, errors::fault};

type Reply<T> = Pin<Box<dyn Future<Output = std::thread::Result<T>> + Send>>;

/// A request that was handed to the driver.
///
/// If it is dropped before the reply it goes on in the background, so that its place among the
/// requests in flight is free only when the driver is rid of it.
struct Flight<T: Send + 'static> {
    reply: Option<Reply<T>>,
    permit: Option<OwnedSemaphorePermit>,
    closing: watch::Receiver<bool>,
    runtime: Runtime,
}

impl<T: Send + 'static> Future for Flight<T> {
    type Output = std::thread::Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(reply) = self.reply.as_mut() else { return Poll::Pending };
        let result = std::task::ready!(reply.as_mut().poll(cx));
        self.reply = None;
        Poll::Ready(result)
    }
}

impl<T: Send + 'static> Drop for Flight<T> {
    fn drop(&mut self) {
        let (Some(reply), permit) = (self.reply.take(), self.permit.take()) else { return };
        let mut closing = self.closing.clone();
        self.runtime.spawn(async move {
            tokio::select! {
                biased;
                // The request holds a handle of the session, which would keep it from closing.
                _ = closing.wait_for(|closing| *closing) => {}
                _ = reply => {}
            }
            drop(permit);
        });
    }
}

impl Conn {
    /// A place among the requests in flight.
    async fn permit(&self, deadline: Instant) -> Result<OwnedSemaphorePermit, Fault> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Ok(permit);
        }
        let permit = timeout_at(deadline, Arc::clone(&self.permits).acquire_owned()).await.map_err(|_| {
            Error::new(ErrorKind::Timeout, "too many requests in flight until the deadline")
                .with_retry(Retry::Safe)
        })?;
        Ok(permit.map_err(|_| self.over())?)
    }

    /// Sends what `request` makes of the driver's client and waits for the reply until `deadline`.
    ///
    /// # Cancel safety
    /// What was sent stays sent.
    pub(super) async fn call<T, F>(
        &self,
        deadline: Instant,
        effect: Effect,
        request: impl FnOnce(zk::Client) -> F + Send,
    ) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, zk::Error>> + Send + 'static,
    {
        self.ready(deadline).await?;
        let permit = self.permit(deadline).await?;
        if Instant::now() >= deadline {
            return Err(Error::new(ErrorKind::Timeout, "the deadline has passed")
                .with_retry(Retry::Safe)
                .into());
        }
        let client = self.client()?;
        let mut closing = self.closing.subscribe();
        let reply = AssertUnwindSafe(request(client)).catch_unwind().boxed();
        let flight = Flight {
            reply: Some(reply),
            permit: Some(permit),
            closing: closing.clone(),
            runtime: self.runtime.clone(),
        };
        let retry = match effect {
            Effect::Read => Retry::Safe,
            Effect::Write => Retry::Ambiguous,
        };
        tokio::select! {
            biased;
            reply = timeout_at(deadline, flight) => match reply {
                Ok(Ok(Ok(reply))) => Ok(reply),
                Ok(Ok(Err(error))) => Err(fault(error, self.role, effect)),
                Ok(Err(_panic)) => {
                    Err(Error::new(ErrorKind::Unexpected, "the reply cannot be understood").with_retry(retry).into())
                }
                Err(_elapsed) => {
                    Err(Error::new(ErrorKind::Timeout, "no reply before the deadline").with_retry(retry).into())
                }
            },
            _ = closing.wait_for(|closing| *closing) => Err(fault(zk::Error::ClientClosed, self.role, effect)),
        }
    }
}
