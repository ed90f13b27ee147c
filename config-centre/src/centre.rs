//! The centre: where namespaces are.

use std::{sync::Arc, time::Duration};

use coord_api::{Coord, Dir, Error, Freshness, IntoDir, Result, decode_segment};

use crate::{Namespace, Retention, model::Paths, releases::Releases};

/// Largest release, unless set otherwise.
const RELEASE_MAX: usize = 512 * 1024;

/// A directory of a store that holds namespaces of configuration. Cheap to clone.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// use coord_config_centre::{ConfigCentre, Content, Edit};
///
/// let centre = ConfigCentre::new(&store, "/config")?;
/// let billing = centre.namespace("billing")?;
/// let content = Content::items([("db.host", "10.0.0.1"), ("db.port", "5432")]);
/// billing.publish(content, &Edit::by("ann").note("moved")).await?.done()?;
///
/// assert_eq!(billing.get("db.port").await?.as_deref(), Some("5432"));
/// assert_eq!(centre.namespaces().await?, ["billing"]);
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct ConfigCentre {
    /// Reads are latest.
    pub(crate) coord: Coord,
    root: Dir,
    pub(crate) settings: Settings,
    pub(crate) releases: Arc<Releases>,
}

/// What may be set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) release_max: usize,
    pub(crate) retention: Retention,
    pub(crate) patience: Duration,
}

impl ConfigCentre {
    /// The centre in the directory `root`, all of which is its own. Talks to nobody.
    ///
    /// # Errors
    /// [`InvalidArgument`](coord_api::ErrorKind::InvalidArgument) if the name is no directory, or the root of the store.
    pub fn new(coord: &Coord, root: impl IntoDir) -> Result<Self> {
        let root = root.into_dir()?;
        if root.is_root() {
            return Err(Error::invalid("a config centre needs a directory of its own, not the root"));
        }
        let settings = Settings {
            release_max: RELEASE_MAX,
            retention: Retention::default(),
            patience: Duration::from_secs(10),
        };
        let coord = coord.clone().with_freshness(Freshness::Latest);
        Ok(Self { coord, root, settings, releases: Arc::default() })
    }

    /// The same, refusing releases larger than this many bytes as they are stored; 512 KiB if not set. The store's own
    /// limits hold besides.
    #[must_use]
    pub const fn with_release_max(mut self, bytes: usize) -> Self {
        self.settings.release_max = bytes;
        self
    }

    /// The same, keeping other releases and log entries. Every publisher of a namespace should say the same.
    #[must_use]
    pub const fn with_retention(mut self, retention: Retention) -> Self {
        self.settings.retention = retention;
        self
    }

    /// The same, asking for so long what became of a change whose reply was lost; 10 seconds if not set.
    #[must_use]
    pub const fn with_patience(mut self, patience: Duration) -> Self {
        self.settings.patience = patience;
        self
    }

    /// The namespace `name`, any text but the empty one. Talks to nobody: a namespace is there once something was published.
    ///
    /// Clones of a namespace share what they know of it, so keep one and clone it.
    ///
    /// # Errors
    /// [`InvalidArgument`](coord_api::ErrorKind::InvalidArgument) if the name is empty or too long.
    pub fn namespace(&self, name: &str) -> Result<Namespace> {
        if name.is_empty() {
            return Err(Error::invalid("a namespace needs a name"));
        }
        let paths = Paths::new(&self.root, name).map_err(|error| error.with_context("namespace", name))?;
        Ok(Namespace::new(self.clone(), name, paths))
    }

    /// The names of the namespaces in which there is anything, in order. Costs one round trip.
    ///
    /// # Errors
    /// As [`Coord::list`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn namespaces(&self) -> Result<Vec<String>> {
        let listing = self.coord.list(&self.root).await?;
        // A name that we could not have written is somebody else's.
        let mut names: Vec<_> =
            listing.children.iter().filter_map(|child| decode_segment(child.key.name())).collect();
        names.sort();
        Ok(names)
    }

    /// The directory that it is in.
    #[must_use]
    pub const fn root(&self) -> &Dir {
        &self.root
    }

    /// The store, with reads that are latest.
    #[must_use]
    pub const fn coord(&self) -> &Coord {
        &self.coord
    }
}
