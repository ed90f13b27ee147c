//! coord over etcd.
//!
//! [`EtcdFactory`] opens stores of the schemes `etcd` and `etcds`; the page `docs/backends/etcd.md` tells how keys
//! are laid out, what is promised and what was found about the server and the driver.
//!
//! | module | holds |
//! |---|---|
//! | `endpoints`, `error` | the driver: one client per member, what its errors mean |
//! | `paths`, `names` | where keys lie and how places in a line are named |
//! | `plan`, `commit`, `ordered`, `read`, `scan` | calls |
//! | `session` | leases and their renewal |
//! | `feed`, `assemble`, `mirror`, `watching` | one watch per directory, and everybody who reads it |

mod assemble;
mod backend;
mod commit;
mod endpoints;
mod error;
mod factory;
mod facts;
mod feed;
mod mirror;
mod names;
mod ordered;
mod paths;
mod plan;
mod read;
mod scan;
mod session;
mod settings;
mod store;
mod tls;
mod watching;

pub use backend::EtcdBackend;
pub use factory::EtcdFactory;
