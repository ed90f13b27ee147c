//! The programs of the documentation, as tests.

macro_rules! pages {
    ($dir:literal: $($page:literal),+ $(,)?) => {
        $(#[doc = include_str!(concat!("../../", $dir, $page))] const _: () = ();)+
    };
}

pages!("": "README.md", "README.zh.md");

// A test of the links fails if a chapter with a program is not here.
pages!(
    "docs/guide/src/":
    "backend.md",
    "choosing.md",
    "concepts.md",
    "fencing.md",
    "migrating/curator.md",
    "migrating/etcd.md",
    "migrating/kazoo.md",
    "migrating/redisson.md",
    "start.md",
    "testing.md",
);

#[cfg(feature = "prometheus")]
#[doc = include_str!("../../docs/observability.md")]
const _: () = ();

#[cfg(feature = "config-centre")]
#[doc = include_str!("../../docs/config-centre.md")]
const _: () = ();

#[cfg(feature = "config-centre")]
#[doc = include_str!("../../docs/config-consumers.md")]
const _: () = ();

pages!(
    "docs/recipes/":
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
