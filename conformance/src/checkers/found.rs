//! What views of a service are told.

use std::collections::BTreeMap;

use super::{History, Stats, Verdict, Violation, What, facts::Found};

/// What each instance says.
type Instances = BTreeMap<String, u64>;

/// What a view was told.
struct View<'h> {
    service: &'h str,
    mirror: Option<Instances>,
    last: usize,
}

/// The events of a view are the steps of a mirror: each begins with what the one before ended with. Of an instance that
/// stays nobody is told what it said earlier; one that went may come back so for a moment, by a request that was late. When
/// all is calm, mirror and list are the instances that are alive, with what they say.
///
/// # Errors
/// `found-steps`: an event that does not follow from those before; `found-back`: an instance told of as it was earlier;
/// `found-final`: settled, and the view is not what is there.
pub fn found(history: &History) -> Verdict {
    let mut stats = Stats::default();
    let mut views: BTreeMap<u64, View<'_>> = BTreeMap::new();
    let mut alive: BTreeMap<&str, Instances> = BTreeMap::new();
    for (at, what) in history.facts() {
        let What::Found(fact) = what else { continue };
        match fact {
            Found::Opened { view, service } => {
                views.insert(*view, View { service, mirror: None, last: at });
            }
            Found::Says { service, id, value } => {
                alive.entry(service).or_default().insert(id.clone(), *value);
            }
            Found::All { view, .. } | Found::Changed { view, .. } | Found::Settled { view, .. } => {
                let Some(view) = views.get_mut(view) else { continue };
                stats.judged += 1;
                view.tell(&alive, fact, at)?;
                stats.contended += usize::from(view.mirror.as_ref().is_some_and(|all| all.len() > 1));
            }
        }
    }
    Ok(stats)
}

impl View<'_> {
    fn wrong(&self, rule: &'static str, what: &str, at: usize) -> Violation {
        Violation::new(rule, format!("{}: {what}", self.service), [self.last, at])
    }

    fn tell(&mut self, alive: &BTreeMap<&str, Instances>, fact: &Found, at: usize) -> Result<(), Violation> {
        match fact {
            Found::All { instances, .. } => {
                for (id, value) in instances {
                    self.see(id, *value, at)?;
                }
                self.mirror = Some(instances.clone());
            }
            Found::Changed { id, before, after, .. } => {
                if let Some(value) = after {
                    self.see(id, *value, at)?;
                }
                let (last, mirror) = (self.last, self.mirror.get_or_insert_default());
                let had = match after {
                    Some(value) => mirror.insert(id.clone(), *value),
                    None => mirror.remove(id),
                };
                if had != *before || (before.is_none() && after.is_none()) {
                    let message =
                        format!("{}: {id} told as {before:?} -> {after:?}, but was {had:?}", self.service);
                    return Err(Violation::new("found-steps", message, [last, at]));
                }
            }
            Found::Settled { instances, .. } => {
                let nobody = Instances::new();
                let there = alive.get(self.service).unwrap_or(&nobody);
                let told = self.mirror.as_ref();
                if told != Some(there) || instances != there {
                    let message = format!("{told:?} told and {instances:?} listed, and {there:?} is there");
                    return Err(self.wrong("found-final", &message, at));
                }
            }
            Found::Opened { .. } | Found::Says { .. } => {}
        }
        self.last = at;
        Ok(())
    }

    fn see(&self, id: &str, value: u64, at: usize) -> Result<(), Violation> {
        if self.mirror.as_ref().and_then(|mirror| mirror.get(id)).is_some_and(|newest| *newest > value) {
            return Err(self.wrong("found-back", &format!("{id} was told to say something later"), at));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::story::{breaks, story},
        *,
    };

    fn opened() -> What {
        Found::Opened { view: 1, service: "s".into() }.into()
    }

    fn map(value: Option<u64>) -> Instances {
        value.map(|value| ("a".to_owned(), value)).into_iter().collect()
    }

    fn all(value: Option<u64>) -> What {
        Found::All { view: 1, instances: map(value) }.into()
    }

    fn changed(before: Option<u64>, after: Option<u64>) -> What {
        Found::Changed { view: 1, id: "a".into(), before, after }.into()
    }

    fn says(value: u64) -> What {
        Found::Says { service: "s".into(), id: "a".into(), value }.into()
    }

    fn settled(value: Option<u64>) -> What {
        Found::Settled { view: 1, instances: map(value) }.into()
    }

    #[test]
    fn events_are_the_steps_of_a_mirror() {
        let steps =
            [opened(), all(None), changed(None, Some(1)), changed(Some(1), Some(2)), changed(Some(2), None)];
        found(&story(steps)).unwrap();
        breaks(found(&story([opened(), all(Some(1)), changed(None, Some(2))])), "found-steps");
        breaks(found(&story([opened(), all(None), changed(Some(1), None)])), "found-steps");
        breaks(found(&story([opened(), all(Some(1)), changed(Some(7), Some(8))])), "found-steps");
    }

    #[test]
    fn nobody_says_what_it_said_before() {
        breaks(found(&story([opened(), all(Some(2)), changed(Some(2), Some(1))])), "found-back");
        breaks(found(&story([opened(), all(Some(2)), all(Some(1))])), "found-back");
        found(&story([opened(), all(Some(2)), all(None), all(Some(1))])).unwrap();
    }

    #[test]
    fn the_view_is_who_is_alive_in_the_end() {
        found(&story([opened(), all(Some(1)), says(1), settled(Some(1))])).unwrap();
        found(&story([opened(), all(None), settled(None)])).unwrap();
        breaks(found(&story([opened(), all(Some(1)), settled(Some(1))])), "found-final");
        breaks(found(&story([opened(), all(None), says(1), settled(Some(1))])), "found-final");
        breaks(found(&story([opened(), all(Some(1)), says(1), settled(None)])), "found-final");
    }
}
