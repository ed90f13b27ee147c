//! Moving on to another instance.

use std::{collections::BTreeSet, error::Error as StdError, fmt, time::Duration};

use coord_api::{
    Error,
    kit::{Backoff, Runtime},
};

use crate::{Balancer, Instance, Pick};

/// Longest pause before an instance is asked again.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What an error of a request means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The instance failed, and another may be asked: the request did nothing, or doing it twice does no harm.
    Retry,
    /// The instance failed, and the request must not be sent again: it may have been done.
    Failed,
    /// The instance is well and says no. Asking another would not help.
    Refused,
}

/// Sends a request to one instance after the other, until one answers.
///
/// What may be sent again only the caller knows, and says so by a [`Verdict`] about each error. Never asks an instance
/// twice while there are others, down or not; then after a pause of 50 ms that doubles up to a second, each a little
/// shorter at random. What failed counts for the [`DownPolicy`](crate::DownPolicy).
///
/// Time-outs belong into the call, as an error of its own: if the whole is dropped, nobody knows what it waited for.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// # use coord_api::SessionOptions;
/// # use coord_recipes::SessionKeeper;
/// use std::io;
/// use coord_registry::{Balancer, Failover, Instance, Registry, RoundRobin, Verdict};
///
/// # let registry = Registry::new(&store, "/services")?;
/// # let keeper = SessionKeeper::new(&store, SessionOptions::default());
/// # let b1 = registry.register(&keeper, Instance::new("billing", "b1", "10.0.0.7", 8080)).await?;
/// # let b2 = registry.register(&keeper, Instance::new("billing", "b2", "10.0.0.8", 8080)).await?;
/// # let billing = registry.discover("billing")?;
/// # billing.wait_until(|list| list.len() == 2).await?;
/// let balancer = Balancer::new(&billing, RoundRobin::new());
/// let failover = Failover::new(3, |error: &io::Error| match error.kind() {
///     io::ErrorKind::ConnectionRefused => Verdict::Retry, // it did not see the request
///     io::ErrorKind::InvalidInput => Verdict::Refused,
///     _ => Verdict::Failed,
/// });
/// let answer = failover
///     .call(&balancer, None, |instance| async move {
///         if instance.id() == "b1" {
///             return Err(io::ErrorKind::ConnectionRefused.into());
///         }
///         Ok(format!("{} answered", instance.id()))
///     })
///     .await?;
/// assert_eq!(answer, "b2 answered");
/// # b1.close().await?;
/// # b2.close().await?;
/// # Ok(())
/// # });
/// ```
#[derive(Clone)]
pub struct Failover<J> {
    tries: u32,
    judge: J,
}

/// Why a request was not answered.
#[derive(Debug)]
#[non_exhaustive]
pub enum FailoverError<E> {
    /// There was no instance to ask: as [`Balancer::pick`] says.
    Nobody(Error),
    /// The last try failed.
    Failed {
        /// The error of the last try.
        error: E,
        /// Who was asked, in this order; the last one gave the error.
        tried: Vec<Instance>,
    },
}

impl<J> Failover<J> {
    /// At most this many tries in all; 0 counts as 1. `judge` says what an error means.
    pub const fn new<E>(tries: u32, judge: J) -> Self
    where
        J: Fn(&E) -> Verdict,
    {
        Self { tries: if tries == 0 { 1 } else { tries }, judge }
    }

    /// Sends a request about `key`, if it is about one ([`Balancer::pick_for`]), by `call`.
    ///
    /// # Errors
    /// [`FailoverError::Nobody`] if no instance takes requests; [`FailoverError::Failed`] with the last error, and who
    /// was tried, if that error is not to be retried, the tries are used up, or nobody is left to ask.
    ///
    /// # Cancel safety
    /// As safe as `call`: dropping the future drops the request, and says nothing about its instance.
    pub async fn call<T, E, F>(
        &self,
        balancer: &Balancer,
        key: Option<&str>,
        call: impl Fn(Instance) -> F + Send + Sync,
    ) -> Result<T, FailoverError<E>>
    where
        F: Future<Output = Result<T, E>> + Send,
        J: Fn(&E) -> Verdict + Sync,
        E: Send,
        T: Send,
    {
        let mut tried: Vec<Instance> = Vec::new();
        let mut ids = BTreeSet::new();
        let mut pick = balancer.pick_without(key, &ids).map_err(FailoverError::Nobody)?;
        let mut backoff = Backoff::new(PAUSE_MAX);
        loop {
            tried.push(pick.instance().clone());
            let answer = call(pick.instance().clone()).await;
            let error = match answer {
                Ok(answer) => {
                    pick.succeeded();
                    return Ok(answer);
                }
                Err(error) => error,
            };
            let verdict = (self.judge)(&error);
            ids.insert(pick.instance().id().to_owned());
            match verdict {
                Verdict::Refused => pick.succeeded(),
                Verdict::Failed | Verdict::Retry => pick.failed(),
            }
            let used_up = u32::try_from(tried.len()).is_ok_and(|tries| tries >= self.tries);
            if verdict != Verdict::Retry || used_up {
                return Err(FailoverError::Failed { error, tried });
            }
            let Some(next) = next(balancer, key, &ids, &mut backoff).await else {
                return Err(FailoverError::Failed { error, tried });
            };
            pick = next;
        }
    }
}

/// Another instance at once, or one that was tried before after a pause.
async fn next(
    balancer: &Balancer,
    key: Option<&str>,
    tried: &BTreeSet<String>,
    backoff: &mut Backoff,
) -> Option<Pick> {
    let pick = balancer.pick_without(key, tried).ok()?;
    if !tried.contains(pick.instance().id()) {
        return Some(pick);
    }
    // Given back for the pause: others shall see it as free as it is.
    drop(pick);
    backoff.sleep(&Runtime::current().ok()?).await;
    balancer.pick_without(key, tried).ok()
}

impl<J> fmt::Debug for Failover<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failover").field("tries", &self.tries).finish_non_exhaustive()
    }
}

impl<E> FailoverError<E> {
    /// Who was asked, in this order.
    #[must_use]
    pub fn tried(&self) -> &[Instance] {
        match self {
            Self::Nobody(_) => &[],
            Self::Failed { tried, .. } => tried,
        }
    }
}

impl<E: fmt::Display> fmt::Display for FailoverError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nobody(error) => error.fmt(f),
            Self::Failed { error, tried } => {
                // Escaped: an id was written by others, and must not forge a line of a log.
                let tried: Vec<String> = tried.iter().map(|it| it.id().escape_debug().to_string()).collect();
                write!(f, "{error} (tried {})", tried.join(", "))
            }
        }
    }
}

impl<E: StdError + 'static> StdError for FailoverError<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Nobody(error) => Some(error),
            Self::Failed { error, .. } => Some(error),
        }
    }
}

#[cfg(test)]
#[path = "retry_tests.rs"]
mod tests;
