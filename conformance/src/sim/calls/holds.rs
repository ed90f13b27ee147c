//! Calls of the recipes with guards.

use std::time::Duration;

use coord_api::Txn;
use coord_recipes::{
    Lock, LockGuard, MultiGuard, MultiLock, Owner, Permit, ReadGuard, ReentrantGuard, ReentrantLock, RwLock,
    Semaphore, SharedGuard, SharedLock, WriteGuard,
};

use super::{KEPT, LINE, MOMENT, calls, cut, cut_within, give_back, name_of};

const PAIR: [&str; 2] = ["/line/a", "/line/b"];
const SEATS: &str = "/kept/seats";
/// Longer than all that is before us in the line.
const LONG: Duration = Duration::from_secs(20);

calls! {
    "lock.rs::acquire" => (me, on) {
        give_back(&me, cut(&me, Lock::new(&on, LINE)?.acquire()).await?, LockGuard::release).await
    }
    "lock.rs::try_acquire" => (me, on) {
        let got = cut(&me, Lock::new(&on, LINE)?.try_acquire()).await?;
        give_back(&me, got.flatten(), LockGuard::release).await
    }
    "lock.rs::acquire_timeout" => (me, on) {
        let got = cut(&me, Lock::new(&on, LINE)?.acquire_timeout(LONG)).await?;
        give_back(&me, got.flatten(), LockGuard::release).await
    }
    "guard.rs::release" => (me, on) {
        let guard = Lock::new(&on, LINE)?.acquire().await?;
        cut(&me, guard.release()).await.map(drop)
    }
    "hold.rs::lost" => (me, on) {
        let guard = Lock::new(&on, LINE)?.acquire().await?;
        cut_within(&me, guard.lost()).await;
        guard.release().await
    }
    "hold.rs::check" => (me, on) {
        let guard = Lock::new(&on, LINE)?.acquire().await?;
        cut(&me, guard.check()).await?;
        guard.release().await
    }
    "hold.rs::commit" => (me, on) {
        let guard = Lock::new(&on, LINE)?.acquire().await?;
        cut(&me, guard.commit(Txn::new().put(format!("{KEPT}x"), name_of(&me)))).await?;
        guard.release().await
    }
    "revocable.rs::request_release" => (me, on) {
        let lock = Lock::new(&on, LINE)?;
        cut(&me, lock.request_release()).await?;
        lock.acquire().await?.release().await
    }
    "revocable.rs::revocation_requested" => (me, on) {
        let lock = Lock::new(&on, LINE)?;
        lock.request_release().await?;
        let guard = lock.acquire().await?;
        cut_within(&me, guard.revocation_requested()).await.transpose()?;
        guard.release().await
    }
    "rwlock.rs::read" => (me, on) {
        give_back(&me, cut(&me, RwLock::new(&on, LINE)?.read()).await?, ReadGuard::release).await?;
        RwLock::new(&on, LINE)?.write().await?.release().await
    }
    "rwlock.rs::try_read" => (me, on) {
        let got = cut(&me, RwLock::new(&on, LINE)?.try_read()).await?;
        give_back(&me, got.flatten(), ReadGuard::release).await?;
        RwLock::new(&on, LINE)?.write().await?.release().await
    }
    "rwlock.rs::read_timeout" => (me, on) {
        let got = cut(&me, RwLock::new(&on, LINE)?.read_timeout(LONG)).await?;
        give_back(&me, got.flatten(), ReadGuard::release).await?;
        RwLock::new(&on, LINE)?.write().await?.release().await
    }
    "rwlock.rs::write" => (me, on) {
        give_back(&me, cut(&me, RwLock::new(&on, LINE)?.write()).await?, WriteGuard::release).await?;
        RwLock::new(&on, LINE)?.read().await?.release().await
    }
    "rwlock.rs::try_write" => (me, on) {
        let got = cut(&me, RwLock::new(&on, LINE)?.try_write()).await?;
        give_back(&me, got.flatten(), WriteGuard::release).await?;
        RwLock::new(&on, LINE)?.read().await?.release().await
    }
    "rwlock.rs::write_timeout" => (me, on) {
        let got = cut(&me, RwLock::new(&on, LINE)?.write_timeout(LONG)).await?;
        give_back(&me, got.flatten(), WriteGuard::release).await?;
        RwLock::new(&on, LINE)?.read().await?.release().await
    }
    "rwlock.rs::downgrade" => (me, on) {
        let guard = RwLock::new(&on, LINE)?.write().await?;
        give_back(&me, cut(&me, guard.downgrade()).await?, ReadGuard::release).await
    }
    "semaphore/mod.rs::open" => (me, on) {
        cut(&me, Semaphore::open(&on, SEATS, 2)).await?;
        Semaphore::open(&on, SEATS, 2).await?.acquire_many(2).await?.release().await
    }
    "semaphore/mod.rs::permits" => (me, on) {
        let seats = Semaphore::open(&on, SEATS, 2).await?;
        cut(&me, seats.permits()).await?;
        seats.acquire_many(2).await?.release().await
    }
    "semaphore/mod.rs::acquire" => (me, on) {
        let seats = Semaphore::open(&on, SEATS, 2).await?;
        give_back(&me, cut(&me, seats.acquire()).await?, Permit::release).await?;
        seats.acquire_many(2).await?.release().await
    }
    "semaphore/mod.rs::try_acquire" => (me, on) {
        let seats = Semaphore::open(&on, SEATS, 2).await?;
        give_back(&me, cut(&me, seats.try_acquire()).await?.flatten(), Permit::release).await?;
        seats.acquire_many(2).await?.release().await
    }
    "semaphore/mod.rs::acquire_timeout" => (me, on) {
        let seats = Semaphore::open(&on, SEATS, 2).await?;
        give_back(&me, cut(&me, seats.acquire_timeout(LONG)).await?.flatten(), Permit::release).await?;
        seats.acquire_many(2).await?.release().await
    }
    "semaphore/mod.rs::acquire_many" => (me, on) {
        let seats = Semaphore::open(&on, SEATS, 2).await?;
        give_back(&me, cut(&me, seats.acquire_many(2)).await?, Permit::release).await
    }
    "semaphore/mod.rs::try_acquire_many" => (me, on) {
        let seats = Semaphore::open(&on, SEATS, 2).await?;
        give_back(&me, cut(&me, seats.try_acquire_many(2)).await?.flatten(), Permit::release).await?;
        seats.acquire_many(2).await?.release().await
    }
    "semaphore/mod.rs::acquire_many_timeout" => (me, on) {
        let seats = Semaphore::open(&on, SEATS, 2).await?;
        give_back(&me, cut(&me, seats.acquire_many_timeout(2, LONG)).await?.flatten(), Permit::release).await?;
        seats.acquire_many(2).await?.release().await
    }
    "semaphore/mod.rs::resize" => (me, on) {
        // One for each: who opens must agree on the number. What was dropped goes on; the last change comes behind it.
        let seats = Semaphore::open(&on, format!("{SEATS}-{}", me.id()), 2).await?;
        cut(&me, seats.resize(3)).await?;
        me.idle(500, 600).await;
        seats.acquire().await?.release().await?;
        seats.resize(2).await
    }
    "multi.rs::acquire" => (me, on) {
        give_back(&me, cut(&me, MultiLock::new(&on, PAIR)?.acquire()).await?, MultiGuard::release).await
    }
    "multi.rs::try_acquire" => (me, on) {
        let got = cut(&me, MultiLock::new(&on, PAIR)?.try_acquire()).await?;
        give_back(&me, got.flatten(), MultiGuard::release).await?;
        MultiLock::new(&on, PAIR)?.acquire().await?.release().await
    }
    "multi.rs::acquire_timeout" => (me, on) {
        let got = cut(&me, MultiLock::new(&on, PAIR)?.acquire_timeout(LONG)).await?;
        give_back(&me, got.flatten(), MultiGuard::release).await
    }
    "multi.rs::lost" => (me, on) {
        let guard = MultiLock::new(&on, PAIR)?.acquire().await?;
        cut_within(&me, guard.lost()).await;
        guard.release().await
    }
    "multi.rs::check" => (me, on) {
        let guard = MultiLock::new(&on, PAIR)?.acquire().await?;
        cut(&me, guard.check()).await?;
        guard.release().await
    }
    "multi.rs::commit" => (me, on) {
        let guard = MultiLock::new(&on, PAIR)?.acquire().await?;
        cut(&me, guard.commit(Txn::new().put(format!("{KEPT}x"), name_of(&me)))).await?;
        guard.release().await
    }
    "multi.rs::release" => (me, on) {
        cut(&me, MultiLock::new(&on, PAIR)?.acquire().await?.release()).await.map(drop)
    }
    "reentrant/mod.rs::acquire" => (me, on) {
        let (lock, owner) = (ReentrantLock::new(&on, LINE)?, Owner::unique());
        give_back(&me, cut(&me, lock.acquire(&owner)).await?, ReentrantGuard::release).await
    }
    "reentrant/mod.rs::try_acquire" => (me, on) {
        let (lock, owner) = (ReentrantLock::new(&on, LINE)?, Owner::unique());
        give_back(&me, cut(&me, lock.try_acquire(&owner)).await?.flatten(), ReentrantGuard::release).await?;
        lock.acquire(&owner).await?.release().await
    }
    "reentrant/mod.rs::acquire_timeout" => (me, on) {
        let (lock, owner) = (ReentrantLock::new(&on, LINE)?, Owner::unique());
        let got = cut(&me, lock.acquire_timeout(&owner, LONG)).await?;
        give_back(&me, got.flatten(), ReentrantGuard::release).await
    }
    "reentrant/mod.rs::release_all" => (me, on) {
        let (lock, owner) = (ReentrantLock::new(&on, LINE)?, Owner::unique());
        let _twice = [lock.acquire(&owner).await?, lock.acquire(&owner).await?];
        cut(&me, lock.release_all(&owner)).await.map(drop)
    }
    "reentrant/mod.rs::release" => (me, on) {
        let (lock, owner) = (ReentrantLock::new(&on, LINE)?, Owner::unique());
        let [first, second] = [lock.acquire(&owner).await?, lock.acquire(&owner).await?];
        first.release().await?;
        cut(&me, second.release()).await.map(drop)
    }
    "shared.rs::acquire" => (me, on) {
        give_back(&me, cut(&me, SharedLock::new(&on, LINE)?.acquire()).await?, SharedGuard::release).await
    }
    "shared.rs::try_acquire" => (me, on) {
        let lock = SharedLock::new(&on, LINE)?;
        give_back(&me, cut(&me, lock.try_acquire()).await?.flatten(), SharedGuard::release).await?;
        lock.acquire().await?.release().await
    }
    "shared.rs::acquire_timeout" => (me, on) {
        let lock = SharedLock::new(&on, LINE)?;
        give_back(&me, cut(&me, lock.acquire_timeout(MOMENT)).await?.flatten(), SharedGuard::release).await?;
        lock.acquire().await?.release().await
    }
    "shared.rs::release" => (me, on) {
        cut(&me, SharedLock::new(&on, LINE)?.acquire().await?.release()).await.map(drop)
    }
}
