//! Events as numbers.

use std::time::Duration;

use coord_api::events::{Event, Observer, Recipe};
use metrics::{counter, gauge, histogram};

use super::names;

/// Counts the events of a handle.
#[derive(Debug)]
pub(super) struct Counting {
    pub(super) store: &'static str,
}

impl Counting {
    fn session_ended(&self, end: &'static str) {
        gauge!(names::SESSIONS, "store" => self.store).decrement(1.0);
        counter!(names::SESSIONS_ENDED, "store" => self.store, "end" => end).increment(1);
    }

    fn waiting(&self, recipe: Recipe, by: f64) {
        gauge!(names::WAITING, "store" => self.store, "recipe" => recipe.as_str()).increment(by);
    }

    fn waited(&self, recipe: Recipe, end: &'static str, waited: Duration) {
        histogram!(names::WAIT_SECONDS, "store" => self.store, "recipe" => recipe.as_str(), "end" => end)
            .record(waited);
    }

    fn held(&self, recipe: Recipe, end: &'static str, held: Duration) {
        gauge!(names::HELD, "store" => self.store, "recipe" => recipe.as_str()).decrement(1.0);
        histogram!(names::HOLD_SECONDS, "store" => self.store, "recipe" => recipe.as_str(), "end" => end)
            .record(held);
    }
}

impl Observer for Counting {
    fn observe(&self, event: &Event) {
        let store = self.store;
        match event {
            Event::Suspended => counter!(names::SUSPENSIONS, "store" => store).increment(1),
            Event::Reconnected => counter!(names::RECONNECTS, "store" => store).increment(1),
            Event::SessionOpened { .. } => gauge!(names::SESSIONS, "store" => store).increment(1.0),
            Event::SessionSuspended { .. } => {
                counter!(names::SESSION_SUSPENSIONS, "store" => store).increment(1);
            }
            Event::SessionLost { .. } => self.session_ended("lost"),
            Event::SessionClosed { .. } => self.session_ended("closed"),
            Event::Waiting(turn) => self.waiting(turn.recipe, 1.0),
            Event::GaveUp { turn, waited } => {
                self.waiting(turn.recipe, -1.0);
                self.waited(turn.recipe, "gave_up", *waited);
            }
            Event::Acquired { turn, waited, contended, .. } => {
                if *contended {
                    self.waiting(turn.recipe, -1.0);
                }
                self.waited(turn.recipe, "acquired", *waited);
                gauge!(names::HELD, "store" => store, "recipe" => turn.recipe.as_str()).increment(1.0);
            }
            Event::Released { turn, held, .. } => self.held(turn.recipe, "released", *held),
            Event::Lost { turn, held, .. } => self.held(turn.recipe, "lost", *held),
            Event::Configured { namespace, generation } => {
                gauge!(names::CONFIG_GENERATION, "store" => store, "namespace" => namespace.clone())
                    .set(number(*generation));
            }
            Event::Instances { service, count } => {
                let count = u64::try_from(*count).unwrap_or(u64::MAX);
                gauge!(names::INSTANCES, "store" => store, "service" => service.clone()).set(number(count));
            }
            _ => {}
        }
    }
}

/// Generations and counts are far below where floating point numbers lose whole ones.
fn number(value: u64) -> f64 {
    u32::try_from(value).map_or(f64::INFINITY, f64::from)
}
