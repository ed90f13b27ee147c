//! What each instance runs, as it says itself.

use std::time::Duration;

use coord_api::{Entry, Error, ErrorKind, Result, WatchEvent};
use coord_recipes::{PersistentEphemeral, SessionKeeper};
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::{Running, Status};
use crate::{
    Generation, Identity, Namespace, ReleaseVersion, WallTime,
    layers::Layers,
    model::{Paths, Stored, malformed, read, write},
};

/// The longest error in a report, in characters.
const ERROR_MAX: usize = 500;

/// What an instance says that it runs of a namespace. It is there as long as the instance's session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InstanceReport {
    /// Who it is, with the address and the labels that gray rules go by.
    #[serde(flatten)]
    pub identity: Identity,
    /// The generation that it applied; `None` if it has none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<Generation>,
    /// The release that it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<ReleaseVersion>,
    /// The gray rule that it falls under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Since when, by the clock of the instance.
    pub since: WallTime,
    /// Why it does not run the newest; `None` if all is well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Stored for InstanceReport {
    const WHAT: &'static str = "the report of an instance";

    fn check(&self) -> Result<(), &'static str> {
        if self.identity.id.is_empty() { Err("an instance has an id") } else { Ok(()) }
    }
}

impl InstanceReport {
    /// How long it has run this, if the clocks of the instance and of this machine agree.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.since.age(WallTime::now())
    }

    fn decode(paths: &Paths, entry: &Entry) -> Result<Self> {
        let report: Self = read(entry)?;
        if paths.instance(&report.identity.id)? != entry.key {
            return Err(malformed(&entry.key, Self::WHAT, "it is the report of another instance"));
        }
        Ok(report)
    }
}

/// The instances that consume a namespace.
#[derive(Debug)]
#[non_exhaustive]
pub struct Instances {
    /// What they say, by the names of their keys.
    pub reports: Vec<InstanceReport>,
    /// Keys among them that hold something else; each error names its key.
    pub unreadable: Vec<Error>,
}

impl Namespace {
    /// The instances that consume this namespace and [report](super::ConsumerOptions::with_report), as of a moment ago.
    ///
    /// # Errors
    /// As [`coord_api::Coord::watch`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    ///
    /// ```
    /// # coord_backend_memory::doc_example(async |store| {
    /// use coord_api::SessionOptions;
    /// use coord_config_centre::{ConfigCentre, Consumer, ConsumerOptions, Content, Edit, Identity};
    /// use coord_recipes::SessionKeeper;
    ///
    /// let billing = ConfigCentre::new(&store, "/config")?.namespace("billing")?;
    /// billing.publish(Content::items([("rate", "100")]), &Edit::by("alice")).await?.done()?;
    /// let keeper = SessionKeeper::new(&store, SessionOptions::default());
    /// let options = ConsumerOptions::new(Identity::new("billing-7")).with_report(&keeper);
    /// let consumer = Consumer::open(&billing, options)?;
    /// consumer.ready().await?;
    /// # let mut seen = billing.instances().await?;
    /// # while seen.reports.first().is_none_or(|report| report.generation.is_none()) {
    /// #     tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    /// #     seen = billing.instances().await?;
    /// # }
    /// for report in billing.instances().await?.reports {
    ///     println!("{} runs {:?} for {:?}", report.identity.id, report.generation, report.age());
    /// }
    /// # assert_eq!(billing.instances().await?.reports[0].identity.id, "billing-7");
    /// # Ok(())
    /// # });
    /// ```
    pub async fn instances(&self) -> Result<Instances> {
        let mut events = self.coord().watch(&self.paths().instances).await?;
        let entries = match events.next().await {
            Some(Ok(WatchEvent::Snapshot { entries, .. })) => entries,
            Some(Err(error)) => return Err(error),
            _ => {
                return Err(Error::new(ErrorKind::Unexpected, "a watch did not begin with a snapshot")
                    .with_context("dir", &self.paths().instances));
            }
        };
        let mut instances = Instances { reports: Vec::new(), unreadable: Vec::new() };
        for entry in &entries {
            match InstanceReport::decode(self.paths(), entry) {
                Ok(report) => instances.reports.push(report),
                Err(error) => instances.unreadable.push(error),
            }
        }
        Ok(instances)
    }
}

/// What is to be reported of all layers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    layers: Vec<Running>,
    since: WallTime,
    error: Option<String>,
}

/// The reports of one consumer: one key in each namespace, as long as this lives.
#[derive(Debug)]
pub(super) struct Reporter {
    state: watch::Sender<State>,
    keys: Vec<PersistentEphemeral>,
}

impl Reporter {
    /// Begins to report, in the background: that the instance is there, and runs nothing yet.
    pub(super) fn open(keeper: &SessionKeeper, identity: &Identity, layers: &Layers) -> Result<Self> {
        let nothing = layers.names().map(Running::nothing).collect();
        let state = State { layers: nothing, since: WallTime::now(), error: None };
        let (told, states) = watch::channel(state.clone());
        let mut keys = Vec::new();
        for (at, namespace) in layers.iter().enumerate() {
            let value = write(&report(identity, &state, at))?;
            let key = PersistentEphemeral::new(keeper, namespace.paths().instance(&identity.id)?, value)?;
            keeper.coord().runtime().spawn(tell(key.clone(), identity.clone(), at, states.clone()));
            keys.push(key);
        }
        Ok(Self { state: told, keys })
    }

    /// Reports this, if it is new.
    pub(super) fn tell(&self, status: &Status) {
        let error = status.error.as_ref().map(|error| error.to_string().chars().take(ERROR_MAX).collect());
        self.state.send_if_modified(|state| {
            let now =
                State { layers: status.layers.clone(), since: status.since.unwrap_or(state.since), error };
            let news = *state != now;
            *state = now;
            news
        });
    }

    /// Takes the reports back.
    pub(super) async fn close(&self) -> Result<()> {
        for key in &self.keys {
            key.close().await?;
        }
        Ok(())
    }
}

fn report(identity: &Identity, state: &State, at: usize) -> InstanceReport {
    let running = state.layers.get(at);
    InstanceReport {
        identity: identity.clone(),
        generation: running.and_then(|running| running.generation),
        release: running.and_then(|running| running.release),
        rule: running.and_then(|running| running.rule.clone()),
        since: state.since,
        error: state.error.clone(),
    }
}

/// Writes each state to one key, the last of several that come quickly; ends with the reporter.
async fn tell(key: PersistentEphemeral, identity: Identity, at: usize, mut states: watch::Receiver<State>) {
    while states.changed().await.is_ok() {
        let state = states.borrow_and_update().clone();
        let written = async {
            let value = write(&report(&identity, &state, at))?;
            key.set(value).await
        };
        tokio::select! {
            biased;
            written = written => if let Err(error) = written {
                tracing::warn!(key = %key.key(), %error, "what this instance runs cannot be reported");
            },
            // Without a session nothing is written, however long: neither the next state nor the end waits for it.
            more = states.changed() => match more {
                Ok(()) => states.mark_changed(),
                Err(_) => return,
            },
        }
    }
}
