//! coord over Apache ZooKeeper.
//!
//! A key is a node below the chroot, a directory is a container node with a fixed value, a session is a session of
//! the server, and a line has Curator's layout, so that a Java service can stand in the same one.
//!
//! ```no_run
//! # async fn example() -> coord_api::Result<()> {
//! use coord_api::{Config, Registry};
//! use coord_backend_zk::ZkFactory;
//!
//! let registry = Registry::new().with(ZkFactory);
//! let coord = registry.connect(&Config::from_url("zk://zk1:2181,zk2:2181/app")?).await?;
//! coord.put("/config/rate", "10").await?;
//! # Ok(())
//! # }
//! ```
//!
//! The page `docs/backends/zookeeper.md` tells the mapping, what it costs, and which quirks of the server and of the
//! driver are worked around where.

mod backend;
mod base;
mod commit;
mod driver;
mod factory;
mod feed;
mod handle;
mod keys;
mod layout;
mod leaves;
mod line;
mod ordered;
mod paths;
mod plan;
mod probe;
mod replica;
mod scan;
mod session;
mod settings;
mod tide;
mod tree;
mod waits;

pub use backend::ZkBackend;
pub use factory::ZkFactory;
