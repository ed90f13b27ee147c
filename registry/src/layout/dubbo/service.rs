//! What Dubbo keeps about a service beside its providers.

use bytes::Bytes;
use coord_api::{Coord, Dir, IntoDir, Lifetime, Result};
use coord_recipes::{PersistentEphemeral, SessionKeeper};

use super::{CONFIGURATORS, CONSUMERS, DubboRoute, DubboUrl, ROUTERS, encoding, key_in};

/// One interface in Dubbo's registry: its consumers, overrides and routes.
///
/// Its providers are instances of a [`Registry`](crate::Registry) with [`DubboLayout`](crate::DubboLayout), whose views
/// apply the overrides by themselves. Nodes that cannot be read are left out, with a line in the log.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// use coord_registry::{DubboService, DubboUrl};
///
/// let orders = DubboService::new(&store, "/dubbo", "com.shop.Orders")?;
/// // Half of the usual weight for one provider, until the rule is deleted.
/// let rule = DubboUrl::new("override", "10.0.0.7", Some(20880), "com.shop.Orders")
///     .with("category", "configurators")
///     .with("dynamic", "false")
///     .with("weight", "50");
/// orders.put_override(&rule).await?;
/// assert_eq!(orders.overrides().await?, [rule.clone()]);
/// assert!(orders.delete_override(&rule).await?);
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct DubboService {
    coord: Coord,
    interface: String,
    dir: Dir,
}

impl DubboService {
    /// The interface in the registry at `root`, which is `/dubbo` unless the registry has a group.
    ///
    /// # Errors
    /// [`InvalidArgument`](coord_api::ErrorKind::InvalidArgument) if one of the two cannot be part of a key.
    pub fn new(coord: &Coord, root: impl IntoDir, interface: impl Into<String>) -> Result<Self> {
        let interface = interface.into();
        let dir = root.into_dir()?.dir(&encoding::encode(&interface))?;
        Ok(Self { coord: coord.clone(), interface, dir })
    }

    /// Registers us as a consumer, as Dubbo's do, so that its consoles show us: an ephemeral node that is registered again
    /// after each new session.
    ///
    /// `host` is our own address. It is for people to see, and changes nothing for providers.
    ///
    /// # Errors
    /// [`InvalidArgument`](coord_api::ErrorKind::InvalidArgument) if the URL cannot be said in a node, and as
    /// [`PersistentEphemeral::new`].
    pub fn register_consumer(
        &self,
        keeper: &SessionKeeper,
        host: &str,
        application: &str,
    ) -> Result<PersistentEphemeral> {
        let url = DubboUrl::new("consumer", host, None, &self.interface)
            .with("application", application)
            .with("category", CONSUMERS)
            .with("check", "false")
            .with("interface", &self.interface)
            .with("side", "consumer");
        PersistentEphemeral::new(keeper, key_in(CONSUMERS, &self.dir, &url)?, Bytes::new())
    }

    /// Who is registered as a consumer.
    ///
    /// # Errors
    /// As [`Coord::list`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn consumers(&self) -> Result<Vec<DubboUrl>> {
        self.read(CONSUMERS, Ok).await
    }

    /// The overrides, also those that are not in force.
    ///
    /// # Errors
    /// As [`Coord::list`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn overrides(&self) -> Result<Vec<DubboUrl>> {
        self.read(CONFIGURATORS, Ok).await
    }

    /// The routes, also those that are not in force.
    ///
    /// # Errors
    /// As [`Coord::list`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn routes(&self) -> Result<Vec<DubboRoute>> {
        self.read(ROUTERS, DubboRoute::new).await
    }

    /// Adds an override, for good; `false` if it is there already.
    ///
    /// # Errors
    /// [`InvalidArgument`](coord_api::ErrorKind::InvalidArgument) if the URL cannot be said in a node, and as
    /// [`Coord::create`].
    ///
    /// # Cancel safety
    /// Safe: it may have been added.
    pub async fn put_override(&self, rule: &DubboUrl) -> Result<bool> {
        let key = key_in(CONFIGURATORS, &self.dir, rule)?;
        Ok(self.coord.create(key, Bytes::new(), Lifetime::Persistent).await?.is_some())
    }

    /// Deletes an override, which must be given as it was read; `false` if it is not there.
    ///
    /// # Errors
    /// As [`Coord::delete`].
    ///
    /// # Cancel safety
    /// Safe: it may have been deleted.
    pub async fn delete_override(&self, rule: &DubboUrl) -> Result<bool> {
        self.coord.delete(key_in(CONFIGURATORS, &self.dir, rule)?).await
    }

    async fn read<T>(&self, category: &str, what: impl Fn(DubboUrl) -> Result<T> + Send) -> Result<Vec<T>> {
        let listing = self.coord.list(self.dir.dir(category)?).await?;
        let read = listing.children.iter().filter_map(|child| {
            DubboUrl::from_node(child.key.name())
                .and_then(&what)
                .inspect_err(
                    |error| tracing::warn!(key = %child.key, %error, "a node of Dubbo's is left out"),
                )
                .ok()
        });
        Ok(read.collect())
    }
}
