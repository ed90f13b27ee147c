//! Distributed coordination behind one API: the same code takes a fair, fenced lock over ZooKeeper, etcd, Redis or
//! memory, chosen by a URL.
//!
//! ```
//! use std::time::Duration;
//!
//! #[tokio::main]
//! async fn main() -> coord::Result<()> {
//!     let store = coord::connect("memory:").await?;
//!     let session = store.session(Duration::from_secs(10)).await?;
//!     let guard = coord::Lock::new(&session, "/locks/orders")?.acquire().await?;
//!     println!("the lock is ours, with fencing token {}", guard.token());
//!     guard.release().await?;
//!     session.close().await
//! }
//! ```
//!
//! # Another store
//!
//! One line, and the program above does the same on real servers:
//!
//! ```text
//! coord::connect("zk://127.0.0.1:2181/app").await?;
//! coord::connect("etcd://127.0.0.1:2379/app").await?;
//! coord::connect("redis://127.0.0.1:6379/app").await?;
//! ```
//!
//! Or no line of the program at all: [`from_env`] reads the URL from `COORD_URL`, [`from_config`] from a file.
//!
//! ```toml
//! # coord.toml: to change the store, change this line.
//! url = "etcd://127.0.0.1:2379/app"
//! ```
//!
//! # Features
//!
//! | feature | schemes |
//! |---|---|
//! | `memory` (default) | `memory:`, `memory:name` |
//! | `zk` | `zk://` |
//! | `etcd` | `etcd://` (its client needs `protoc` to build) |
//! | `redis` | `redis://`, for Redis and Valkey |
//! | `sqlite` | `sqlite:`, `sqlite:/path/to/file`: one file that the processes of a host share; [`from_env`] without `COORD_URL` |
//! | `tls` | adds `zks://`, `etcds://`, `rediss://` to those that are on |
//! | `config-centre` | none: adds the module `config_centre` |
//! | `registry` | none: services and their instances, in the module `registry` |
//! | `tower` | none: adds to `registry` what tower balances over |
//! | `metrics` | none: counts what handles do, for the `metrics` facade ([`layers`]) |
//! | `prometheus` | none: adds the module `prometheus`, a page of these numbers |
//! | `full` | all of them |
//!
//! # Finding your way
//!
//! | you want | look at |
//! |---|---|
//! | to read, write, watch | [`Coord`] |
//! | several writes at once, or none | [`Txn`] |
//! | keys that go when the process goes | [`Session`], [`Lifetime::Session`] |
//! | one at a time | [`Lock`], [`LockGuard`]; [`ReentrantLock`], [`SharedLock`], [`MultiLock`] |
//! | many readers or one writer; a few at a time | [`RwLock`]; [`Semaphore`] |
//! | to refuse a holder from the past elsewhere | [`Hold::token`], [`Fence`] |
//! | one that leads, and to know who | [`Candidate`], [`Election`] |
//! | to be seen as long as the process lives | [`Membership`], [`PersistentEphemeral`] |
//! | services and their instances | the module `registry`, with the feature of that name |
//! | a share of the work for each | [`Partition`] |
//! | a scheduled job once | [`RunOnce`] |
//! | configuration that is published, rolled back, given to some first | `config_centre` (feature `config-centre`) |
//! | to hear of lost sessions and locks, and of outages | [`Coord::events`], [`events`] |
//! | to know whether a failed write was applied | [`Error::outcome`] |
//! | to know what a store promises | [`Coord::info`], [`Guarantees`] |
//! | a backend or a layer of your own | [`api`], [`layers`], [`connect_through`] |

mod connect;
#[cfg(doctest)]
mod pages;
#[cfg(feature = "prometheus")]
pub mod prometheus;
mod schemes;

#[cfg(feature = "memory")]
pub use coord_backend_memory as memory;
#[cfg(feature = "config-centre")]
pub use coord_config_centre as config_centre;

#[cfg(feature = "registry")]
pub use coord_registry as registry;

pub use coord_api as api;
pub use coord_api::events;
pub use coord_layers as layers;

pub use coord_api::{
    BackendInfo, Check, Child, Commit, Config, Coord, Dir, Durability, Entry, Error, ErrorKind, Failed,
    FencingToken, Freshness, Guarantees, IntoDir, IntoKey, Key, Lifetime, Limits, Listing, Meta, Op, Outcome,
    Registry, Rejection, Result, Retry, Revision, Secret, Seen, Session, SessionId, SessionOptions,
    SessionState, Start, StoreUrl, Txn, TxnOutcome, Version, WatchEvent, WatchStream, Written,
    encode_segment, parse_duration,
};
pub use coord_recipes::{
    Barrier, Cache, CacheEvent, CacheState, Candidate, CandidateOptions, CandidateState, Change,
    CountDownLatch, Counter, DoubleBarrier, Election, Entered, Fence, HashRing, Hold, IdGenerator, Item,
    Joined, LeaderStream, Leadership, Listener, Lock, LockGuard, Marker, MarkerState, Member, MemberEvent,
    MemberStream, Membership, MultiGuard, MultiLock, Owner, Participant, Partition, Permit,
    PersistentEphemeral, Priority, ReadGuard, ReentrantGuard, ReentrantLock, RegistrationState, RunOnce,
    RunOutcome, RwLock, Semaphore, SessionKeeper, Share, ShareStream, SharedGuard, SharedLock, SharedValue,
    Snapshot, Unfinished, Versioned, WorkQueue, WriteGuard,
};

pub use connect::{connect, connect_through, connect_with, from_config, from_env};
pub use schemes::registry;
