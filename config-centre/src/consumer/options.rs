//! How a consumer consumes.

use std::{fmt, path::PathBuf, time::Duration};

use coord_api::{Error, ErrorKind, Result};
use coord_recipes::SessionKeeper;

use super::Configuration;
use crate::{Identity, Keyring};

/// Accepts a configuration, or says why not.
pub(super) type Check = Box<dyn Fn(&Configuration) -> Result<()> + Send + Sync>;

/// Who consumes, and how.
pub struct ConsumerOptions {
    pub(super) identity: Identity,
    pub(super) keyring: Option<Keyring>,
    pub(super) file: Option<PathBuf>,
    pub(super) patience: Duration,
    pub(super) keeper: Option<SessionKeeper>,
    pub(super) check: Option<Check>,
}

impl ConsumerOptions {
    /// How long the store may take at the start before the snapshot file is used, unless told otherwise.
    pub const PATIENCE: Duration = Duration::from_secs(3);

    /// Consumes as this instance: gray rules go by its id, address and labels.
    #[must_use]
    pub const fn new(identity: Identity) -> Self {
        Self { identity, keyring: None, file: None, patience: Self::PATIENCE, keeper: None, check: None }
    }

    /// The same, opening encrypted values with these keys. Without it they are handed over as they are.
    #[must_use]
    pub fn with_keyring(mut self, keyring: Keyring) -> Self {
        self.keyring = Some(keyring);
        self
    }

    /// The same, keeping the last good configuration in this file, for a start without the store.
    ///
    /// Only its owner may read it, and encrypted values stay so in it. It is used if the store has not answered a while
    /// after the start, or has only what is refused. A damaged file is ignored, and [`Status`](super::Status) says so.
    /// A file that is ahead of the store holds: after a store was restored from a backup, remove it.
    #[must_use]
    pub fn with_snapshot(mut self, file: impl Into<PathBuf>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// The same, using the snapshot file after this time; [`PATIENCE`](Self::PATIENCE) if not set.
    #[must_use]
    pub const fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The same, reporting what it runs, as long as a session of this keeper lives: see
    /// [`Namespace::instances`](crate::Namespace::instances). Every instance needs an id of its own for it.
    #[must_use]
    pub fn with_report(mut self, keeper: &SessionKeeper) -> Self {
        self.keeper = Some(keeper.clone());
        self
    }

    /// The same, applying only what `check` accepts. What it refuses is reported with the reason that it gives, which
    /// should hold no secret.
    #[must_use]
    pub fn with_check(
        mut self,
        check: impl Fn(&Configuration) -> std::result::Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.check = Some(Box::new(move |effective| check(effective).map_err(refused)));
        self
    }
}

impl fmt::Debug for ConsumerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumerOptions")
            .field("identity", &self.identity)
            .field("keyring", &self.keyring)
            .field("file", &self.file)
            .field("patience", &self.patience)
            .field("reports", &self.keeper.is_some())
            .field("checks", &self.check.is_some())
            .finish()
    }
}

/// The program does not want this configuration.
pub(super) fn refused(why: String) -> Error {
    Error::new(ErrorKind::Malformed, "the program refuses the configuration").with_context("why", why)
}
