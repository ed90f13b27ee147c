//! Staying with what was chosen before.

use std::{
    collections::HashMap,
    mem,
    sync::{Mutex, PoisonError},
};

use super::{Candidate, Candidates, Choose};

/// Keys that are remembered for certain.
const KEYS: usize = 10_000;

/// Stays with the instance that another rule chose for a key first, while that may be chosen; then the rule chooses
/// anew, and that is what stays.
///
/// Requests without a key all stay with one instance. The latest 10,000 keys are remembered, and up to as many more;
/// other processes choose on their own ([`ConsistentHash`](crate::ConsistentHash) is the same everywhere).
///
/// ```
/// use coord_registry::{Choose, Instance, Pool, Random, Sticky};
///
/// let pool = Pool::new(["b1", "b2"].map(|id| Instance::new("billing", id, "10.0.0.7", 80)));
/// let rule = Sticky::new(Random::new());
/// let first = rule.choose(&pool.candidates(), Some("cart-5")).expect("there are two").instance();
/// let again = rule.choose(&pool.candidates(), Some("cart-5")).expect("there are two").instance();
/// assert_eq!(first, again);
/// ```
#[derive(Debug)]
pub struct Sticky {
    rule: Box<dyn Choose>,
    memory: Mutex<Memory>,
}

/// Which instance a key has. When there are many keys, those that were not asked for lately are forgotten.
#[derive(Debug)]
struct Memory {
    recent: HashMap<String, String>,
    older: HashMap<String, String>,
    keys: usize,
}

impl Sticky {
    /// Stays with what `rule` chooses.
    pub fn new(rule: impl Choose) -> Self {
        Self::remembering(rule, KEYS)
    }

    /// The same, remembering this many keys, at least one.
    pub fn remembering(rule: impl Choose, keys: usize) -> Self {
        let memory = Memory { recent: HashMap::new(), older: HashMap::new(), keys: keys.max(1) };
        Self { rule: Box::new(rule), memory: Mutex::new(memory) }
    }

    fn known<'c>(&self, candidates: &Candidates<'c>, key: &str) -> Option<&'c Candidate> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.get(key).and_then(|id| candidates.find(id))
    }
}

impl Choose for Sticky {
    fn choose<'c>(&self, candidates: &Candidates<'c>, key: Option<&str>) -> Option<&'c Candidate> {
        let name = key.unwrap_or_default();
        if let Some(known) = self.known(candidates, name) {
            return Some(known);
        }
        let chosen = self.rule.choose(candidates, key)?;
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        // Two requests with a new key may have come to here at once: the one that was first decides for both.
        let first = memory.get(name).and_then(|id| candidates.find(id));
        if first.is_none() {
            memory.put(name, chosen.instance().id());
        }
        first.or(Some(chosen))
    }
}

impl Memory {
    fn get(&mut self, key: &str) -> Option<&str> {
        if let Some((key, id)) = self.older.remove_entry(key) {
            self.put(&key, &id);
        }
        self.recent.get(key).map(String::as_str)
    }

    fn put(&mut self, key: &str, id: &str) {
        self.older.remove(key);
        if self.recent.len() >= self.keys && !self.recent.contains_key(key) {
            self.older = mem::take(&mut self.recent);
        }
        self.recent.insert(key.to_owned(), id.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_lately_is_remembered_and_the_memory_is_bounded() {
        let mut memory = Memory { recent: HashMap::new(), older: HashMap::new(), keys: 10 };
        memory.put("often", "b1");
        for key in 0..1_000 {
            memory.put(&key.to_string(), "b2");
            assert_eq!(memory.get("often"), Some("b1"), "after {key} others");
            assert!(memory.recent.len() + memory.older.len() <= 20);
        }
        assert_eq!(memory.get("5"), None);
    }
}
