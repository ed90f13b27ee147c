//! The programs of the documentation, as tests.

macro_rules! pages {
    ($($page:literal),+ $(,)?) => {
        $(#[doc = include_str!(concat!("../../docs/recipes/", $page))] const _: () = ();)+
    };
}

#[cfg(feature = "config-centre")]
#[doc = include_str!("../../docs/config-centre.md")]
const _: () = ();

#[cfg(feature = "config-centre")]
#[doc = include_str!("../../docs/config-consumers.md")]
const _: () = ();

pages!(
    "barrier.md",
    "cache.md",
    "count-down-latch.md",
    "counter.md",
    "double-barrier.md",
    "election.md",
    "fence.md",
    "id-generator.md",
    "lock.md",
    "membership.md",
    "multilock.md",
    "partition.md",
    "persistent.md",
    "reentrant.md",
    "revocable.md",
    "run-once.md",
    "rwlock.md",
    "semaphore.md",
    "shared-value.md",
    "shared.md",
    "work-queue.md",
);

#[cfg(feature = "registry")]
#[doc = include_str!("../../docs/registry.md")]
const _: () = ();

#[cfg(feature = "registry")]
#[doc = include_str!("../../docs/balancing.md")]
const _: () = ();
