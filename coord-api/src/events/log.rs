//! Events as `tracing` events. The page `docs/observability.md` has the table.

use std::time::Duration;

use tracing::{Level, enabled, field};

use super::{Event, Turn};
use crate::{FencingToken, SessionId};

/// Whether anybody logs what only somebody who follows the sessions can tell.
pub(super) fn on() -> bool {
    enabled!(target: "coord::events", Level::INFO)
}

/// The fields of an event; those that it has not are left out.
#[derive(Default)]
struct Fields<'a> {
    session: Option<&'a SessionId>,
    ttl: Option<&'a Duration>,
    turn: Option<&'a Turn>,
    token: Option<&'a FencingToken>,
    waited: Option<&'a Duration>,
    held: Option<&'a Duration>,
    namespace: Option<&'a str>,
    generation: Option<u64>,
    service: Option<&'a str>,
    count: Option<usize>,
}

impl<'a> Fields<'a> {
    fn of(event: &'a Event) -> Self {
        match event {
            Event::SessionOpened { session, ttl } => {
                Self { session: Some(session), ttl: Some(ttl), ..Self::default() }
            }
            Event::SessionSuspended { session }
            | Event::SessionResumed { session }
            | Event::SessionLost { session }
            | Event::SessionClosed { session } => Self { session: Some(session), ..Self::default() },
            Event::Waiting(turn) => Self::of_turn(turn),
            Event::GaveUp { turn, waited } => Self { waited: Some(waited), ..Self::of_turn(turn) },
            Event::Acquired { turn, token, waited, .. } => {
                Self { token: Some(token), waited: Some(waited), ..Self::of_turn(turn) }
            }
            Event::Released { turn, token, held } | Event::Lost { turn, token, held } => {
                Self { token: Some(token), held: Some(held), ..Self::of_turn(turn) }
            }
            Event::Configured { namespace, generation } => {
                Self { namespace: Some(namespace), generation: Some(*generation), ..Self::default() }
            }
            Event::Instances { service, count } => {
                Self { service: Some(service), count: Some(*count), ..Self::default() }
            }
            Event::Suspended | Event::Reconnected | Event::Closed | Event::Missed(_) => Self::default(),
        }
    }

    fn of_turn(turn: &'a Turn) -> Self {
        Self { session: Some(&turn.session), turn: Some(turn), ..Self::default() }
    }
}

pub(super) fn log(event: &Event) {
    macro_rules! log_at {
        ($level:expr) => {{
            let fields = Fields::of(event);
            tracing::event!(target: "coord::events", $level, {
                coord.event = event.name(),
                coord.session = fields.session.map(field::display),
                coord.session.ttl = fields.ttl.map(Duration::as_secs_f64),
                coord.recipe = fields.turn.map(|turn| turn.recipe.as_str()),
                coord.name = fields.turn.map(|turn| field::display(&turn.name)),
                coord.token = fields.token.map(field::display),
                coord.waited = fields.waited.map(Duration::as_secs_f64),
                coord.held = fields.held.map(Duration::as_secs_f64),
                coord.config.namespace = fields.namespace,
                coord.config.generation = fields.generation,
                coord.service = fields.service,
                coord.instances = fields.count,
            });
        }};
    }
    match event {
        // What somebody may have to look into.
        Event::Suspended
        | Event::Reconnected
        | Event::SessionSuspended { .. }
        | Event::SessionResumed { .. }
        | Event::SessionLost { .. }
        | Event::Lost { .. } => log_at!(Level::INFO),
        _ => log_at!(Level::DEBUG),
    }
}
