//! coord over Redis and Valkey.
//!
//! A namespace is a small state machine of Lua scripts over seven keys: every change is one script, one revision and
//! one entry of a log. `docs/backends/redis.md` describes it, and what it promises and what it does not: **a Redis
//! with replicas or without an append-only file can lose acknowledged writes**, and then only fencing tokens
//! protect.
//!
//! ```no_run
//! # async fn example() -> coord_api::Result<()> {
//! use coord_api::{Config, Registry};
//! use coord_backend_redis::RedisFactory;
//!
//! let registry = Registry::new().with(RedisFactory);
//! let coord = registry.connect(&Config::from_url("redis://127.0.0.1:6379/orders")?).await?;
//! coord.put("/config/rate", "100").await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Inside
//!
//! | module | idea |
//! |---|---|
//! | `lua/*.lua`, `script` | the state machine |
//! | `conn`, `link` | a connection; the supervisor that makes it again, and ticks |
//! | `reader`, `feeds`, `snapshot` | the log feeds copies of directories, which begin with a snapshot |
//! | `session` | renewals, and the owner's own deadline |
//! | `error` | the table from the server's words to kinds and retry classes |

mod backend;
mod conn;
mod error;
mod factory;
mod feeds;
mod line;
mod link;
mod names;
mod reader;
mod record;
mod script;
mod server;
mod session;
mod settings;
mod snapshot;
mod tls;
mod txn;

pub use backend::RedisBackend;
pub use factory::RedisFactory;
