//! What went wrong, on which key, and whether it may have been applied.

use std::{borrow::Cow, error::Error as StdError, fmt};

/// The result of every call of coord.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of thing went wrong.
///
/// Kinds are few and about what the caller can do; the facts are in the error's message and context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call itself is wrong: a malformed key, a key written twice, a missing session. Nothing was sent.
    InvalidArgument,
    /// The configuration is wrong: an unknown scheme, option or file. Nothing was sent.
    Config,
    /// Larger, longer or more than the store takes. Nothing was applied.
    LimitExceeded,
    /// The session ended: it was closed, it expired, or its local deadline passed. Open a new one.
    SessionLost,
    /// The guard no longer holds its lock or place in the line.
    LockLost,
    /// What is to be given back or changed is not held by the caller, but by somebody else or nobody. Nothing changed.
    NotHolder,
    /// A token or epoch is smaller than one that was seen before: it comes from a holder of the past. Nothing changed.
    StaleToken,
    /// Somebody else changed it first. Nothing changed by the call: look at what is there now, and decide again.
    Conflict,
    /// What the call names is not there, or no longer. Nothing changed.
    NotFound,
    /// The store cannot be reached, has no quorum, or refuses for now.
    Unavailable,
    /// The deadline passed first.
    Timeout,
    /// The store does not accept who we say we are.
    Unauthenticated,
    /// The store knows us and does not let us.
    PermissionDenied,
    /// The TLS handshake failed: untrusted certificate, wrong name, or a peer that does not speak TLS.
    Tls,
    /// Data in the store, written by others, that cannot be understood.
    Malformed,
    /// The handle was closed.
    Closed,
    /// Anything else; a bug in coord, a driver or a server.
    Unexpected,
}

impl ErrorKind {
    /// The kind as a stable lower-case word, as logs and JSON show it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid-argument",
            Self::Config => "config",
            Self::LimitExceeded => "limit-exceeded",
            Self::SessionLost => "session-lost",
            Self::LockLost => "lock-lost",
            Self::NotHolder => "not-holder",
            Self::StaleToken => "stale-token",
            Self::Conflict => "conflict",
            Self::NotFound => "not-found",
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
            Self::Unauthenticated => "unauthenticated",
            Self::PermissionDenied => "permission-denied",
            Self::Tls => "tls",
            Self::Malformed => "malformed",
            Self::Closed => "closed",
            Self::Unexpected => "unexpected",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a failed call changed the store (promise G8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The store is as it was: the call was surely not applied.
    NotApplied,
    /// The reply was lost: the call may or may not have been applied.
    Unknown,
}

/// Whether the same call may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// Sending it again fails again.
    Never,
    /// Nothing was applied and the cause may pass: send it again.
    Safe,
    /// A write may have been applied. Only a call that finds its own traces may be sent again, such as
    /// [`create_ordered`](crate::Backend::create_ordered) with the same nonce; for others, read first.
    Ambiguous,
}

/// An error with its kind, retry class, operation, facts and cause.
///
/// One pointer wide, so that `Result`s stay small.
///
/// ```
/// # use coord_api::{Error, ErrorKind, Outcome, Retry};
///
/// let error = Error::new(ErrorKind::Unavailable, "lost the connection before the reply")
///     .with_retry(Retry::Ambiguous)
///     .with_operation("commit")
///     .with_context("key", "/config/rate");
/// assert_eq!(error.outcome(), Outcome::Unknown);
/// assert!(error.to_string().contains("/config/rate"));
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    retry: Retry,
    operation: &'static str,
    message: Cow<'static, str>,
    context: Vec<(&'static str, String)>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of `kind` that is final ([`Retry::Never`]) until said otherwise.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            kind,
            retry: Retry::Never,
            operation: "",
            message: message.into(),
            context: Vec::new(),
            source: None,
        }))
    }

    /// A call that is wrong in itself.
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// A configuration that is wrong.
    pub fn config(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Config, message)
    }

    /// The session is over.
    pub fn session_lost(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::SessionLost, message)
    }

    /// The store could not be reached and surely did not see the call.
    pub fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Unavailable, message).with_retry(Retry::Safe)
    }

    /// The reply was lost; the call may have been applied.
    pub fn ambiguous(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Unavailable, message).with_retry(Retry::Ambiguous)
    }

    /// What kind of thing went wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the same call may be sent again.
    #[must_use]
    pub fn retry(&self) -> Retry {
        self.0.retry
    }

    /// Whether the failed call may have changed the store.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self.0.retry {
            Retry::Ambiguous => Outcome::Unknown,
            Retry::Never | Retry::Safe => Outcome::NotApplied,
        }
    }

    /// Which operation failed; empty if it has no name.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// What happened, without the facts.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The facts: `("key", "/a/b")` and the like.
    pub fn context(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.context.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// The same error for one more of those who wait for the same thing, without its cause, of which there is one.
    #[must_use]
    pub fn again(&self) -> Self {
        let Inner { kind, retry, operation, message, context, .. } = &*self.0;
        Self(Box::new(Inner {
            kind: *kind,
            retry: *retry,
            operation,
            message: message.clone(),
            context: context.clone(),
            source: None,
        }))
    }

    /// Sets the retry class.
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.0.retry = retry;
        self
    }

    /// Names the operation, unless an inner layer already did.
    #[must_use]
    pub fn with_operation(mut self, operation: &'static str) -> Self {
        if self.0.operation.is_empty() {
            self.0.operation = operation;
        }
        self
    }

    /// Adds a fact, unless one of that name is there.
    ///
    /// Control characters are escaped, so that a key written by others cannot forge a log line.
    #[must_use]
    pub fn with_context(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        if self.0.context.iter().all(|(known, _)| *known != name) {
            self.0.context.push((name, escape(&value.to_string())));
        }
        self
    }

    /// Keeps the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }
}

fn escape(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        if !inner.operation.is_empty() {
            write!(f, "{}: ", inner.operation)?;
        }
        f.write_str(&inner.message)?;
        for (i, (name, value)) in inner.context.iter().enumerate() {
            write!(f, "{}{name}={value}", if i == 0 { " (" } else { ", " })?;
        }
        if !inner.context.is_empty() {
            f.write_str(")")?;
        }
        if let Some(source) = &inner.source {
            write!(f, ": {}", escape(&source.to_string()))?;
        }
        if inner.retry == Retry::Ambiguous {
            f.write_str("; it may have been applied: read before trying again")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = match self.outcome() {
            Outcome::NotApplied => "nothing was applied",
            Outcome::Unknown => "it may have been applied",
        };
        write!(f, "{self} [{}; {outcome}]", self.0.kind)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|e| e as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ambiguous_error_tells_what_to_do_and_others_do_not() {
        let e = Error::ambiguous("reply lost").with_operation("commit").with_context("key", "/a");
        assert_eq!(
            e.to_string(),
            "commit: reply lost (key=/a); it may have been applied: read before trying again"
        );
        assert_eq!(Error::unavailable("no route").outcome(), Outcome::NotApplied);
    }

    #[test]
    fn the_innermost_operation_and_fact_win() {
        let e = Error::invalid("x").with_operation("get").with_operation("put");
        assert_eq!(e.operation(), "get");
        let e = e.with_context("key", "/a").with_context("key", "/b");
        assert_eq!(e.context().collect::<Vec<_>>(), [("key", "/a")]);
    }

    #[test]
    fn the_error_for_one_more_says_the_same() {
        let error = Error::unavailable("busy").with_operation("get").with_context("file", "/x.db");
        let again = error.again();
        assert_eq!((again.to_string(), again.retry()), (error.to_string(), Retry::Safe));
    }

    #[test]
    fn a_hostile_name_cannot_forge_a_log_line() {
        let e = Error::invalid("x").with_context("key", "/a\nINFO all is well \u{1b}[2J");
        assert!(!e.to_string().contains('\n') && !e.to_string().contains('\u{1b}'), "{e}");
    }
}
