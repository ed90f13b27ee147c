//! Providers: an instance as a URL of Dubbo, and back.

use coord_api::{Error, ErrorKind, Result};

use super::{encoding, url::DubboUrl};
use crate::{
    Instance, Kind, Status, WEIGHT_DEFAULT,
    instance::{from_millis, millis},
};

/// The label with the protocol of a provider that does not speak `dubbo`, such as `tri`.
pub const DUBBO_PROTOCOL: &str = "dubbo.protocol";
/// The label with the path of a provider that is not the name of its interface.
pub const DUBBO_PATH: &str = "dubbo.path";

const ID: &str = "coord.id";
const STATUS: &str = "coord.status";
const TLS_PORT: &str = "coord.tls-port";
const PAYLOAD: &str = "coord.payload";

/// Parameters that are fields of an instance, so no labels.
const FIELDS: [&str; 12] = [
    "interface",
    "side",
    "category",
    "timestamp",
    "dynamic",
    "weight",
    "disabled",
    "enabled",
    "zone",
    ID,
    STATUS,
    TLS_PORT,
];

/// The URL of an instance.
///
/// # Errors
/// [`InvalidArgument`](ErrorKind::InvalidArgument) for an instance without port, and for a label that has the name of a
/// field.
pub(super) fn to_url(instance: &Instance) -> Result<DubboUrl> {
    if instance.port() == 0 {
        return Err(Error::invalid("a provider of Dubbo needs a port that is not for TLS only"));
    }
    let labels = instance.labels();
    let label = |name: &str, otherwise: &str| labels.get(name).map_or(otherwise, String::as_str).to_owned();
    let (protocol, path) = (label(DUBBO_PROTOCOL, "dubbo"), label(DUBBO_PATH, instance.name()));
    let mut url = DubboUrl::new(protocol, instance.address(), Some(instance.port()), path);
    for (name, value) in labels.iter().filter(|(name, _)| *name != DUBBO_PROTOCOL && *name != DUBBO_PATH) {
        if FIELDS.contains(&name.as_str()) || name == PAYLOAD {
            return Err(Error::invalid("this label is a field of the instance in Dubbo's layout")
                .with_context("label", name));
        }
        url.set(name, value);
    }
    url.set("interface", instance.name());
    url.set("side", "provider");
    url.set("timestamp", millis(instance.registered_at()).to_string());
    url.set("dynamic", (instance.kind() == Kind::Ephemeral).to_string());
    if instance.weight() != WEIGHT_DEFAULT {
        url.set("weight", instance.weight().to_string());
    }
    if instance.status() != Status::Up {
        url.set("disabled", "true");
    }
    if instance.status() == Status::Draining {
        url.set(STATUS, "draining");
    }
    if let Some(zone) = instance.zone() {
        url.set("zone", zone);
    }
    if let Some(port) = instance.tls_port() {
        url.set(TLS_PORT, port.to_string());
    }
    if let Some(payload) = instance.payload_json() {
        url.set(PAYLOAD, encoding::encode(&payload.to_string()));
    }
    if instance.id() != usual_id(instance.name(), &url) {
        url.set(ID, encoding::encode(instance.id()));
    }
    Ok(url)
}

/// The instance that the URL of a provider stands for. `kind` is what it is if the URL does not say.
///
/// # Errors
/// [`Malformed`](ErrorKind::Malformed) for a number or a payload that is none.
pub(super) fn from_url(service: &str, mut url: DubboUrl, kind: Kind) -> Result<Instance> {
    let id = match url.take(ID) {
        Some(id) => encoding::decode(&id)?,
        None => usual_id(service, &url),
    };
    let mut instance = Instance::new(service, id, url.host(), url.port().unwrap_or(0))
        // A negative weight is one of 0 to Dubbo.
        .with_weight(
            url.number::<i32>("weight")?.map_or(WEIGHT_DEFAULT, |weight| u32::try_from(weight).unwrap_or(0)),
        )
        .with_status(status(&url))
        .with_kind(match url.parameter("dynamic") {
            Some(_) if url.flag("dynamic", true) => Kind::Ephemeral,
            Some(_) => Kind::Permanent,
            None => kind,
        })
        .with_registered_at(from_millis(url.number("timestamp")?.unwrap_or(0)));
    if let Some(zone) = url.take("zone") {
        instance = instance.with_zone(zone);
    }
    if let Some(port) = url.number(TLS_PORT)? {
        instance = instance.with_tls_port(port);
    }
    if let Some(payload) = url.take(PAYLOAD) {
        let json = serde_json::from_str(&encoding::decode(&payload)?)
            .map_err(|error| Error::new(ErrorKind::Malformed, "the payload is no JSON").with_source(error))?;
        instance = instance.with_payload_json(json);
    }
    if url.protocol() != "dubbo" {
        instance = instance.with_label(DUBBO_PROTOCOL, url.protocol());
    }
    if url.path() != service {
        instance = instance.with_label(DUBBO_PATH, url.path());
    }
    let labels = url.parameters().iter().filter(|(name, _)| !FIELDS.contains(&name.as_str()));
    Ok(labels.fold(instance, |instance, (name, value)| instance.with_label(name, value)))
}

/// What tells providers of one interface apart: where they listen, and where it matters how, and for whom.
///
/// `10.0.0.7:20880`, or as long as `tri://10.0.0.7:20880/shop/Orders?group=eu&version=1.0.0`.
fn usual_id(service: &str, url: &DubboUrl) -> String {
    let path = if url.path() == service { "" } else { url.path() };
    let mut id = DubboUrl::new(url.protocol(), url.host(), url.port(), path);
    for name in ["group", "version"] {
        if let Some(value) = url.parameter(name) {
            id.set(name, value);
        }
    }
    let id = id.to_string();
    id.strip_prefix("dubbo://").map(str::to_owned).unwrap_or(id)
}

fn status(url: &DubboUrl) -> Status {
    let disabled = match url.parameter("disabled") {
        Some(_) => url.flag("disabled", false),
        None => !url.flag("enabled", true),
    };
    match (disabled, url.parameter(STATUS)) {
        (false, _) => Status::Up,
        (true, Some("draining")) => Status::Draining,
        (true, _) => Status::Disabled,
    }
}
