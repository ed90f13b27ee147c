//! The one reducer: what the store told, and what is shown for it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use coord_api::{Dir, Entry, Error, Key, Revision};
use coord_recipes::{
    CacheEvent, Change,
    planted::{Bug, planted},
};
use tokio::time::Instant;

use super::{DiscoveryEvent, rules::Rules};
use crate::{Instance, Layout, Registry, Status};

/// What went within this time before the list became empty is one event, and is protected together: sessions that a
/// store loses all at once end one after the other.
const BURST: Duration = Duration::from_secs(10);

/// The instances of a service, as the watch has told them so far.
#[derive(Debug)]
pub(crate) struct View {
    layout: Arc<dyn Layout>,
    root: Dir,
    service: String,
    /// How long a list is shown that is not true any more, when the service becomes empty.
    protect: Option<Duration>,
    live: BTreeMap<Key, Known>,
    rules: Rules,
    /// How many of `live` are shown.
    shown: usize,
    loaded: bool,
    /// A list that is shown although the store has another or none.
    instead: Option<Instead>,
    /// What went lately, the latest last; kept for protection only.
    gone: VecDeque<(Instant, Key, Instance)>,
    /// What is shown, once somebody asked since the last change.
    list: Option<Arc<[Instance]>>,
}

/// What is known of one key.
#[derive(Debug)]
struct Known {
    created: Revision,
    /// What it says itself, or said before it became malformed.
    instance: Option<Instance>,
    problem: Option<Arc<Error>>,
}

#[derive(Debug)]
struct Instead {
    list: Arc<[Instance]>,
    /// Until when; `None` while the store was not heard.
    until: Option<Instant>,
}

impl View {
    pub(crate) fn new(registry: &Registry, service: &str, protect: Option<Duration>) -> Self {
        Self {
            layout: registry.shared_layout(),
            root: registry.root().clone(),
            service: service.to_owned(),
            protect,
            live: BTreeMap::new(),
            rules: Rules::default(),
            shown: 0,
            loaded: false,
            instead: None,
            gone: VecDeque::new(),
            list: None,
        }
    }

    /// What is shown. Made once for all who ask between two changes.
    pub(crate) fn list(&mut self) -> Arc<[Instance]> {
        if let Some(instead) = &self.instead {
            return Arc::clone(&instead.list);
        }
        if let Some(list) = &self.list {
            return Arc::clone(list);
        }
        let said = self.live.values().filter_map(|known| known.instance.clone());
        let list = said.map(|instance| self.rules.apply(instance)).collect();
        Arc::clone(self.list.insert(list))
    }

    /// Whether the store has told its list.
    pub(super) const fn loaded(&self) -> bool {
        self.loaded
    }

    /// Whether a list is shown that the store does not have.
    pub(super) const fn is_instead(&self) -> bool {
        self.instead.is_some()
    }

    /// When [`View::tick`] has something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.instead.as_ref().and_then(|instead| instead.until)
    }

    /// Why keys are not shown as they are, by key.
    pub(crate) fn problems(&self) -> Vec<Arc<Error>> {
        self.live.values().filter_map(|known| known.problem.clone()).collect()
    }

    /// Shows the list of a file until the store is heard.
    pub(super) fn show_file(&mut self, instances: Vec<Instance>) -> Vec<DiscoveryEvent> {
        if self.loaded {
            return Vec::new();
        }
        let list: Arc<[Instance]> = instances.into();
        self.instead = Some(Instead { list: Arc::clone(&list), until: None });
        vec![DiscoveryEvent::Initial(list)]
    }

    /// Shows nothing in the place of an empty list any more, when its time is over.
    pub(super) fn tick(&mut self, now: Instant) -> Vec<DiscoveryEvent> {
        if self.deadline().is_none_or(|until| now < until) {
            return Vec::new();
        }
        self.instead = None;
        self.resync()
    }

    /// Takes what the watch told.
    pub(super) fn apply(&mut self, event: CacheEvent, now: Instant) -> Vec<DiscoveryEvent> {
        let (first, before) = (!self.loaded, self.shown);
        let told = match event {
            CacheEvent::Initialized { entries } => {
                self.load(entries);
                self.resync()
            }
            CacheEvent::Changed(change) => self.change(change, now).into_iter().collect(),
            CacheEvent::Resynced { changes } => {
                let kept = |change: &Change| {
                    matches!(change, Change::Delete { .. }) && planted(Bug::DiscoveryKeepsGone)
                };
                let changes = changes.into_iter().filter(|change| !kept(change));
                let changed: Vec<_> = changes.filter_map(|change| self.change(change, now)).collect();
                if changed.is_empty() { changed } else { self.resync() }
            }
        };
        match self.instead.take() {
            // The list of a file, and now the store's.
            Some(Instead { list, until: None }) if first => {
                self.protect_from(&list, now);
                self.resync()
            }
            Some(instead) if self.shown == 0 => {
                self.instead = Some(instead);
                Vec::new()
            }
            Some(_) => {
                self.gone.clear();
                self.resync()
            }
            None if first => vec![DiscoveryEvent::Initial(self.list())],
            None if before > 0 && self.shown == 0 && self.protect_gone(now) => self.resync(),
            None if self.rules.changed() => {
                self.list = None;
                self.resync()
            }
            None => told,
        }
    }

    /// Takes everything that there is at first.
    pub(crate) fn load(&mut self, entries: Vec<Entry>) {
        self.loaded = true;
        entries.into_iter().for_each(|entry| drop(self.put(entry)));
        self.rules.changed();
    }

    fn resync(&mut self) -> Vec<DiscoveryEvent> {
        vec![DiscoveryEvent::Resync(self.list())]
    }

    fn change(&mut self, change: Change, now: Instant) -> Option<DiscoveryEvent> {
        let key = change.key().clone();
        let (before, after) = match change {
            Change::Put { new, .. } => self.put(new),
            Change::Delete { .. } => {
                self.rules.remove(&key);
                (self.take(&key), None)
            }
        };
        let ruled = |said: Option<Instance>| said.map(|instance| self.rules.apply(instance));
        match (ruled(before), ruled(after)) {
            (None, Some(after)) => Some(DiscoveryEvent::Added(after)),
            (Some(before), Some(after)) if before == after => None,
            (Some(before), Some(after)) => Some(DiscoveryEvent::Updated { before, after }),
            (Some(before), None) => {
                if self.protect.is_some() {
                    self.gone.push_back((now, key, before.clone()));
                    while self.gone.front().is_some_and(|(at, ..)| now - *at > BURST) {
                        self.gone.pop_front();
                    }
                }
                Some(DiscoveryEvent::Removed(before))
            }
            (None, None) => None,
        }
    }

    /// Takes an entry as it is now; gives what its key said and what it says.
    fn put(&mut self, entry: Entry) -> (Option<Instance>, Option<Instance>) {
        let (key, created) = (entry.key.clone(), entry.meta.created);
        let before = self.live.get(&key).map(|known| (known.created, known.instance.clone()));
        let shown = before.as_ref().and_then(|(_, instance)| instance.clone());
        let (instance, problem) = match self.layout.decode(&self.root, &self.service, &entry) {
            Ok(Some(instance)) => (Some(instance), None),
            Ok(None) => return (self.put_rule(&entry), None),
            Err(error) => {
                tracing::warn!(%key, %error, "an entry of a service is no instance");
                // What the same incarnation said last stays in force.
                let last = before.filter(|(of, _)| *of == created).and_then(|(_, instance)| instance);
                (last, Some(Arc::new(error)))
            }
        };
        self.list = None;
        self.shown += usize::from(instance.is_some());
        self.shown -= usize::from(shown.is_some());
        self.live.insert(key, Known { created, instance: instance.clone(), problem });
        (shown, instance)
    }

    /// Takes an entry that is no instance, perhaps a rule; gives what its key said.
    fn put_rule(&mut self, entry: &Entry) -> Option<Instance> {
        let said = self.take(&entry.key);
        match self.layout.rule(&self.root, &self.service, entry) {
            Ok(Some(rule)) => self.rules.insert(entry.key.clone(), rule),
            Ok(None) => self.rules.remove(&entry.key),
            // A rule that was there stays in force.
            Err(error) => {
                tracing::warn!(key = %entry.key, %error, "an entry of a service is no rule");
                let problem = Some(Arc::new(error));
                let known = Known { created: entry.meta.created, instance: None, problem };
                self.live.insert(entry.key.clone(), known);
            }
        }
        said
    }

    fn take(&mut self, key: &Key) -> Option<Instance> {
        let instance = self.live.remove(key)?.instance?;
        self.list = None;
        self.shown -= 1;
        Some(instance)
    }

    /// Shows those that went lately, if the option says so and not all of them left in good order.
    fn protect_gone(&mut self, now: Instant) -> bool {
        let lately = self.gone.drain(..).filter(|(at, ..)| now - *at <= BURST);
        let lately: BTreeMap<_, _> = lately.map(|(_, key, instance)| (key, instance)).collect();
        let lately: Vec<_> = lately.into_values().collect();
        self.protect_from(&lately, now);
        self.instead.is_some()
    }

    fn protect_from(&mut self, list: &[Instance], now: Instant) {
        let Some(bound) = self.protect.filter(|_| self.shown == 0) else { return };
        let list: Vec<_> =
            list.iter().filter(|instance| instance.status() != Status::Draining).cloned().collect();
        if !list.is_empty() {
            self.instead = Some(Instead { list: list.into(), until: Some(now + bound) });
        }
    }
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
