//! A backend to begin from.
//!
//! It is complete and passes the conformance suite, so what you change shows. Its server is a map in this process, which
//! stands for yours; nobody should use it for anything else. The files are in the order in which to replace them:
//!
//! | file | holds | what you do |
//! |---|---|---|
//! | `server.rs` | what stands for your server | delete it |
//! | `client.rs` | what stands for your driver: calls, changes, and faults for the tests | keep your driver in one such module |
//! | `error.rs` | the table from the driver's errors to ours | a row for each error that you meet, and a test of each row |
//! | `factory.rs` | URL, options, and opening | your scheme and options; open with a real call |
//! | `backend.rs` | the contract | map each method |
//! | `line.rs` | names and order of places | the layout, if others speak one |
//! | `session.rs` | renewals and the local deadline | your lease, if the server has one |
//! | `feed.rs` | the copies of directories that waits and watches read | your watch, and what shows a gap in it |
//!
//! The steps are in the guide, `docs/guide/src/backend.md`.

mod backend;
mod client;
mod error;
mod factory;
mod feed;
mod line;
mod server;
mod session;

pub use backend::TemplateBackend;
pub use client::Wire;
pub use factory::TemplateFactory;

/// The scheme of this backend's URLs.
pub const SCHEME: &str = "template";
