use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    task::{Context, Poll},
};

use super::*;
use crate::{
    ErrorKind, Retry,
    kit::{CLOSE_TIME, Gate, Stamp},
};

const TTL: Duration = Duration::from_secs(10);

/// A store with one session.
#[derive(Debug, Default)]
struct Store {
    away: AtomicBool,
    over: AtomicBool,
    ends: AtomicUsize,
}

#[async_trait]
impl Renewal for Arc<Store> {
    async fn renew(&self, _: &SessionId, lease: &Lease) {
        loop {
            let sent = Stamp::now();
            tokio::time::sleep(TTL / 3).await;
            if self.over.load(Ordering::SeqCst) {
                return;
            }
            match self.away.load(Ordering::SeqCst) {
                true => lease.suspend(),
                false => _ = lease.renewed(sent),
            }
        }
    }

    async fn end(&self, _: &SessionId) -> Result<()> {
        self.ends.fetch_add(1, Ordering::SeqCst);
        match self.away.load(Ordering::SeqCst) {
            true => std::future::pending().await,
            false => Ok(()),
        }
    }
}

fn id() -> SessionId {
    SessionId::new("one")
}

fn open(store: &Arc<Store>) -> (Sessions<Arc<Store>>, Arc<dyn SessionDriver>) {
    let sessions = Sessions::default();
    let lease = Lease::simulated(TTL);
    let session = sessions.keep(id(), lease, Arc::clone(store), &Runtime::current().unwrap());
    (sessions, session)
}

async fn lost(session: &dyn SessionDriver) {
    session.state().wait_for(|state| *state == SessionState::Lost).await.unwrap();
}

/// Lets the tasks run that have something to do.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn it_lives_while_it_is_renewed_and_its_end_is_told_once_to_all_who_ask() {
    let store = Arc::new(Store::default());
    let (sessions, session) = open(&store);
    tokio::time::sleep(TTL * 5).await;
    assert_eq!(*session.state().borrow(), SessionState::Live);
    assert!(matches!(sessions.valid(&id()), Ok(Some(_))));
    let (one, two, all) = tokio::join!(session.close(), session.close(), sessions.close_all());
    assert!(one.is_ok() && two.is_ok() && all.is_ok());
    session.close().await.unwrap();
    assert_eq!(store.ends.load(Ordering::SeqCst), 1);
    assert!(matches!(sessions.valid(&id()), Ok(None)), "the store knows more");
}

#[tokio::test(start_paused = true)]
async fn whatever_ends_it_first_the_store_is_told() {
    let store = Arc::new(Store::default());
    let (_sessions, dropped) = open(&store);
    drop(dropped);
    settle().await;
    assert_eq!(store.ends.load(Ordering::SeqCst), 1, "its owner let it go");

    let (sessions, told) = open(&store);
    sessions.lose(&id());
    assert_eq!(sessions.valid(&id()).unwrap_err().kind(), ErrorKind::SessionLost);
    lost(&*told).await;
    settle().await;
    assert_eq!(store.ends.load(Ordering::SeqCst), 2, "a call found it over");

    let (_sessions, session) = open(&store);
    store.over.store(true, Ordering::SeqCst);
    lost(&*session).await;
    settle().await;
    assert_eq!(store.ends.load(Ordering::SeqCst), 3, "the store said so");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_ends_it_by_the_clock_and_confirms_nothing() {
    let store = Arc::new(Store::default());
    let (sessions, session) = open(&store);
    store.away.store(true, Ordering::SeqCst);
    let began = Instant::now();
    lost(&*session).await;
    assert_eq!(began.elapsed(), TTL * 9 / 10);
    assert_eq!(sessions.valid(&id()).unwrap_err().kind(), ErrorKind::SessionLost);
    let error = session.close().await.unwrap_err();
    assert_eq!(error.retry(), Retry::Ambiguous);
    assert_eq!(error.context().collect::<Vec<_>>(), [("session", "one")]);
    assert_eq!(began.elapsed(), TTL * 9 / 10 + CLOSE_TIME);
}

/// Lets no task go on: as after a freeze, no timer has run yet.
#[derive(Debug)]
struct Frozen;

impl Gate for Frozen {
    fn poll_open(&self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_past_its_deadline_is_not_valid_before_any_task_has_run() {
    let sessions = Sessions::default();
    let frozen = Runtime::current().unwrap().with_gate(Arc::new(Frozen));
    let session = sessions.keep(id(), Lease::simulated(TTL), Arc::new(Store::default()), &frozen);
    assert!(matches!(sessions.valid(&id()), Ok(Some(_))));
    tokio::time::advance(TTL).await;
    assert_eq!(*session.state().borrow(), SessionState::Live);
    assert_eq!(sessions.valid(&id()).unwrap_err().kind(), ErrorKind::SessionLost);
    assert_eq!(*session.state().borrow(), SessionState::Lost);
}
