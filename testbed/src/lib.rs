//! Starts, stops, pauses and cuts off real servers for tests.
//!
//! A test picks a [`Provider`] (local processes, containers, or a server somebody else runs),
//! starts a [`Server`] with it, and puts a [`Proxy`] on the link when it needs a network that
//! misbehaves:
//!
//! ```no_run
//! use coord_testbed::{Kind, Link, Provider, Server, ServerOptions};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let provider = Provider::choose(Kind::Redis).await?;
//! let mut server = Server::start(Kind::Redis, &provider, ServerOptions::new()).await?;
//! let link = server.proxied().await?;
//!
//! let lost = link.lose_reply(1); // the next command is applied, its answer never arrives
//! // ... let a client of `link.url()` run into it ...
//! lost.wait().await;
//!
//! link.set(Link::BlackHole); // a partition: nothing flows, nothing is reported
//! link.set(Link::Up); // it heals, and what was under way arrives
//!
//! server.kill().await?; // SIGKILL
//! server.restart().await?; // same address, same data
//! server.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Nothing outlives the test: a server dies with the process that started it, by whatever
//! cause, and what a killed machine left behind is swept at the next start (see [`sweep`]).

mod address;
mod cluster;
mod config;
#[cfg(feature = "docker")]
mod docker;
mod error;
mod framing;
mod handshake;
mod kind;
mod link;
mod local;
mod options;
mod provider;
mod proxy;
mod registry;
mod remote;
mod server;
mod spawner;
mod tls;

pub use cluster::Cluster;
pub use error::TestbedError;
pub use framing::Framing;
pub use kind::Kind;
pub use options::{Auth, ServerOptions};
pub use provider::Provider;
pub use proxy::{Link, LostReply, Proxy};
pub use registry::sweep;
pub use server::Server;
pub use tls::TlsFiles;

/// The result of everything here that can fail.
pub type Result<T, E = TestbedError> = std::result::Result<T, E>;
