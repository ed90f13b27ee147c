//! The reducer under caches: an event in, a state and a change out.

use coord::{Entry, Key, Revision, Version, WatchEvent, api::Meta};
use coord_recipes::micro::Reducer;

use super::Bench;

/// Keys in the cache.
const KEYS: usize = 1000;

pub(crate) fn cases(bench: &mut impl Bench) {
    let mut cached = Cached::new();
    bench.case("reducer", "put", || cached.put());

    let mut cached = Cached::new();
    bench.case("reducer", "put while a reader keeps a snapshot", || {
        let kept = cached.reducer.snapshot();
        cached.put();
        kept
    });

    let mut cached = Cached::new();
    bench.case("reducer", "delete and create", || {
        cached.delete();
        cached.put()
    });

    let mut cached = Cached::new();
    let known = cached.entry(0);
    bench.case("reducer", "put that is known", || cached.reducer.apply(WatchEvent::Put(known.clone())));

    let mut cached = Cached::new();
    bench.case("reducer", "snapshot after a gap, all 1000 changed", || cached.snapshot());
}

/// A reducer, and the store that it follows.
struct Cached {
    reducer: Reducer,
    keys: Vec<Key>,
    /// The store's revision.
    at: usize,
}

impl Cached {
    fn new() -> Cached {
        let key = |number| Key::parse(&format!("/config/app/k{number}")).expect("a key");
        let mut cached = Cached { reducer: Reducer::default(), keys: (0..KEYS).map(key).collect(), at: 0 };
        cached.snapshot();
        cached
    }

    fn revision(&self) -> Revision {
        Revision::new(self.at as u64)
    }

    /// The entry of a key, as changed now.
    fn entry(&self, index: usize) -> Entry {
        let version = Version::new(self.at as u64);
        let meta = Meta::new(Revision::new(1), self.revision(), version, None);
        Entry::new(self.keys[index].clone(), "a value".into(), meta)
    }

    fn put(&mut self) -> bool {
        self.at += 1;
        let entry = self.entry(self.at % KEYS);
        self.reducer.apply(WatchEvent::Put(entry))
    }

    /// Deletes the key that the next put makes again.
    fn delete(&mut self) -> bool {
        self.at += 1;
        let key = self.keys[(self.at + 1) % KEYS].clone();
        self.reducer.apply(WatchEvent::Delete { key, revision: self.revision() })
    }

    fn snapshot(&mut self) -> bool {
        self.at += 1;
        let entries = (0..KEYS).map(|index| self.entry(index)).collect();
        self.reducer.apply(WatchEvent::Snapshot { entries, revision: self.revision() })
    }
}
