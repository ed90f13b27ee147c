//! The contract of coord.
//!
//! This crate knows no store. It defines what a coordination store must do ([`Backend`]), the types that pass
//! through it, and the handles that applications hold ([`Coord`], [`Session`]). Backends implement the trait,
//! recipes are written over the handles, and the conformance suite holds both to the promises written here.
//!
//! # The model in one minute
//!
//! * A [`Key`] is an absolute path; only leaves have values. A [`Dir`] is what keys live in.
//! * Every write moves the store to a larger [`Revision`]; every [`Entry`] carries the revisions of its creation
//!   and last change, and a [`Version`] for compare-and-set.
//! * A [`Txn`] checks and writes several keys at once, all or nothing. A refused condition is a value
//!   ([`TxnOutcome::Rejected`]), not an error.
//! * A [`Session`] owns ephemeral keys. They exist exactly as long as the session does.
//! * [`OrderedCreate`] joins the line of a directory; [`Listing`] shows the line in the order of the store.
//! * [`Seen`] and [`Backend::wait`] wait like a futex: "return once what I saw is no longer true".
//! * [`WatchEvent`]s stream a directory: a snapshot, then changes, then a snapshot again after any gap.
//! * [`events`] tell what happens to a handle, its sessions, and what is held with them.
//! * An [`Error`] says what failed, on which key, and whether a write [may have been applied](Error::outcome).
//!
//! # Finding your way
//!
//! | you want | look at |
//! |---|---|
//! | to use coord | the `coord` crate, which re-exports what you need |
//! | to write a backend | [`Backend`], then [`kit`] for the parts every backend needs |
//! | to wrap a backend | [`Layer`] |
//! | to open a store by URL or file | [`Config`], [`Registry`] |

mod backend;
mod config;
mod context;
mod coord;
mod error;
pub mod events;
mod info;
mod key;
pub mod kit;
mod layer;
mod layers;
mod model;
mod ordered;
mod session;
mod txn;
mod watch;

pub use backend::Backend;
pub use config::{
    BackendFactory, Config, Host, OptionSpec, Options, Registry, Secret, StoreUrl, parse_duration,
};
pub use context::{Freshness, OpContext};
pub use coord::Coord;
pub use error::{Error, ErrorKind, Outcome, Result, Retry};
pub use info::{BackendInfo, Durability, Guarantees, Limits};
pub use key::{Dir, IntoDir, IntoKey, Key, decode_segment, encode_segment};
pub use layer::Layer;
pub use layers::{CheckedLayer, NamespaceLayer};
pub use model::{Child, Entry, FencingToken, Lifetime, Listing, Meta, Revision, Version};
pub use ordered::{Nonce, Ordered, OrderedCreate, Tag};
pub use session::{Session, SessionDriver, SessionId, SessionOptions, SessionState};
pub use txn::{Check, Commit, Failed, Op, Rejection, Txn, TxnOutcome, Written};
pub use watch::{Seen, Start, WatchEvent, WatchStream};
