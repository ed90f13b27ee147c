//! How instances are shown.

use coord::registry::{DiscoveryEvent, Instance, Kind, Snapshot, Status};
use serde_json::{Value, json};

use crate::output::printable_text;

pub(super) const HEAD: [&str; 8] =
    ["ID", "ADDRESS", "TLS PORT", "WEIGHT", "ZONE", "STATUS", "KIND", "LABELS"];

pub(super) fn row(instance: &Instance) -> Vec<String> {
    let labels = instance.labels().iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
    let or_none =
        |text: Option<String>| text.filter(|text| !text.is_empty()).unwrap_or_else(|| "-".to_owned());
    let cells = [
        instance.id().to_owned(),
        address(instance),
        or_none(instance.tls_port().map(|port| port.to_string())),
        instance.weight().to_string(),
        or_none(instance.zone().map(str::to_owned)),
        status(instance.status()).to_owned(),
        kind(instance.kind()).to_owned(),
        or_none(Some(labels.join(" "))),
    ];
    cells.iter().map(|cell| printable_text(cell)).collect()
}

/// `10.0.0.7:8080`, `[::1]:8080`, or the host alone if it has a TLS port only.
fn address(instance: &Instance) -> String {
    let host = instance.address();
    match instance.port() {
        0 => host.to_owned(),
        port if host.contains(':') => format!("[{host}]:{port}"),
        port => format!("{host}:{port}"),
    }
}

const fn status(status: Status) -> &'static str {
    match status {
        Status::Up => "up",
        Status::Draining => "draining",
        Status::Disabled => "disabled",
    }
}

const fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Ephemeral => "ephemeral",
        Kind::Permanent => "permanent",
    }
}

/// One line: id, address, status.
pub(super) fn line(instance: &Instance) -> String {
    [instance.id(), &address(instance), status(instance.status())].map(printable_text).join("\t")
}

pub(super) fn instance(instance: &Instance) -> Value {
    // An instance has text keys only, so it is always JSON.
    serde_json::to_value(instance).unwrap_or_default()
}

pub(super) fn instances(instances: &[Instance]) -> Value {
    instances.iter().map(instance).collect()
}

pub(super) fn event_json(event: &DiscoveryEvent) -> Value {
    match event {
        DiscoveryEvent::Initial(list) => json!({ "event": "initial", "instances": instances(list) }),
        DiscoveryEvent::Added(added) => json!({ "event": "added", "instance": instance(added) }),
        DiscoveryEvent::Updated { before, after } => {
            json!({ "event": "updated", "before": instance(before), "instance": instance(after) })
        }
        DiscoveryEvent::Removed(removed) => json!({ "event": "removed", "instance": instance(removed) }),
        DiscoveryEvent::Resync(list) => json!({ "event": "resync", "instances": instances(list) }),
        // New kinds of events: the reader learns that there was one.
        _ => json!({ "event": "other" }),
    }
}

pub(super) fn event_text(event: &DiscoveryEvent) -> Vec<String> {
    let all = |what: &str, list: &[Instance]| {
        let mut lines = vec![format!("{what}\t{} instances", list.len())];
        lines.extend(list.iter().map(|instance| format!("is\t{}", line(instance))));
        lines
    };
    match event {
        DiscoveryEvent::Initial(list) => all("initial", list),
        DiscoveryEvent::Resync(list) => all("resync", list),
        DiscoveryEvent::Added(added) => vec![format!("added\t{}", line(added))],
        DiscoveryEvent::Updated { after, .. } => vec![format!("updated\t{}", line(after))],
        DiscoveryEvent::Removed(removed) => vec![format!("removed\t{}", line(removed))],
        _ => Vec::new(),
    }
}

/// How far the list can be believed: `{"event":"state","state":"stale","age_ms":1200}`.
pub(super) fn state(snapshot: &Snapshot) -> Value {
    let state = format!("{:?}", snapshot.state()).to_lowercase();
    let age = u64::try_from(snapshot.age().as_millis()).unwrap_or(u64::MAX);
    json!({ "event": "state", "state": state, "age_ms": age })
}
