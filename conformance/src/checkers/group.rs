//! Who is in a group, as its watchers are told.

use std::collections::BTreeMap;

use super::{
    History, Stats, Verdict, Violation, What,
    facts::{Group, Stored},
};

/// A member: the revision that created its key, and its value.
type Members = BTreeMap<String, (u64, u64)>;

/// What a watcher was told.
struct View<'h> {
    id: u64,
    dir: &'h str,
    /// Empty before the first list.
    members: Option<Members>,
    /// Of each id ever told, the newest revision: of its creation, and of its value.
    newest: BTreeMap<String, (u64, u64)>,
    last: usize,
}

/// What a watcher of a group is told are the steps from who was there to who is: somebody comes only who was not there,
/// and changes or goes only who was; nobody is told of who never was, or of what was before; and when all is calm, the
/// view is what the store has.
///
/// # Errors
/// `group-steps`: an event that does not follow from those before; `group-invented`: a member that the store never had;
/// `group-back`: a member older than told before; `group-final`: settled, and the view is not what the store has.
pub fn group(history: &History) -> Verdict {
    let mut stats = Stats::default();
    let mut views: BTreeMap<u64, View<'_>> = BTreeMap::new();
    let mut store = Store::default();
    for (at, what) in history.facts() {
        match what {
            What::Stored(change) => store.apply(change),
            What::Group(Group::Opened { view, dir }) => {
                let newest = BTreeMap::new();
                views.insert(*view, View { id: *view, dir, members: None, newest, last: at });
            }
            What::Group(fact) => {
                let (Group::Opened { view: id, .. }
                | Group::Members { view: id, .. }
                | Group::Joined { view: id, .. }
                | Group::Updated { view: id, .. }
                | Group::Left { view: id, .. }
                | Group::Settled { view: id }
                | Group::Closed { view: id }) = fact;
                let Some(view) = views.get_mut(id) else { continue };
                stats.judged += 1;
                view.tell(&store, fact, at)?;
                stats.contended += usize::from(view.members.as_ref().is_some_and(|all| all.len() > 1));
            }
            _ => {}
        }
    }
    Ok(stats)
}

/// The ephemeral keys of the store.
#[derive(Default)]
struct Store {
    now: BTreeMap<String, (u64, u64)>,
    /// Each value that a key had since it was created by some revision, and the last revision that wrote it then.
    had: BTreeMap<(String, u64, u64), u64>,
}

impl Store {
    fn apply(&mut self, change: &Stored) {
        match change {
            Stored::Put { key, revision, value, session: Some(_) } => {
                let since = self.now.get(key).map_or(*revision, |(since, _)| *since);
                self.now.insert(key.clone(), (since, *value));
                self.had.insert((key.clone(), *value, since), *revision);
            }
            Stored::Put { .. } => {}
            Stored::Gone { key, .. } => drop(self.now.remove(key)),
        }
    }

    /// The members of a group now.
    fn members(&self, dir: &str) -> Members {
        let inside = |key: &str| key.strip_prefix(dir).filter(|id| !id.contains('/')).map(str::to_owned);
        self.now.iter().filter_map(|(key, member)| Some((inside(key)?, *member))).collect()
    }
}

impl View<'_> {
    fn wrong(&self, rule: &'static str, what: &str, at: usize) -> Violation {
        Violation::new(rule, format!("view {} of {}: {what}", self.id, self.dir), [self.last, at])
    }

    fn tell(&mut self, store: &Store, fact: &Group, at: usize) -> Result<(), Violation> {
        let before = |id: &str| self.members.as_ref().and_then(|members| members.get(id)).copied();
        match fact {
            Group::Members { members, .. } => {
                for (id, (since, value)) in members {
                    self.see(store, id, *since, *value, at)?;
                }
                self.members = Some(members.clone());
            }
            _ if self.members.is_none() => return Err(self.wrong("group-steps", "nobody listed yet", at)),
            Group::Joined { id, since, value, .. } => {
                if before(id).is_some() {
                    return Err(self.wrong("group-steps", &format!("{id} came and was there"), at));
                }
                self.see(store, id, *since, *value, at)?;
                self.put(id, *since, *value);
            }
            Group::Updated { id, since, value, .. } => {
                if before(id).map(|(since, _)| since) != Some(*since) {
                    return Err(self.wrong("group-steps", &format!("{id} changed and was not there"), at));
                }
                self.see(store, id, *since, *value, at)?;
                self.put(id, *since, *value);
            }
            Group::Left { id, since, .. } => {
                if before(id).map(|(since, _)| since) != Some(*since) {
                    return Err(self.wrong("group-steps", &format!("{id} went and was not there"), at));
                }
                if let Some(members) = &mut self.members {
                    members.remove(id);
                }
            }
            Group::Settled { .. } => {
                let there = store.members(self.dir);
                if self.members.as_ref() != Some(&there) {
                    let message = format!("{:?} is told, and {there:?} is there", self.members);
                    return Err(self.wrong("group-final", &message, at));
                }
            }
            Group::Opened { .. } | Group::Closed { .. } => {}
        }
        self.last = at;
        Ok(())
    }

    /// A member is told of: it was there, and not before what was told of it already.
    fn see(&mut self, store: &Store, id: &str, since: u64, value: u64, at: usize) -> Result<(), Violation> {
        let Some(&modified) = store.had.get(&(format!("{}{id}", self.dir), value, since)) else {
            return Err(self.wrong("group-invented", &format!("{id} since {since} never was {value}"), at));
        };
        if self.newest.get(id).is_some_and(|newest| *newest > (since, modified)) {
            return Err(self.wrong("group-back", &format!("{id} was told of as it is later"), at));
        }
        self.newest.insert(id.to_owned(), (since, modified));
        Ok(())
    }

    fn put(&mut self, id: &str, since: u64, value: u64) {
        if let Some(members) = &mut self.members {
            members.insert(id.to_owned(), (since, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::story::{breaks, story},
        *,
    };

    fn put(revision: u64, value: u64) -> What {
        Stored::Put { key: "/g/a".into(), revision, value, session: Some(1) }.into()
    }

    fn gone(revision: u64) -> What {
        Stored::Gone { key: "/g/a".into(), revision, with_session: true }.into()
    }

    fn opened() -> What {
        Group::Opened { view: 1, dir: "/g/".into() }.into()
    }

    fn members<const N: usize>(all: [(u64, u64); N]) -> What {
        let members = all.into_iter().map(|member| ("a".to_owned(), member)).collect();
        Group::Members { view: 1, members }.into()
    }

    fn joined(since: u64, value: u64) -> What {
        Group::Joined { view: 1, id: "a".into(), since, value }.into()
    }

    fn updated(since: u64, value: u64) -> What {
        Group::Updated { view: 1, id: "a".into(), since, value }.into()
    }

    fn left(since: u64) -> What {
        Group::Left { view: 1, id: "a".into(), since }.into()
    }

    fn settled() -> What {
        Group::Settled { view: 1 }.into()
    }

    #[test]
    fn a_member_comes_changes_goes_and_comes_back() {
        let all = [
            opened(),
            members([]),
            put(1, 10),
            joined(1, 10),
            put(2, 11),
            updated(1, 11),
            gone(3),
            left(1),
            put(4, 12),
            joined(4, 12),
            settled(),
        ];
        group(&story(all)).unwrap();
        group(&story([put(1, 10), opened(), members([(1, 10)]), gone(2), members([]), settled()])).unwrap();
    }

    #[test]
    fn steps_follow_from_each_other() {
        breaks(group(&story([put(1, 10), opened(), joined(1, 10)])), "group-steps");
        breaks(group(&story([put(1, 10), opened(), members([(1, 10)]), joined(1, 10)])), "group-steps");
        breaks(group(&story([put(1, 10), opened(), members([]), updated(1, 10)])), "group-steps");
        breaks(group(&story([put(1, 10), opened(), members([]), left(1)])), "group-steps");
        let back = [put(1, 10), opened(), members([(1, 10)]), gone(2), put(3, 11), updated(3, 11)];
        breaks(group(&story(back)), "group-steps");
    }

    #[test]
    fn nobody_is_invented_or_of_the_past() {
        breaks(group(&story([opened(), members([(1, 10)])])), "group-invented");
        breaks(group(&story([put(1, 10), opened(), members([(2, 10)])])), "group-invented");
        let back = [put(1, 10), put(2, 11), opened(), members([(1, 11)]), updated(1, 10)];
        breaks(group(&story(back)), "group-back");
    }

    #[test]
    fn the_view_is_what_the_store_has_in_the_end() {
        breaks(group(&story([put(1, 10), opened(), members([(1, 10)]), gone(2), settled()])), "group-final");
        breaks(group(&story([opened(), members([]), put(1, 10), settled()])), "group-final");
    }
}
