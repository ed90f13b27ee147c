//! Parts that every backend needs, written once.
//!
//! | part | for |
//! |---|---|
//! | [`Runtime`] | where connections, keepalives and detached writes run |
//! | [`Lease`] | the local deadline of a session, and its state |
//! | [`Sessions`] | the sessions of a handle, where a store's client must renew them |
//! | [`Hub`] | one watch of a directory that feeds every waiter and watcher of the process |
//! | [`Hubs`] | which directories have one |
//! | [`Names`], [`in_order`] | the names of a directory in the order of a listing |
//! | [`Backoff`] | how long to wait before trying again |
//! | [`Guesses`] | what is probably so, remembered to save asking |
//! | [`insist`] | trying again until the store answers, and what a refusal means then |
//! | [`confirmed`] | what closing says, and how long it may take, when the store does not answer |
//! | [`replace_file`] | a file on the disk, whole or not at all |

mod backoff;
mod change_log;
mod closing;
mod file;
mod guesses;
mod here;
mod hub;
mod hubs;
mod insist;
mod lease;
mod names;
mod runtime;
mod sessions;
mod wakers;
mod watcher;

pub use backoff::Backoff;
pub use change_log::Change;
pub use closing::{CLOSE_TIME, confirmed};
pub use file::replace_file;
pub use guesses::Guesses;
pub use here::Here;
pub use hub::Hub;
pub use hubs::{HubRef, Hubs};
pub use insist::{RETRY_CAP, insist};
pub use lease::{Lease, Stamp};
pub use names::{LineOrder, Names, Rank, in_order};
pub use runtime::{Gate, Runtime};
pub use sessions::{Renewal, Sessions};
pub use wakers::{WakerRef, Wakers};
