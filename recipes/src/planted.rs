//! Bugs that can be switched on, for the tests of the tests: each must be found by the simulation.
//!
//! Each is a bug that a coordination library has had, or could have. Without the feature `planted-bugs` there is no
//! switch, and every question is answered `false` when the crate is compiled.

macro_rules! bugs {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// A bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Bug { $($(#[doc = $doc])* $name,)* }

        impl Bug {
            /// All bugs.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// What is wrong.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),*),)* }
            }
        }
    };
}

bugs! {
    /// Each try to join the line makes a new nonce, so that a lost reply leaves a second entry (Curator without protection, CURATOR-62).
    FreshNonce,
    /// A waiter is granted without a look at its session (etcd 11456, found by Jepsen).
    NoSessionProof,
    /// A waiter looks neither for its own entry nor at its session when nobody is ahead.
    OwnEntryUnchecked,
    /// A wake-up is taken for a grant, although the one ahead may have left from the middle of the line.
    GrantOnWake,
    /// A waiter watches nobody ahead of it.
    WaitsForNobody,
    /// A release gives up when its reply is lost (CURATOR-678).
    ReleaseGivesUp,
    /// A request to join that arrives late is looked for by nobody.
    NoSweep,
    /// A cancelled acquire or dropped guard leaves its entry (zk-ruby 49, zookeeper-async shared_lock).
    DroppedPlaceStays,
    /// A join is cancelled with its caller, wherever it is.
    JoinDiesWithCaller,
    /// The line is ordered by names instead of the store's order (ZOOKEEPER-2931).
    OrderByName,
    /// The session's id is the fencing token (etcd contrib/lock).
    TokenOfSession,
    /// A guard is valid until it is released, whatever became of its session (the pause of the seed article).
    GuardNeverExpires,
    /// `lost` never resolves (Redisson: the holder is not told).
    LossUntold,
    /// A try that fails leaves its entry in the line (kazoo 732).
    TryLeavesEntry,
    /// A try takes the lock although others are ahead.
    TryTakesAnyway,
    /// Readers pass writers.
    ReaderPassesWriters,
    /// A writer waits for writers only.
    WriterPassesReaders,
    /// Stepping down to reader gives the lock up for a moment (CURATOR-621).
    DowngradeReleases,
    /// A semaphore gives one permit too many.
    SemaphoreOneTooMany,
    /// A semaphore that is resized leaves no mark, so that those who know the old number go on with it.
    ResizeUnmarked,
    /// A commit under a guard applies whether the guard holds or not (a lease checked and then used).
    CommitUnguarded,
    /// The first release of a re-entrant lock frees it (kazoo 291).
    FirstReleaseFrees,
    /// Several locks are taken in any order (Redisson 4050: deadlock).
    MultiInAnyOrder,
    /// A try for several locks that fails keeps those that it got.
    MultiKeepsPart,
    /// A leader that lost its session says that it leads (CURATOR-696: two leaders).
    LeaderForEver,
    /// An observer takes the last candidate for the leader (etcd 18163).
    ObserverTellsLast,
    /// A registration comes back without its data.
    DataForgotten,
    /// A registration does not come back after a loss (go-zero 1926).
    NotRegisteredAgain,
    /// A registration does not see that its key was deleted by hand.
    DeletionUnseen,
    /// An update of a registration that arrives late undoes a later one.
    LateUpdateUndoes,
    /// A watcher of a group keeps those who went during a gap.
    MembersMerged,
    /// A group counts every key in its directory, also those that belong to no session.
    StrangersAreMembers,
    /// A member owns its share though its session is over.
    ShareOutlivesSession,
    /// A share of work stays with a member that went.
    RingForgetsNobody,
    /// A swap of a shared value does not look at the version.
    SwapsBlindly,
    /// A listener of a shared value is told what was there before, when it comes back after a gap.
    ListenerTellsBefore,
    /// A view of a service keeps the instances that went during a gap.
    DiscoveryKeepsGone,
    /// A consumer of configuration takes a release that is older than the one it runs.
    ConfigTakesOlder,
    /// A cache keeps what was deleted during a gap.
    GapMerged,
    /// A cache tells an event again that the watch repeats.
    RepeatsTold,
    /// A counter adds again when a reply is lost.
    CountsTwice,
    /// A counter compares versions in 31 bits, and stands still beyond them (CURATOR-688).
    CounterStuck,
    /// A block of ids is taken for ours when the reply was lost.
    BlockOnHope,
    /// A barrier is passed on any wake-up.
    BarrierTrustsWake,
    /// A latch is passed on any wake-up.
    LatchTrustsWake,
    /// A double barrier lets out on any wake-up (GH-1290).
    LeaveTrustsWake,
    /// A double barrier opens with one member too few.
    EnterOneShort,
    /// A double barrier counts every entry, also one whose request arrived when its member was not there any more.
    CountsWhoIsNotThere,
    /// A consumer is told that its item is done although it was not its any more.
    AckOnHope,
    /// Driver: the deadline of a session counts from the reply instead of the request.
    DeadlineFromReply,
    /// Driver: the deadline has no margin for the store's clock.
    NoMargin,
    /// Driver: a session that was not renewed in time is not given up by its owner.
    DeadlineIgnored,
    /// Driver: a write whose reply was lost is called not applied (promise G8).
    SaysNotApplied,
    /// Driver: after a gap a watch goes on without a snapshot.
    GapSilent,
    /// Driver: a wait for what has happened already waits for the next time (a watch set before the look).
    WaitMissesPast,
}

#[cfg(feature = "planted-bugs")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Switches one bug on in this thread, and all others off.
#[cfg(feature = "planted-bugs")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Whether this bug is on.
#[cfg(feature = "planted-bugs")]
#[must_use]
pub fn planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Whether this bug is on: it cannot be.
#[cfg(not(feature = "planted-bugs"))]
#[must_use]
pub const fn planted(_: Bug) -> bool {
    false
}
