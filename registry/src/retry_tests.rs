use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::future;
use tokio::time::Instant;

use super::*;
use crate::{
    ConsistentHash, DownPolicy, Random, RoundRobin,
    balance::tests::{List, balancer, instance},
};

/// Refused connections may be sent again, wrong input is refused, all else has failed.
fn judge(error: &io::Error) -> Verdict {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Verdict::Retry,
        io::ErrorKind::InvalidInput => Verdict::Refused,
        _ => Verdict::Failed,
    }
}

fn ids(instances: &[Instance]) -> Vec<&str> {
    instances.iter().map(Instance::id).collect()
}

/// Fails with `kind` for these ids, and answers with its own for others.
fn failing(
    kind: io::ErrorKind,
    dead: &'static [&'static str],
) -> impl Fn(Instance) -> future::Ready<io::Result<String>> + Send + Sync {
    move |instance| {
        let id = instance.id().to_owned();
        future::ready(if dead.contains(&id.as_str()) { Err(kind.into()) } else { Ok(id) })
    }
}

#[tokio::test]
async fn another_instance_answers_when_one_does_not() {
    let list = List::of(&["a", "b", "c"]);
    let balancer = balancer(&list, RoundRobin::starting_at(0), DownPolicy::first_failure());
    let failover = Failover::new(3, judge);
    let call = failing(io::ErrorKind::ConnectionRefused, &["a", "c"]);
    assert_eq!(failover.call(&balancer, None, call).await.unwrap(), "b");
    assert_eq!(balancer.down().into_iter().collect::<Vec<_>>(), ["a", "c"]);
}

#[tokio::test]
async fn tries_are_bounded_and_the_last_error_tells_who_was_tried() {
    let list = List::of(&["a", "b", "c", "d"]);
    let balancer = balancer(&list, RoundRobin::starting_at(0), DownPolicy::never());
    for (tries, asked) in [(0, 1), (1, 1), (2, 2), (4, 4)] {
        let calls = AtomicUsize::new(0);
        let error = Failover::new(tries, judge)
            .call(&balancer, None, |_| {
                let call = calls.fetch_add(1, Ordering::Relaxed);
                future::ready(Err::<(), _>(io::Error::new(
                    io::ErrorKind::ConnectionRefused,
                    format!("call {call}"),
                )))
            })
            .await
            .unwrap_err();
        assert_eq!(calls.load(Ordering::Relaxed), asked);
        assert_eq!(
            ids(error.tried()).into_iter().collect::<BTreeSet<_>>().len(),
            asked,
            "somebody was asked twice"
        );
        assert!(error.to_string().starts_with(&format!("call {} (tried ", asked - 1)), "{error}");
        assert!(error.to_string().contains(error.tried().last().unwrap().id()), "{error}");
    }
}

#[tokio::test]
async fn only_what_the_caller_calls_retryable_is_sent_again() {
    let list = List::of(&["a", "b"]);
    for (kind, down) in [(io::ErrorKind::TimedOut, 1), (io::ErrorKind::InvalidInput, 0)] {
        let balancer = balancer(&list, Random::new(), DownPolicy::first_failure());
        let error =
            Failover::new(5, judge).call(&balancer, None, failing(kind, &["a", "b"])).await.unwrap_err();
        assert_eq!(error.tried().len(), 1, "{error}");
        assert_eq!(balancer.down().len(), down, "{error}");
        let FailoverError::Failed { error, .. } = error else { panic!("{error}") };
        assert_eq!(error.kind(), kind);
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_twice_while_there_are_others_and_then_after_a_pause() {
    let list = List::of(&["a", "b", "c"]);
    for policy in [DownPolicy::never(), DownPolicy::first_failure()] {
        let balancer = balancer(&list, Random::new(), policy);
        let asked = Mutex::new(Vec::new());
        let began = Instant::now();
        let error = Failover::new(7, judge)
            .call(&balancer, None, |instance| {
                asked.lock().unwrap().push((instance.id().to_owned(), began.elapsed()));
                future::ready(Err::<(), _>(io::ErrorKind::ConnectionRefused.into()))
            })
            .await
            .unwrap_err();
        let asked = asked.into_inner().unwrap();
        assert_eq!(ids(error.tried()), asked.iter().map(|(id, _)| id).collect::<Vec<_>>());
        let first: BTreeSet<_> = asked.iter().take(3).map(|(id, _)| id).collect();
        assert_eq!(first.len(), 3, "{asked:?}");
        assert!(asked[2].1.is_zero(), "moving on needs no pause: {asked:?}");
        let pauses = asked.windows(2).skip(2).map(|two| two[1].1 - two[0].1);
        for (pause, longest) in pauses.zip([50, 100, 200, 400]) {
            let longest = Duration::from_millis(longest);
            assert!(
                longest / 2 <= pause && pause <= longest + Duration::from_millis(2),
                "{pause:?} of {longest:?}"
            );
        }
    }
}

#[tokio::test]
async fn without_instances_nothing_is_called() {
    let list = List::of(&[]);
    let balancer = balancer(&list, Random::new(), DownPolicy::default());
    let error = Failover::new(3, judge).call(&balancer, None, failing(io::ErrorKind::TimedOut, &[])).await;
    let error = error.unwrap_err();
    assert!(error.tried().is_empty() && matches!(&error, FailoverError::Nobody(_)), "{error}");
}

#[tokio::test]
async fn if_all_leave_while_it_tries_the_last_error_is_the_answer() {
    let list = List::of(&["a", "b"]);
    let balancer = balancer(&list, Random::new(), DownPolicy::default());
    let leaving = |_| {
        list.set([]);
        future::ready(Err::<(), _>(io::ErrorKind::ConnectionRefused.into()))
    };
    let error = Failover::new(3, judge).call(&balancer, None, leaving).await.unwrap_err();
    assert!(matches!(&error, FailoverError::Failed { tried, .. } if tried.len() == 1), "{error}");
}

#[tokio::test]
async fn a_request_about_a_key_moves_to_the_next_owner_of_the_key() {
    let list = List::of(&["a", "b", "c"]);
    let balancer = balancer(&list, ConsistentHash::new(), DownPolicy::never());
    let orders: BTreeSet<Vec<String>> = future::join_all((0..60).map(|key| {
        let balancer = balancer.clone();
        async move {
            let refused = |_| future::ready(Err::<(), _>(io::ErrorKind::ConnectionRefused.into()));
            let key = (key % 20).to_string();
            let error = Failover::new(3, judge).call(&balancer, Some(&key), refused).await.unwrap_err();
            let mut order = vec![key];
            order.extend(error.tried().iter().map(|instance| instance.id().to_owned()));
            order
        }
    }))
    .await
    .into_iter()
    .collect();
    assert_eq!(orders.len(), 20, "the order of a key is always the same: {orders:?}");
}

#[tokio::test]
async fn a_call_that_is_dropped_gives_its_request_back() {
    let list = List::of(&["a"]);
    let balancer = balancer(&list, Random::new(), DownPolicy::first_failure());
    let alive = Arc::new(());
    let failover = Failover::new(3, judge);
    let mut call = Box::pin(failover.call(&balancer, None, |_| {
        let alive = Arc::clone(&alive);
        async move {
            future::pending::<()>().await;
            drop(alive);
            Ok(())
        }
    }));
    assert!(futures::poll!(call.as_mut()).is_pending());
    assert_eq!(Arc::strong_count(&alive), 2);
    drop(call);
    assert_eq!(Arc::strong_count(&alive), 1);
    assert!(balancer.down().is_empty());
}

#[tokio::test]
async fn a_call_may_run_in_a_task_of_its_own_and_a_hostile_id_forges_no_log_line() {
    let list = List::of(&[]);
    list.set([instance("a\nall is well")]);
    let balancer = balancer(&list, Random::new(), DownPolicy::default());
    let call = tokio::spawn(async move {
        let refused = |_| future::ready(Err::<(), _>(io::ErrorKind::ConnectionRefused.into()));
        Failover::new(1, judge).call(&balancer, None, refused).await
    });
    let error = call.await.unwrap().unwrap_err();
    assert!(!error.to_string().contains('\n'), "{error}");
}
