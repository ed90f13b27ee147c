//! A configuration as a type of the program's own.

use std::sync::Arc;

use coord_api::Result;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::{Changes, Configuration, ConsumerOptions, Handle, Status, options::refused};
use crate::Layers;

/// Follows a configuration as a struct: always the newest that could be read and that the program accepts.
///
/// What does not fit the type, or is refused, changes nothing: the last good value stays, and [`Typed::status`] and the
/// report say why. All else is as with a [`Consumer`](super::Consumer).
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// use coord_config_centre::{ConfigCentre, ConsumerOptions, Content, Edit, Identity, Typed};
///
/// #[derive(Debug, serde::Deserialize)]
/// struct Limits {
///     rate: u32,
/// }
///
/// let billing = ConfigCentre::new(&store, "/config")?.namespace("billing")?;
/// billing.publish(Content::items([("rate", "100")]), &Edit::by("alice")).await?.done()?;
///
/// let options = ConsumerOptions::new(Identity::new("billing-7"));
/// let limits = Typed::open(&billing, options, |limits: &Limits| match limits.rate {
///     0 => Err("nobody could pay".to_owned()),
///     _ => Ok(()),
/// })
/// .await?;
/// assert_eq!(limits.current().rate, 100);
///
/// billing.publish(Content::items([("rate", "0")]), &Edit::by("bob")).await?.done()?;
/// # while limits.status().error.is_none() {
/// #     tokio::time::sleep(std::time::Duration::from_millis(10)).await;
/// # }
/// assert_eq!(limits.current().rate, 100, "the last good one stays");
/// # Ok(())
/// # });
/// ```
#[derive(Debug)]
pub struct Typed<T> {
    handle: Arc<Handle<Arc<T>>>,
    /// There is one since `open` returned.
    first: Arc<T>,
}

impl<T> Clone for Typed<T> {
    fn clone(&self) -> Self {
        Self { handle: Arc::clone(&self.handle), first: Arc::clone(&self.first) }
    }
}

impl<T: DeserializeOwned + Send + Sync + 'static> Typed<T> {
    /// Begins to follow, and waits for the first good value, however long.
    ///
    /// `check` accepts a value or says why not; the reason is reported and should hold no secret.
    ///
    /// # Errors
    /// As [`Consumer::open`](super::Consumer::open) and [`Consumer::ready`](super::Consumer::ready): also if the first
    /// configuration is refused, and there is no last good one in a snapshot file. Items and documents of another form
    /// are [`Malformed`](coord_api::ErrorKind::Malformed), and the error names the item.
    ///
    /// # Cancel safety
    /// Safe: dropping the future ends the consumer.
    pub async fn open(
        layers: impl Into<Layers>,
        options: ConsumerOptions,
        check: impl Fn(&T) -> std::result::Result<(), String> + Send + Sync + 'static,
    ) -> Result<Self> {
        let build = move |effective: &Configuration| {
            let value: T = effective.read()?;
            check(&value).map_err(refused)?;
            Ok(Arc::new(value))
        };
        let handle = Handle::open(layers.into(), options, Arc::new(build))?;
        let first = Arc::clone(&handle.ready().await?.value);
        Ok(Self { handle, first })
    }

    /// The value in force. Asks nobody.
    #[must_use]
    pub fn current(&self) -> Arc<T> {
        self.handle.current().map_or_else(|| Arc::clone(&self.first), |applied| Arc::clone(&applied.value))
    }

    /// Each value as it is put in force, beginning with the one that is. Ends when the store's handle is closed.
    #[must_use]
    pub fn changes(&self) -> Changes<T> {
        self.handle.changes(|applied| Arc::clone(&applied.value))
    }

    /// The configuration that the value was read from.
    #[must_use]
    pub fn effective(&self) -> Option<Arc<Configuration>> {
        self.handle.current().map(|applied| Arc::clone(&applied.effective))
    }

    /// How it does.
    #[must_use]
    pub fn status(&self) -> Status {
        self.handle.status()
    }

    /// The status and its changes, for `tokio::select!` and the like.
    #[must_use]
    pub fn statuses(&self) -> watch::Receiver<Status> {
        self.handle.shared.statuses.subscribe()
    }

    /// Takes the report back at once, as [`Consumer::close`](super::Consumer::close) does.
    ///
    /// # Errors
    /// As [`Consumer::close`](super::Consumer::close).
    ///
    /// # Cancel safety
    /// As [`Consumer::close`](super::Consumer::close).
    pub async fn close(&self) -> Result<()> {
        self.handle.close().await
    }
}
