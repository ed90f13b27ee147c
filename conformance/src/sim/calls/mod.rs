//! Every asynchronous call of every recipe by its name, so that a sweep can drop each of them at each of its polls.
//!
//! Three clients do the same, twice. The first client's first call is the one that is dropped; that it and the others
//! come to their end all the same, and that nothing is left over, shows that the drop did no harm.

mod data;
mod groups;
mod holds;

use std::{future::Future, time::Duration};

use coord_api::{Result, Session, SessionOptions};
use coord_recipes::SessionKeeper;

use super::{
    client::{Client, TTL},
    run::Scenario,
    scenarios,
};

/// The calls, each named by its file in `recipes/src` and its function.
#[must_use]
pub fn all() -> Vec<&'static Scenario> {
    [holds::CALLS, groups::CALLS, data::CALLS].into_iter().flatten().collect()
}

/// Lists calls: the name, and what a client does with it. `cut` marks the one that is dropped.
macro_rules! calls {
    ($($name:literal => ($me:ident, $on:ident) $body:block)+) => {
        pub(super) static CALLS: &[crate::sim::run::Scenario] = &[$(
            crate::sim::calls::call($name, |me| Box::pin(crate::sim::calls::program(me, |$me, $on| async move $body)))
        ),+];
    };
}
use calls;

/// Where lines and what goes with a session are.
const LINE: &str = "/line/x";
/// Where keys are that may stay.
const KEPT: &str = "/kept/";
/// How long something is waited for that may never be.
const MOMENT: Duration = Duration::from_millis(300);

const fn call(name: &'static str, client: fn(Client) -> futures::future::BoxFuture<'static, ()>) -> Scenario {
    let about = "one call of a recipe";
    Scenario { clients: 3, keeps: |key| key.starts_with(KEPT), ..scenarios::plain(name, about, client) }
}

async fn program<F>(me: Client, body: impl Fn(Client, Session) -> F)
where
    F: Future<Output = Result<()>>,
{
    let session = me.session().await;
    for _ in 0..me.steps() {
        me.idle(0, 30).await;
        let done = body(me.clone(), session.clone()).await;
        me.expect(done.is_ok(), || format!("{done:?}"));
    }
    // What does not arrive is made good by the ttl.
    let _ = session.close().await;
}

/// The call that is dropped; `None` then.
async fn cut<T>(me: &Client, call: impl Future<Output = Result<T>>) -> Result<Option<T>> {
    me.perhaps_cancelled(call).await.transpose()
}

/// The same for a call that may never end.
async fn cut_within<T>(me: &Client, call: impl Future<Output = T>) -> Option<T> {
    me.perhaps_cancelled(tokio::time::timeout(MOMENT, call)).await?.ok()
}

/// Holds what was got for a moment, and gives it back.
async fn give_back<G, F>(me: &Client, got: Option<G>, release: impl FnOnce(G) -> F) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    let Some(guard) = got else { return Ok(()) };
    me.idle(1, 30).await;
    release(guard).await
}

fn keeper(me: &Client) -> SessionKeeper {
    SessionKeeper::new(me.coord(), SessionOptions::new(TTL))
}

fn name_of(me: &Client) -> String {
    format!("node-{}", me.id())
}
