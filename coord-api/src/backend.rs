//! What a store must do.

use std::{fmt, sync::Arc};

use async_trait::async_trait;

use crate::{
    BackendInfo, Dir, Entry, Key, Listing, OpContext, Ordered, OrderedCreate, Result, Seen, SessionDriver,
    SessionOptions, Start, Txn, TxnOutcome, WatchStream, kit::Runtime,
};

/// A coordination store.
///
/// The contract is between those who implement it and the handles, layers and recipes above; applications use
/// [`Coord`](crate::Coord). There are no optional methods and no default bodies: backends differ in
/// [`Limits`](crate::Limits) and [`Guarantees`](crate::Guarantees) only. Wrappers forward every method by hand, so
/// that the compiler points at them when one is added.
///
/// # What holds for every method
///
/// * **Cancel safety.** Dropping a future stops the waiting and nothing else: a write that was sent is not taken
///   back, and one that was not sent may still be. Nothing is left behind that the caller cannot find again.
/// * **Deadlines.** A call ends by [`OpContext::deadline`] where one is set, `wait` and `watch` excepted.
/// * **Errors.** [`Error::outcome`](crate::Error::outcome) of a failed write is `NotApplied` only if that is sure.
/// * **Threads.** Connections, keepalives and feeds of watches run on [`Backend::runtime`], never on the caller's
///   runtime unless that is what the backend is for (memory).
/// * **Hostile data.** Names and values written by others never cause a panic and never stop a watch.
#[async_trait]
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// The backend's name, limits and guarantees.
    fn info(&self) -> BackendInfo;

    /// Where work runs that must outlive its caller.
    fn runtime(&self) -> Runtime;

    /// Reads one key; `None` if it is absent or only a directory.
    async fn get(&self, ctx: &OpContext, key: &Key) -> Result<Option<Entry>>;

    /// Lists the names in `dir`: keys, and directories below. An absent directory is empty.
    ///
    /// A directory whose last key is gone may be listed for a while (ZooKeeper collects it later).
    async fn list(&self, ctx: &OpContext, dir: &Dir) -> Result<Listing>;

    /// Applies a transaction: all of it at one revision, or nothing.
    ///
    /// Ephemeral creations belong to [`OpContext::session`].
    async fn commit(&self, ctx: &OpContext, txn: Txn) -> Result<TxnOutcome>;

    /// Joins the line of a directory, once per nonce.
    ///
    /// The entry stands behind all that the store received earlier. Called again with the same nonce it returns the
    /// entry that is there, so it may be retried after [`Retry::Ambiguous`](crate::Retry::Ambiguous).
    /// Needs [`OpContext::session`].
    async fn create_ordered(&self, ctx: &OpContext, req: OrderedCreate) -> Result<Ordered>;

    /// Returns once `seen` is no longer true, at once if it is not true now.
    ///
    /// Level-triggered, like a futex: nothing can happen between looking and waiting that is missed. It may also
    /// return early for no reason, so the caller looks again. It does not return for lost connections, which heal;
    /// it fails when the backend is closed or refuses for good.
    async fn wait(&self, ctx: &OpContext, seen: &Seen) -> Result<()>;

    /// Streams the changes of `dir` and everything below.
    async fn watch(&self, ctx: &OpContext, dir: &Dir, start: Start) -> Result<WatchStream>;

    /// Opens a session and keeps it alive until it is closed or lost.
    async fn open_session(&self, options: &SessionOptions) -> Result<Arc<dyn SessionDriver>>;

    /// Ends all sessions of this handle, its watches, tasks and connections. Calls afterwards fail with
    /// [`Closed`](crate::ErrorKind::Closed). Closing twice is fine.
    ///
    /// A store that does not answer is not waited for longer than [`CLOSE_TIME`](crate::kit::CLOSE_TIME); the error of
    /// a session whose end it did not confirm is told.
    async fn close(&self) -> Result<()>;
}
