//! Every way to hold something, behind one face: what is promised of all of them is tested on each.

use std::time::Duration;

use coord_api::{Coord, Result, Session};
use coord_recipes::{
    Hold, Lock, LockGuard, MultiGuard, MultiLock, Owner, Permit, ReadGuard, ReentrantGuard, ReentrantLock,
    RwLock, Semaphore, SharedGuard, SharedLock, WriteGuard,
};
use tokio::task::JoinHandle;

use super::lock::entries;
use crate::{CaseResult, Failure, eventually};

/// A way to hold something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Lock,
    Read,
    Write,
    Reentrant,
    Shared,
    Multi,
    /// One permit of one.
    Permit,
    /// All permits of three at once.
    Permits,
}

impl Kind {
    pub(super) const ALL: [Self; 8] = [
        Self::Lock,
        Self::Read,
        Self::Write,
        Self::Reentrant,
        Self::Shared,
        Self::Multi,
        Self::Permit,
        Self::Permits,
    ];

    /// Who holds against this kind: nobody of this kind gets in meanwhile.
    pub(super) const fn rival(self) -> Self {
        match self {
            Self::Read => Self::Write,
            other => other,
        }
    }

    pub(super) async fn door(self, session: &Session) -> Result<Door> {
        Ok(match self {
            Self::Lock => Door::Lock(Lock::new(session, "/lock/x")?),
            Self::Read => Door::Read(RwLock::new(session, "/rw/x")?),
            Self::Write => Door::Write(RwLock::new(session, "/rw/x")?),
            Self::Reentrant => Door::Reentrant(ReentrantLock::new(session, "/reentrant/x")?, Owner::unique()),
            Self::Shared => Door::Shared(SharedLock::new(session, "/shared/x")?),
            Self::Multi => Door::Multi(MultiLock::new(session, ["/multi/y", "/multi/x"])?),
            Self::Permit => Door::Permits(Semaphore::open(session, "/one/x", 1).await?, 1),
            Self::Permits => Door::Permits(Semaphore::open(session, "/three/x", 3).await?, 3),
        })
    }

    /// Somebody holds against this kind with `holding`, and one of this kind waits behind it with `waiting`.
    pub(super) async fn contend(
        self,
        holding: &Session,
        waiting: &Session,
    ) -> std::result::Result<(Held, JoinHandle<Result<Held>>), Failure> {
        let held = self.rival().door(holding).await?.acquire().await?;
        let door = self.door(waiting).await?;
        let waiter = tokio::spawn(async move { door.acquire().await });
        self.stand(holding.coord(), self.width() + 1).await?;
        Ok((held, waiter))
    }

    /// The directories of its lines.
    const fn dirs(self) -> &'static [&'static str] {
        match self {
            Self::Lock => &["/lock/x"],
            Self::Read | Self::Write => &["/rw/x"],
            Self::Reentrant => &["/reentrant/x"],
            Self::Shared => &["/shared/x"],
            Self::Multi => &["/multi/x", "/multi/y"],
            Self::Permit => &["/one/x"],
            Self::Permits => &["/three/x"],
        }
    }

    /// How many entries one holder has.
    pub(super) const fn width(self) -> usize {
        self.dirs().len()
    }

    /// How many entries are in its lines, by latest reads.
    pub(super) async fn entries(self, coord: &Coord) -> std::result::Result<usize, Failure> {
        let mut count = 0;
        for dir in self.dirs() {
            count += entries(coord, dir).await?;
        }
        Ok(count)
    }

    /// Waits until so many entries are in its lines.
    pub(super) async fn stand(self, coord: &Coord, count: usize) -> CaseResult {
        let what = format!("{self:?}: {count} entries stand");
        eventually(&what, || async { Ok(self.entries(coord).await? == count) }).await
    }
}

/// What is acquired, as one session sees it.
#[derive(Clone, Debug)]
pub(super) enum Door {
    Lock(Lock),
    Read(RwLock),
    Write(RwLock),
    Reentrant(ReentrantLock, Owner),
    Shared(SharedLock),
    Multi(MultiLock),
    Permits(Semaphore, u32),
}

impl Door {
    pub(super) async fn acquire(&self) -> Result<Held> {
        Ok(match self {
            Self::Lock(lock) => lock.acquire().await?.into(),
            Self::Read(lock) => lock.read().await?.into(),
            Self::Write(lock) => lock.write().await?.into(),
            Self::Reentrant(lock, owner) => lock.acquire(owner).await?.into(),
            Self::Shared(lock) => lock.acquire().await?.into(),
            Self::Multi(lock) => lock.acquire().await?.into(),
            Self::Permits(semaphore, count) => semaphore.acquire_many(*count).await?.into(),
        })
    }

    pub(super) async fn try_acquire(&self) -> Result<Option<Held>> {
        Ok(match self {
            Self::Lock(lock) => lock.try_acquire().await?.map(Into::into),
            Self::Read(lock) => lock.try_read().await?.map(Into::into),
            Self::Write(lock) => lock.try_write().await?.map(Into::into),
            Self::Reentrant(lock, owner) => lock.try_acquire(owner).await?.map(Into::into),
            Self::Shared(lock) => lock.try_acquire().await?.map(Into::into),
            Self::Multi(lock) => lock.try_acquire().await?.map(Into::into),
            Self::Permits(semaphore, count) => semaphore.try_acquire_many(*count).await?.map(Into::into),
        })
    }

    pub(super) async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Held>> {
        Ok(match self {
            Self::Lock(lock) => lock.acquire_timeout(timeout).await?.map(Into::into),
            Self::Read(lock) => lock.read_timeout(timeout).await?.map(Into::into),
            Self::Write(lock) => lock.write_timeout(timeout).await?.map(Into::into),
            Self::Reentrant(lock, owner) => lock.acquire_timeout(owner, timeout).await?.map(Into::into),
            Self::Shared(lock) => lock.acquire_timeout(timeout).await?.map(Into::into),
            Self::Multi(lock) => lock.acquire_timeout(timeout).await?.map(Into::into),
            Self::Permits(semaphore, count) => {
                semaphore.acquire_many_timeout(*count, timeout).await?.map(Into::into)
            }
        })
    }
}

macro_rules! held {
    ($($guard:ident),+) => {
        /// What is held.
        #[derive(Debug)]
        pub(super) enum Held {
            Multi(MultiGuard),
            $($guard($guard),)+
        }

        $(impl From<$guard> for Held {
            fn from(guard: $guard) -> Self {
                Self::$guard(guard)
            }
        })+

        impl From<MultiGuard> for Held {
            fn from(guard: MultiGuard) -> Self {
                Self::Multi(guard)
            }
        }

        impl Held {
            /// The hold; of several, that of the lock that was acquired last.
            pub(super) fn hold(&self) -> &Hold {
                match self {
                    Self::Multi(guard) => {
                        let (last, _) = guard.tokens().last().expect("over some names");
                        guard.hold(last).expect("it is one of them")
                    }
                    $(Self::$guard(guard) => guard,)+
                }
            }

            pub(super) async fn release(self) -> Result<()> {
                match self {
                    Self::Multi(guard) => guard.release().await,
                    $(Self::$guard(guard) => guard.release().await,)+
                }
            }
        }
    };
}
held!(LockGuard, ReadGuard, WriteGuard, ReentrantGuard, SharedGuard, Permit);
