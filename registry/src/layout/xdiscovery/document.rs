//! Curator's JSON, in its order of fields.

use std::collections::BTreeMap;

use coord_api::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    Instance, Kind, Status, WEIGHT_DEFAULT,
    instance::{from_millis, millis},
};

/// The label that stands for Curator's `uriSpec`, as Curator's own text: `{scheme}://{address}:{port}`.
pub const URI_SPEC: &str = "uri-spec";

/// The type tag of a payload.
const CLASS: &str = "@class";

/// What is in a key: the fields that Curator writes, and ours behind them.
///
/// Every field may be absent or null, and there may be others.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Document {
    name: Option<String>,
    id: Option<String>,
    address: Option<String>,
    port: Option<u16>,
    ssl_port: Option<u16>,
    payload: Option<Value>,
    #[serde(rename = "registrationTimeUTC")]
    registration_time_utc: i64,
    service_type: Option<ServiceType>,
    uri_spec: Option<UriSpec>,
    /// Curators before 4.0 refuse what they do not know, so it is there only where it says something.
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
    #[serde(skip_serializing_if = "Extras::say_nothing")]
    coord: Extras,
}

/// What Curator has no field for.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Extras {
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum ServiceType {
    Dynamic,
    Static,
    Permanent,
    DynamicSequential,
}

#[derive(Debug, Serialize, Deserialize)]
struct UriSpec {
    parts: Vec<Part>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Part {
    value: String,
    variable: bool,
}

impl Extras {
    fn say_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl Document {
    pub(super) fn of(instance: &Instance, class: Option<&str>) -> Result<Self> {
        let mut labels = instance.labels().clone();
        let uri_spec = labels.remove(URI_SPEC).map(|text| UriSpec::parse(&text)).transpose()?;
        Ok(Self {
            name: Some(instance.name().to_owned()),
            id: Some(instance.id().to_owned()),
            address: Some(instance.address().to_owned()),
            port: (instance.port() != 0).then_some(instance.port()),
            ssl_port: instance.tls_port(),
            payload: instance.payload_json().map(|payload| to_java(payload, class)),
            registration_time_utc: i64::try_from(millis(instance.registered_at())).unwrap_or(i64::MAX),
            service_type: Some(match instance.kind() {
                Kind::Ephemeral => ServiceType::Dynamic,
                Kind::Permanent => ServiceType::Permanent,
            }),
            uri_spec,
            enabled: (!instance.is_available()).then_some(false),
            coord: Extras {
                weight: Some(instance.weight()).filter(|weight| *weight != WEIGHT_DEFAULT),
                zone: instance.zone().map(str::to_owned),
                labels,
                // Up is the usual, but with a weight of 0 it must be said: `enabled` is false then.
                status: match instance.status() {
                    Status::Up if instance.is_available() => None,
                    Status::Disabled => None,
                    status => Some(status),
                },
            },
        })
    }

    /// The instance of `service` at the key `id`, `None` if nobody can reach it. `kind` is what it is if the type does
    /// not say.
    pub(super) fn instance(
        self,
        service: &str,
        id: &str,
        kind: Kind,
        class: Option<&str>,
    ) -> Option<Instance> {
        let status = self.status();
        let mut instance = Instance::new(service, id, self.address?, self.port.unwrap_or(0))
            .with_weight(self.coord.weight.unwrap_or(WEIGHT_DEFAULT))
            .with_status(status)
            // A time before 1970 is 1970.
            .with_registered_at(from_millis(u64::try_from(self.registration_time_utc).unwrap_or(0)))
            .with_kind(match self.service_type {
                Some(ServiceType::Dynamic | ServiceType::DynamicSequential) => Kind::Ephemeral,
                Some(ServiceType::Static | ServiceType::Permanent) => Kind::Permanent,
                None => kind,
            });
        if let Some(port) = self.ssl_port {
            instance = instance.with_tls_port(port);
        }
        if let Some(zone) = self.coord.zone {
            instance = instance.with_zone(zone);
        }
        if let Some(payload) = self.payload {
            instance = instance.with_payload_json(from_java(payload, class));
        }
        if let Some(spec) = self.uri_spec {
            instance = instance.with_label(URI_SPEC, spec.text());
        }
        Some(
            self.coord
                .labels
                .into_iter()
                .fold(instance, |instance, (name, value)| instance.with_label(name, value)),
        )
    }

    /// Whoever says less wins: a Java tool that disables an instance need not know of our fields.
    fn status(&self) -> Status {
        let enabled = self.enabled.unwrap_or(true);
        match self.coord.status {
            Some(Status::Up) if !enabled && self.coord.weight != Some(0) => Status::Disabled,
            Some(status) => status,
            None if enabled => Status::Up,
            None => Status::Disabled,
        }
    }
}

impl UriSpec {
    /// Parses Curator's text: literal parts, and names of variables in braces.
    fn parse(text: &str) -> Result<Self> {
        let refused = || Error::invalid("braces in a uri-spec come in pairs").with_context("uri-spec", text);
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (literal, after) = rest.split_once('{').unwrap_or((rest, ""));
            if literal.contains('}') {
                return Err(refused());
            }
            if !literal.is_empty() {
                parts.push(Part { value: literal.to_owned(), variable: false });
            }
            if rest.len() == literal.len() {
                break;
            }
            let (name, after) = after.split_once('}').ok_or_else(refused)?;
            if name.contains('{') {
                return Err(refused());
            }
            parts.push(Part { value: name.trim().to_owned(), variable: true });
            rest = after;
        }
        Ok(Self { parts })
    }

    fn text(&self) -> String {
        let part =
            |part: &Part| if part.variable { format!("{{{}}}", part.value) } else { part.value.clone() };
        self.parts.iter().map(part).collect()
    }
}

/// The payload as Jackson reads it under a type tag: objects carry it inside; what JSON has no Java type of its own for
/// stands behind the name of one.
fn to_java(payload: &Value, class: Option<&str>) -> Value {
    match payload {
        Value::Object(fields) => {
            let mut fields = fields.clone();
            if let Some(class) = class {
                fields.entry(CLASS).or_insert_with(|| class.into());
            }
            Value::Object(fields)
        }
        Value::Array(_) => json!(["java.util.ArrayList", payload]),
        Value::Number(number) if number.is_u64() && !number.is_i64() => {
            json!(["java.math.BigInteger", payload])
        }
        Value::Number(number) if number.as_i64().is_some_and(|number| i32::try_from(number).is_err()) => {
            json!(["java.lang.Long", payload])
        }
        plain => plain.clone(),
    }
}

/// What [`to_java`] makes, and Jackson of the same types.
fn from_java(payload: Value, class: Option<&str>) -> Value {
    match payload {
        Value::Object(mut fields) => {
            if class.is_some() && fields.get(CLASS).and_then(Value::as_str) == class {
                fields.remove(CLASS);
            }
            Value::Object(fields)
        }
        Value::Array(mut pair) if pair.len() == 2 && pair.first().is_some_and(names_a_class) => {
            pair.swap_remove(1)
        }
        plain => plain,
    }
}

/// `java.lang.Long`, or `[Ljava.lang.String;` for an array.
fn names_a_class(value: &Value) -> bool {
    value.as_str().is_some_and(|name| name.contains('.') || name.starts_with('['))
}
