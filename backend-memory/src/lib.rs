//! coord in memory: the reference backend, and the strictest.
//!
//! What passes here is portable: it enforces the leaf rule, keeps every limit, starts at a random revision so that
//! nobody relies on absolute numbers, and can be told to [fail](Faults) in the ways that networks and servers do. It
//! runs on the caller's runtime and its clock, so a test under tokio's paused clock is deterministic.
//!
//! * `memory:` is a store of its own, gone with the last handle.
//! * `memory:name` is shared by all handles of that name in the process, while one is open.
//!
//! ```
//! # coord_backend_memory::doc_example(async |_| {
//! use coord_api::{Config, Registry};
//! use coord_backend_memory::MemoryFactory;
//!
//! let registry = Registry::new().with(MemoryFactory);
//! let a = registry.connect(&Config::from_url("memory:shared")?).await?;
//! let b = registry.connect(&Config::from_url("memory:shared")?).await?;
//! a.put("/greeting", "hello").await?;
//! assert!(b.get("/greeting").await?.is_some());
//! # Ok(())
//! # });
//! ```

mod backend;
mod factory;
mod faults;
mod log;
mod session;
mod state;
mod store;
mod watch;

pub use backend::MemoryBackend;
pub use factory::{MemoryFactory, doc_example};
pub use faults::{Fault, Faults};
pub use store::MemoryStore;

/// The scheme of this backend's URLs.
pub const SCHEME: &str = "memory";
