//! One instance of a service, as registries know it.

use std::{
    collections::BTreeMap,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use coord_api::{Error, ErrorKind, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::Value;

/// The weight of an instance that names none.
pub const WEIGHT_DEFAULT: u32 = 100;
/// The largest weight.
pub const WEIGHT_MAX: u32 = 1_000_000;
/// Longest name, id, address and zone, in bytes.
pub const TEXT_MAX: usize = 255;
/// How many labels an instance may have.
pub const LABELS_MAX: usize = 64;
/// Longest name of a label, in bytes.
pub const LABEL_NAME_MAX: usize = 128;
/// Longest value of a label, in bytes.
pub const LABEL_VALUE_MAX: usize = 1_024;
/// Largest payload, in bytes of JSON.
pub const PAYLOAD_MAX: usize = 65_536;

/// How long an instance stays in the registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// As long as the session of the process that registered it, and again with the next session.
    #[default]
    Ephemeral,
    /// Until it is unregistered, whatever becomes of its process.
    Permanent,
}

/// What an instance says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It takes requests.
    #[default]
    Up,
    /// It ends what it has and takes nothing new: it is about to leave.
    Draining,
    /// Somebody took it out of service; it stays registered.
    Disabled,
}

/// One instance of a service: where it is, and what it says about itself.
///
/// Cheap to clone. Made by [`Instance::new`] and the `with_…` methods, which never fail; what is out of bounds is
/// refused by [`Instance::validate`], which registering calls. Instances that are read from a store were written by
/// others and may break the bounds.
///
/// ```
/// use coord_registry::{Instance, Status};
///
/// let instance = Instance::new("billing", "10.0.0.7:8080", "10.0.0.7", 8080)
///     .with_zone("eu-1a")
///     .with_weight(50)
///     .with_label("version", "1.4.2")
///     .with_payload(&vec!["invoices", "refunds"])?;
/// instance.validate()?;
/// assert!(instance.is_available());
/// assert_eq!(instance.payload::<Vec<String>>()?, ["invoices", "refunds"]);
/// assert!(!instance.with_status(Status::Draining).is_available());
/// # Ok::<(), coord_api::Error>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Instance(Arc<Data>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Data {
    name: String,
    id: String,
    address: String,
    port: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tls_port: Option<u16>,
    weight: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload: Option<Value>,
    #[serde(default)]
    kind: Kind,
    #[serde(default)]
    status: Status,
    /// Milliseconds since 1970.
    registered_at: u64,
}

impl Instance {
    /// An ephemeral instance that is up, with the default weight, made now. Not validated yet.
    ///
    /// `id` is unique in the service; the address with the port does well. `port` 0 stands for none, for instances
    /// that have a TLS port only.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        id: impl Into<String>,
        address: impl Into<String>,
        port: u16,
    ) -> Self {
        Self(Arc::new(Data {
            name: name.into(),
            id: id.into(),
            address: address.into(),
            port,
            tls_port: None,
            weight: WEIGHT_DEFAULT,
            zone: None,
            labels: BTreeMap::new(),
            payload: None,
            kind: Kind::default(),
            status: Status::default(),
            registered_at: millis(now()),
        }))
    }

    /// Sets the port that speaks TLS.
    #[must_use]
    pub fn with_tls_port(self, port: u16) -> Self {
        self.set(|data| data.tls_port = Some(port))
    }

    /// Sets the share of requests that it should get, compared with the weights of the others; 0 for none.
    #[must_use]
    pub fn with_weight(self, weight: u32) -> Self {
        self.set(|data| data.weight = weight)
    }

    /// Sets the zone, such as a data centre, that it is in.
    #[must_use]
    pub fn with_zone(self, zone: impl Into<String>) -> Self {
        self.set(|data| data.zone = Some(zone.into()))
    }

    /// Adds a label, or replaces the one of this name.
    #[must_use]
    pub fn with_label(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.set(|data| drop(data.labels.insert(name.into(), value.into())))
    }

    /// Sets the payload: anything that serde makes JSON of.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if it cannot be JSON, such as a map whose keys are no text.
    pub fn with_payload(self, payload: &impl Serialize) -> Result<Self> {
        match serde_json::to_value(payload) {
            Ok(payload) => Ok(self.with_payload_json(payload)),
            Err(error) => Err(self.tell(Error::invalid("the payload cannot be JSON")).with_source(error)),
        }
    }

    /// Sets the payload, as JSON. `null` stands for none.
    #[must_use]
    pub fn with_payload_json(self, payload: Value) -> Self {
        self.set(|data| data.payload = Some(payload).filter(|payload| !payload.is_null()))
    }

    /// Sets how long it stays.
    #[must_use]
    pub fn with_kind(self, kind: Kind) -> Self {
        self.set(|data| data.kind = kind)
    }

    /// Sets what it says of itself.
    #[must_use]
    pub fn with_status(self, status: Status) -> Self {
        self.set(|data| data.status = status)
    }

    /// Sets when it was registered, in whole milliseconds; for layouts. [`Instance::new`] has set it to now.
    #[must_use]
    pub fn with_registered_at(self, at: SystemTime) -> Self {
        self.set(|data| data.registered_at = millis(at))
    }

    /// The name of the service.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The id, unique in the service.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// The host: a name or an IP address.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.0.address
    }

    /// The port; 0 if it has none.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.0.port
    }

    /// The port that speaks TLS.
    #[must_use]
    pub fn tls_port(&self) -> Option<u16> {
        self.0.tls_port
    }

    /// The share of requests that it should get, compared with the weights of the others.
    #[must_use]
    pub fn weight(&self) -> u32 {
        self.0.weight
    }

    /// The zone that it is in, if it says so.
    #[must_use]
    pub fn zone(&self) -> Option<&str> {
        self.0.zone.as_deref()
    }

    /// The labels, by name.
    #[must_use]
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.0.labels
    }

    /// The payload as a `T`. An instance without payload reads as JSON's `null`, so as `None` of an `Option`.
    ///
    /// # Errors
    /// [`Malformed`](ErrorKind::Malformed), with service and id, if it is no `T`.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T> {
        T::deserialize(self.0.payload.as_ref().unwrap_or(&Value::Null)).map_err(|error| {
            let refused = Error::new(ErrorKind::Malformed, "the payload is of another type");
            self.tell(refused).with_operation("payload").with_source(error)
        })
    }

    /// The payload as it was read or set.
    #[must_use]
    pub fn payload_json(&self) -> Option<&Value> {
        self.0.payload.as_ref()
    }

    /// How long it stays.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// What it says of itself.
    #[must_use]
    pub fn status(&self) -> Status {
        self.0.status
    }

    /// When it was registered first, in whole milliseconds by the clock of its machine. A new session does not change it.
    #[must_use]
    pub fn registered_at(&self) -> SystemTime {
        from_millis(self.0.registered_at)
    }

    /// Whether it takes requests: its status is [`Status::Up`] and its weight not 0.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.0.status == Status::Up && self.0.weight > 0
    }

    /// Whether it says the same as `other`, whenever each was registered.
    #[must_use]
    pub fn says_the_same(&self, other: &Self) -> bool {
        self == other || *self == other.clone().with_registered_at(self.registered_at())
    }

    /// Refuses what no registry should be given.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for an empty name, id or address, blanks and control characters in
    /// an address, no port at all; [`LimitExceeded`](ErrorKind::LimitExceeded) beyond the limits of this module. Service
    /// and id are in the error.
    ///
    /// ```
    /// use coord_registry::Instance;
    ///
    /// let no_port = Instance::new("billing", "b1", "10.0.0.7", 0);
    /// assert!(no_port.validate().is_err());
    /// assert!(no_port.with_tls_port(8443).validate().is_ok());
    /// ```
    pub fn validate(&self) -> Result<()> {
        self.check().map_err(|error| self.tell(error).with_operation("validate"))
    }

    fn check(&self) -> Result<()> {
        let data = &*self.0;
        for (field, text) in [("name", &data.name), ("id", &data.id), ("address", &data.address)] {
            if text.is_empty() {
                return Err(Error::invalid("an instance needs a name, an id and an address")
                    .with_context("missing", field));
            }
            at_most(field, text.len(), TEXT_MAX)?;
        }
        if data.address.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(Error::invalid("an address has no blanks").with_context("address", &data.address));
        }
        if data.tls_port == Some(0) || (data.port == 0 && data.tls_port.is_none()) {
            return Err(Error::invalid("an instance needs a port from 1 to 65,535"));
        }
        at_most("weight", usize::try_from(data.weight).unwrap_or(usize::MAX), WEIGHT_MAX as usize)?;
        at_most("zone", data.zone.as_ref().map_or(0, String::len), TEXT_MAX)?;
        at_most("labels", data.labels.len(), LABELS_MAX)?;
        for (name, value) in &data.labels {
            if name.is_empty() {
                return Err(Error::invalid("a label needs a name"));
            }
            at_most("name of a label", name.len(), LABEL_NAME_MAX)?;
            at_most("value of a label", value.len(), LABEL_VALUE_MAX)?;
        }
        at_most("payload", data.payload.as_ref().map_or(0, |json| json.to_string().len()), PAYLOAD_MAX)
    }

    fn set(mut self, change: impl FnOnce(&mut Data)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    fn tell(&self, error: Error) -> Error {
        error.with_context("service", &self.0.name).with_context("id", &self.0.id)
    }
}

fn at_most(field: &'static str, size: usize, limit: usize) -> Result<()> {
    if size <= limit {
        return Ok(());
    }
    Err(Error::new(ErrorKind::LimitExceeded, "more than an instance may have")
        .with_context("field", field)
        .with_context("size", size)
        .with_context("limit", limit))
}

/// The wall clock: for people and files, and never for deadlines.
#[expect(clippy::disallowed_methods, reason = "the time of day is what is wanted")]
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}

/// Milliseconds since 1970; 0 for what was before.
pub(crate) fn millis(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The time so many milliseconds after 1970 began; 1970 for one that the system cannot say.
pub(crate) fn from_millis(millis: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(millis)).unwrap_or(SystemTime::UNIX_EPOCH)
}

impl fmt::Debug for Instance {
    /// Shows no payload, which may hold a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance")
            .field("name", &self.0.name)
            .field("id", &self.0.id)
            .field("address", &self.0.address)
            .field("port", &self.0.port)
            .field("tls_port", &self.0.tls_port)
            .field("weight", &self.0.weight)
            .field("zone", &self.0.zone)
            .field("labels", &self.0.labels)
            .field("has_payload", &self.0.payload.is_some())
            .field("kind", &self.0.kind)
            .field("status", &self.0.status)
            .finish_non_exhaustive()
    }
}

impl Serialize for Instance {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Instance {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Data::deserialize(deserializer).map(|data| Self(Arc::new(data)))
    }
}

#[cfg(test)]
#[path = "instance_tests.rs"]
mod tests;
