//! Trying again until the store answers.

use std::time::Duration;

use coord_api::{
    Result, Session,
    kit::{self, Runtime},
};

pub(crate) use kit::RETRY_CAP;

/// For how long a request may be on its way: systems give up what a dead connection did not deliver after a quarter
/// of an hour.
pub(crate) const LATEST: Duration = Duration::from_secs(15 * 60);

/// Calls until the store answers, refuses for good, or the session is over.
///
/// Only for calls that may be sent again after a lost reply: reads, and writes whose second application changes
/// nothing.
pub(crate) async fn insist<T, F>(session: &Session, call: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    kit::insist(|| while_valid(session), move |_| call()).await
}

/// The same, and whether the reply to an earlier try was lost: a refusal may be the answer to our own write then.
pub(crate) async fn insist_telling<T, F>(session: &Session, call: impl Fn() -> F) -> Result<(T, bool)>
where
    F: Future<Output = Result<T>>,
{
    let call = move |lost| {
        let answer = call();
        async move { answer.await.map(|answer| (answer, lost)) }
    };
    kit::insist(|| while_valid(session), call).await
}

fn while_valid(session: &Session) -> Option<Runtime> {
    session.is_valid().then(|| session.coord().runtime())
}
