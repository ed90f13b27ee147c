//! The promises, by subject.

use crate::Case;

/// Lists the cases of a module under its name.
macro_rules! cases {
    ($group:literal, needs $need:ident: $($name:ident),+ $(,)?) => {
        /// The cases of this subject.
        pub(crate) const CASES: &[crate::Case] = &[$(
            crate::Case { name: concat!($group, "::", stringify!($name)), need: crate::Need::$need, run: |cx| Box::pin($name(cx)) }
        ),+];
    };
}

mod bugs_lock;
mod bugs_lock_faults;
mod bugs_restart;
mod bugs_watch;
mod bugs_watch_faults;
mod cache;
mod cache_faults;
mod config;
mod config_drafts;
mod config_faults;
mod config_gray;
mod config_history;
mod config_restart;
mod consumer;
mod consumer_faults;
mod consumer_meddler;
mod consumer_refusals;
mod consumer_restart;
mod consumer_transfer;
mod counter;
mod counter_faults;
mod double_barrier;
mod double_barrier_faults;
mod election;
mod election_faults;
mod election_order;
mod election_runs;
mod errors;
mod events;
mod events_faults;
mod events_views;
mod family;
mod faults;
mod holds;
mod holds_faults;
mod holds_restart;
mod ids;
mod keys;
mod kv;
mod latch;
mod lock;
mod lock_crowd;
mod lock_faults;
mod lock_late;
mod membership;
mod membership_faults;
mod multilock;
mod namespace;
mod ordered;
mod partition;
mod persistent;
mod persistent_faults;
mod recipes_restart;
mod reentrant;
mod registration;
mod registry;
mod registry_faults;
mod registry_layouts;
mod registry_restart;
mod restart;
mod revocable;
mod run_once;
mod run_once_faults;
mod rwlock;
mod semaphore;
mod session;
mod shared;
mod txn;
mod wait;
mod watch;
mod work_queue;
mod work_queue_faults;

/// Every case.
pub const ALL: &[Case] = &flatten();

const GROUPS: [&[Case]; 70] = [
    keys::CASES,
    kv::CASES,
    txn::CASES,
    ordered::CASES,
    wait::CASES,
    watch::CASES,
    session::CASES,
    namespace::CASES,
    errors::CASES,
    lock::CASES,
    faults::CASES,
    lock_faults::CASES,
    lock_late::CASES,
    lock_crowd::CASES,
    restart::CASES,
    holds_restart::CASES,
    shared::CASES,
    semaphore::CASES,
    rwlock::CASES,
    revocable::CASES,
    reentrant::CASES,
    multilock::CASES,
    holds_faults::CASES,
    holds::CASES,
    election::CASES,
    election_faults::CASES,
    election_order::CASES,
    election_runs::CASES,
    bugs_lock::CASES,
    bugs_lock_faults::CASES,
    bugs_restart::CASES,
    bugs_watch::CASES,
    bugs_watch_faults::CASES,
    cache::CASES,
    cache_faults::CASES,
    counter::CASES,
    counter_faults::CASES,
    double_barrier::CASES,
    double_barrier_faults::CASES,
    ids::CASES,
    latch::CASES,
    work_queue::CASES,
    work_queue_faults::CASES,
    persistent::CASES,
    persistent_faults::CASES,
    recipes_restart::CASES,
    membership::CASES,
    membership_faults::CASES,
    partition::CASES,
    registration::CASES,
    registry::CASES,
    registry_faults::CASES,
    registry_layouts::CASES,
    registry_restart::CASES,
    run_once::CASES,
    run_once_faults::CASES,
    config::CASES,
    config_drafts::CASES,
    config_faults::CASES,
    config_gray::CASES,
    config_history::CASES,
    config_restart::CASES,
    consumer::CASES,
    consumer_faults::CASES,
    consumer_restart::CASES,
    consumer_transfer::CASES,
    consumer_refusals::CASES,
    events::CASES,
    events_faults::CASES,
    events_views::CASES,
];

const COUNT: usize = {
    let (mut count, mut group) = (0, 0);
    while group < GROUPS.len() {
        count += GROUPS[group].len();
        group += 1;
    }
    count
};

const fn flatten() -> [Case; COUNT] {
    let mut all = [keys::CASES[0]; COUNT];
    let (mut at, mut group) = (0, 0);
    while group < GROUPS.len() {
        let mut i = 0;
        while i < GROUPS[group].len() {
            all[at] = GROUPS[group][i];
            at += 1;
            i += 1;
        }
        group += 1;
    }
    all
}
