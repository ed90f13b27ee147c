//! coord in one SQLite file, which any number of processes of a host share.
//!
//! There is no server: each handle reads and writes the file, whoever finds a dead session ends it, and a commit wakes
//! the watchers of other processes. `docs/backends/sqlite.md` describes the file, and what it promises and what it does
//! not: it is for **one host**, since locks and clocks are those of its kernel.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let url = format!("sqlite:{}", dir.path().join("app.db").display());
//! use coord_api::{Config, Registry};
//! use coord_backend_sqlite::SqliteFactory;
//!
//! let registry = Registry::new().with(SqliteFactory);
//! let coord = registry.connect(&Config::from_url(&url)?).await?; // such as sqlite:/var/lib/app/coord.db
//! coord.put("/config/rate", "100").await?;
//! coord.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Inside
//!
//! | module | idea |
//! |---|---|
//! | `file`, `presence`, `host` | opening: whose file it is, who else has it open, which boot and which clock |
//! | `queue`, `call` | from async callers to the two threads of a handle, and back |
//! | `writer`, `state` | the thread that commits, many callers at once; what a transaction does |
//! | `reader`, `query` | the thread that reads, and feeds the copies of directories from the log |
//! | `bell` | how a commit wakes other processes |
//! | `session` | renewals, and the owner's own deadline |
//! | `error` | the table from the driver's codes to kinds and retry classes |

mod backend;
mod bell;
mod call;
mod error;
mod factory;
#[cfg(feature = "faults")]
mod faults;
mod file;
mod host;
mod line;
mod presence;
mod query;
mod queue;
mod reader;
mod session;
mod settings;
mod state;
mod store;
mod writer;

pub use backend::SqliteBackend;
pub use factory::SqliteFactory;
#[cfg(feature = "faults")]
pub use faults::Faults;

/// The scheme of this backend's URLs.
pub const SCHEME: &str = "sqlite";
