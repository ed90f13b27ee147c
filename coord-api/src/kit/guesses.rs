//! What is probably so, remembered to save asking.

use std::{
    collections::HashMap,
    hash::Hash,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// After a wrong guess, at most so many times no guess is given before the next.
const DOUBT_MAX: u32 = 63;

/// Facts by name that were so when they were learned, for requests that the store refuses if they are so no more.
///
/// It remembers at least the last `room` names that were used, and at most twice as many, in two generations: once the
/// young one is full it becomes the old one, and what was the old one is forgotten. So remembering costs the same
/// however long it goes on.
///
/// A wrong guess costs a request for nothing. A name that others change again and again is guessed rarely: each wrong
/// guess doubles the times that [`guess`](Guesses::guess) gives none, and each right one halves them. While there is
/// such doubt, of many who ask at the same time only one gets a guess.
#[derive(Debug)]
pub struct Guesses<K, V> {
    room: usize,
    generations: Mutex<Generations<K, V>>,
}

#[derive(Debug)]
struct Generations<K, V> {
    young: HashMap<K, Guess<V>>,
    old: HashMap<K, Guess<V>>,
}

#[derive(Debug)]
struct Guess<V> {
    fact: V,
    /// How many times no guess is given after one was.
    doubt: u32,
    /// Of those, how many are still to come.
    silent: u32,
}

impl<K: Eq + Hash + Clone, V: Ord + Clone> Guesses<K, V> {
    /// Remembers the last `room` names.
    #[must_use]
    pub fn new(room: usize) -> Self {
        Self { room, generations: Mutex::new(Generations { young: HashMap::new(), old: HashMap::new() }) }
    }

    /// Learns what is so now. A smaller fact is an older one, and is not believed: replies may be handled in another
    /// order than they came.
    pub fn learn(&self, name: &K, fact: V) {
        let mut generations = self.lock();
        match generations.get_mut(name, self.room) {
            Some(guess) => guess.fact = fact.max(guess.fact.clone()),
            None => generations.add(name.clone(), Guess { fact, doubt: 0, silent: 0 }, self.room),
        }
    }

    /// What is probably so, if that is known and not in doubt. Say later whether it was [`right`](Guesses::right) or
    /// [`wrong`](Guesses::wrong).
    #[must_use]
    pub fn guess(&self, name: &K) -> Option<V> {
        let mut generations = self.lock();
        let guess = generations.get_mut(name, self.room)?;
        if guess.silent > 0 {
            guess.silent -= 1;
            return None;
        }
        guess.silent = guess.doubt;
        Some(guess.fact.clone())
    }

    /// The store took the request.
    pub fn right(&self, name: &K) {
        if let Some(guess) = self.lock().get_mut(name, self.room) {
            guess.doubt /= 2;
            guess.silent = guess.silent.min(guess.doubt);
        }
    }

    /// The store refused the request: others change this.
    pub fn wrong(&self, name: &K) {
        if let Some(guess) = self.lock().get_mut(name, self.room) {
            guess.doubt = (guess.doubt * 2 + 1).min(DOUBT_MAX);
            guess.silent = guess.doubt;
        }
    }

    /// Forgets `name`.
    pub fn forget(&self, name: &K) {
        let mut generations = self.lock();
        generations.young.remove(name);
        generations.old.remove(name);
    }

    fn lock(&self) -> MutexGuard<'_, Generations<K, V>> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash, V> Generations<K, V> {
    fn get_mut(&mut self, name: &K, room: usize) -> Option<&mut Guess<V>> {
        if let Some((name, guess)) = self.old.remove_entry(name) {
            self.add(name, guess, room);
        }
        self.young.get_mut(name)
    }

    /// Adds a name that is in neither generation.
    fn add(&mut self, name: K, guess: Guess<V>, room: usize) {
        if self.young.len() >= room {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(name, guess);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_names_are_kept_and_no_more_than_twice_the_room() {
        let guesses = Guesses::new(4);
        for name in 0..100 {
            guesses.learn(&name, name);
            assert_eq!(guesses.guess(&0), Some(0), "what is used stays");
        }
        assert!((97..100).all(|name| guesses.guess(&name) == Some(name)));
        assert!((0..100).filter(|name| guesses.guess(name).is_some()).count() <= 8);
    }

    #[test]
    fn a_name_has_one_fact_and_the_newest() {
        let guesses = Guesses::new(1);
        guesses.learn(&"a", 1);
        guesses.learn(&"b", 1);
        guesses.learn(&"a", 3);
        guesses.learn(&"a", 2);
        assert_eq!(guesses.guess(&"a"), Some(3), "a reply handled late takes nothing back");
        guesses.forget(&"a");
        assert_eq!(guesses.guess(&"a"), None, "an older fact does not come back");
        assert_eq!(guesses.guess(&"b"), Some(1));
    }

    /// Sixty-four tasks, or two handles, that write one key.
    #[test]
    fn what_others_change_is_rarely_guessed_until_they_stop() {
        let guesses = Guesses::new(4);
        guesses.learn(&"k", 0);
        let wrong = (1..=1000).filter(|round| {
            let guessed = guesses.guess(&"k").is_some();
            if guessed {
                guesses.wrong(&"k");
            }
            guesses.learn(&"k", *round);
            guessed
        });
        assert!((10..30).contains(&wrong.count()));
        let at_once = (0..64).filter(|_| guesses.guess(&"k").is_some()).count();
        assert_eq!(at_once, 1, "one tries for all");
        let right = (0..1000).filter(|_| {
            let guessed = guesses.guess(&"k").is_some();
            if guessed {
                guesses.right(&"k");
            }
            guessed
        });
        assert!(right.count() > 800, "trust comes back");
    }
}
