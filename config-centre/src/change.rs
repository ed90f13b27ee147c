//! One change of a namespace: looked at, planned, and committed in one transaction.

use std::sync::Arc;

use bytes::Bytes;
use coord_api::{Check, Error, ErrorKind, Key, Lifetime, Op, Result, Txn, Version, kit::Backoff};

use crate::{
    Conflict, Digest, Edit, Edited, Expected, Gray, Namespace, Rule,
    gray::GrayContent,
    model::{
        Content, Generation, GrayChange, Head, LogEntry, Operation, Paths, Provenance, Release, ReleaseRef,
        ReleaseVersion, malformed, write,
    },
    namespace::Seen,
    releases::gone,
    settle::Settled,
    transfer::Exported,
};

/// How often a change that expects anything is tried against those of others.
const TRIES: u32 = 100;

/// What is to be changed.
#[derive(Clone, Debug)]
pub(crate) enum Intent {
    Publish(Content),
    /// The draft at this version is published, and gone.
    PublishDraft(Content, Version),
    Rollback(ReleaseVersion),
    /// With `None` the rule gives what it gave before.
    SetGray(Rule, Option<GrayContent>),
    Promote(String),
    Abandon(String),
    /// All of it, whatever was there.
    Restore(Box<Exported>),
}

/// What a change comes to.
#[derive(Debug)]
pub(crate) enum Planned {
    /// A new generation.
    Make(Box<Plan>),
    /// Nothing: it is so already.
    AsItIs(Box<Head>),
}

/// What the next generation is to be.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) op: Operation,
    pub(crate) main: ReleaseRef,
    pub(crate) grays: Vec<Gray>,
    pub(crate) gray: Option<GrayChange>,
    /// The releases that are made with it.
    pub(crate) made: Vec<Made>,
    /// A release of before that it points at, which must still be there.
    pub(crate) needs: Option<ReleaseVersion>,
    /// The anchor to be touched, for who points at a release that the head did not point at: it may be old.
    pub(crate) anchor: Option<(Bytes, Option<Version>)>,
    /// A draft that goes with it.
    pub(crate) draft: Option<Version>,
}

/// A release that is to be made.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) release: Release,
    pub(crate) bytes: Bytes,
    pub(crate) named: ReleaseRef,
}

/// A generation, ready to be committed.
pub(crate) struct Ready {
    head: Head,
    pub(crate) txn: Txn,
    made: Vec<Made>,
}

impl Namespace {
    /// Makes the change, and goes on to its end also if the caller goes away.
    pub(crate) async fn change(&self, intent: Intent, edit: &Edit) -> Result<Edited> {
        let (namespace, edit) = (self.clone(), edit.clone());
        let work = async move { Box::pin(namespace.run(&intent, &edit)).await };
        let changed = self.coord().runtime().run_here(work).await;
        changed.map_err(|error| error.with_context("namespace", self.name()))
    }

    async fn run(&self, intent: &Intent, edit: &Edit) -> Result<Edited> {
        let runtime = self.coord().runtime();
        let mut backoff = Backoff::new(self.settings().patience);
        // What this handle saw last saves a round trip, if it is what the caller has seen too, or they take anything.
        let mut base = self.last_seen().filter(|seen| edit.expected.allows(Some(&seen.head)));
        let mut fresh = base.is_none();
        if fresh {
            base = self.look().await?;
        }
        for tried in 0..TRIES {
            let found = base.as_ref().map(|seen| &seen.head);
            if !edit.expected.allows(found) {
                return Ok(self.conflict(edit.expected, base));
            }
            let planned = self.plan(intent, edit, found).await;
            if !fresh && !matches!(planned, Ok(Planned::Make(_))) {
                // Nothing is refused, and nothing left as it is, because of what was so some time ago.
                (base, fresh) = (self.look().await?, true);
                continue;
            }
            let plan = match planned? {
                Planned::Make(plan) => *plan,
                Planned::AsItIs(head) => return Ok(Edited::Unchanged(*head)),
            };
            let ready = self.ready(plan, edit, base.as_ref())?;
            let (generation, nonce) = (ready.head.generation, ready.head.nonce.clone());
            match self.settle(&ready.txn, generation, &nonce).await? {
                Settled::Landed(version) => return self.landed(ready, version),
                Settled::Refused => {}
            }
            if tried > 0 {
                // Many publish at once: they come one after the other soonest if they do not come together.
                backoff.sleep(&runtime).await;
            }
            let mut now = self.look().await?;
            if Seen::is_same(now.as_ref(), base.as_ref())
                && let Err(error) = self.in_the_way(&ready.txn).await
            {
                // Others may have made a change while it was looked for: it is theirs that was found then.
                now = self.look().await?;
                if Seen::is_same(now.as_ref(), base.as_ref()) {
                    return Err(error);
                }
            }
            (base, fresh) = (now, true);
        }
        Ok(self.conflict(edit.expected, self.look().await?))
    }

    async fn plan(&self, intent: &Intent, edit: &Edit, found: Option<&Head>) -> Result<Planned> {
        match (intent, found) {
            (Intent::Publish(content), _) => self.plan_publish(content, None, edit, found),
            (Intent::PublishDraft(content, draft), _) => {
                self.plan_publish(content, Some(*draft), edit, found)
            }
            (Intent::Restore(exported), _) => self.plan_restore(exported, edit, found),
            (_, None) => Err(Error::new(ErrorKind::NotFound, "nothing was published in the namespace yet")
                .with_context("key", &self.paths().head)),
            (Intent::Rollback(version), Some(head)) => self.plan_rollback(*version, head).await,
            (Intent::SetGray(rule, content), Some(head)) => {
                self.plan_gray(rule, content.as_ref(), edit, head).await
            }
            (Intent::Promote(rule), Some(head)) => self.plan_promote(rule, edit, head).await,
            (Intent::Abandon(rule), Some(head)) => self.plan_abandon(rule, head),
        }
    }

    fn plan_publish(
        &self,
        content: &Content,
        draft: Option<Version>,
        edit: &Edit,
        found: Option<&Head>,
    ) -> Result<Planned> {
        content.validate()?;
        if let Some(head) = found.filter(|head| head.main.content_sha256 == content.digest()) {
            return Ok(Planned::as_it_is(head));
        }
        let grays = found.map_or_else(Vec::new, |head| head.grays.clone());
        check_fit(&grays, content)?;
        let made = self.make(content.clone(), edit.provenance(), found)?;
        Ok(Plan { grays, draft, ..Plan::to(Operation::Publish, made.named).with(made) }.into())
    }

    /// A release that holds this, after all that were made.
    pub(crate) fn make(&self, content: Content, made: Provenance, found: Option<&Head>) -> Result<Made> {
        let version = found.map_or(ReleaseVersion::FIRST, |head| head.newest.next());
        self.make_as(version, content, made, found)
    }

    /// The same with this number.
    pub(crate) fn make_as(
        &self,
        version: ReleaseVersion,
        content: Content,
        made: Provenance,
        found: Option<&Head>,
    ) -> Result<Made> {
        let release = Release { version, parent: found.map(|head| head.main.version), made, content };
        let (bytes, named) = release.encode()?;
        let limit = self.settings().release_max;
        if bytes.len() > limit {
            return Err(Error::new(ErrorKind::LimitExceeded, "the release is too large")
                .with_context("key", self.paths().release(version)?)
                .with_context("bytes", bytes.len())
                .with_context("limit", limit));
        }
        Ok(Made { release, bytes, named })
    }

    /// Puts head, log entry and release into one transaction, and refuses what the store would not take.
    pub(crate) fn ready(&self, plan: Plan, edit: &Edit, base: Option<&Seen>) -> Result<Ready> {
        let (paths, before) = (self.paths(), base.map(|seen| &seen.head));
        let generation = before.map_or(Generation::FIRST, |head| head.generation.next());
        let nonce = self.coord().runtime().nonce().to_string();
        let provenance = edit.provenance();
        let entry = LogEntry {
            generation,
            op: plan.op,
            from: before.map(|head| head.main.version),
            to: plan.main,
            gray: plan.gray,
            made: provenance.clone(),
            previous_sha256: before.map(|head| head.log_sha256),
            nonce: nonce.clone(),
        };
        let logged = write(&entry)?;
        let newest = plan.made.iter().map(|made| made.release.version).max();
        let head = Head {
            generation,
            main: plan.main,
            newest: newest.or(before.map(|head| head.newest)).unwrap_or(plan.main.version),
            grays: plan.grays,
            op: plan.op,
            made: provenance,
            log_sha256: Digest::of(&logged),
            nonce,
        };
        let bytes = head.encode(&paths.head)?;
        let mut txn = match base {
            Some(seen) => {
                let update = Op::Update { key: paths.head.clone(), value: bytes };
                Txn::new().check(Check::Version(paths.head.clone(), seen.version)).op(update)
            }
            // With an anchor there was a head before, which somebody has deleted.
            None => Txn::new().create(&paths.head, bytes, Lifetime::Persistent).check_absent(&paths.anchor),
        };
        txn = txn.create(paths.entry(generation)?, logged, Lifetime::Persistent);
        for made in &plan.made {
            txn = txn.create(paths.release(made.release.version)?, made.bytes.clone(), Lifetime::Persistent);
        }
        if let Some(version) = plan.needs {
            // Retention may be at work.
            txn = txn.check_exists(paths.release(version)?);
        }
        if let Some((value, version)) = plan.anchor {
            // And must not go by the head of before.
            txn = self.write_anchor(txn, value, version);
        }
        if let Some(version) = plan.draft {
            txn = txn.check_version(&paths.draft, version).update(&paths.draft, self.no_draft(edit)?);
        }
        txn.validate(&self.coord().info().limits)?;
        Ok(Ready { head, txn, made: plan.made })
    }

    /// What is known once a change was made.
    fn landed(&self, ready: Ready, version: Option<Version>) -> Result<Edited> {
        if let Some(version) = version {
            self.remember(&Seen { version, head: ready.head.clone() });
        }
        for made in ready.made {
            self.remember_release(&made.named, Arc::new(made.release))?;
        }
        self.collect_in_background(&ready.head);
        Ok(Edited::Done(ready.head))
    }

    /// The head is as it was and the transaction was refused: something else is in its way. `Ok` if it is to be tried
    /// again: what was in the way is gone, or retention has moved the anchor.
    pub(crate) async fn in_the_way(&self, txn: &Txn) -> Result<()> {
        let Paths { head, anchor, .. } = self.paths();
        for check in txn.checks() {
            let entry = self.coord().get(check.key()).await?;
            match check {
                Check::Exists(key) if entry.is_none() => return Err(gone(key)),
                Check::Absent(key) if entry.is_some() => return Err(occupied(key)),
                Check::Version(key, _) if key == anchor => {}
                Check::Version(key, version) if entry.is_none_or(|entry| entry.meta.version != *version) => {
                    return Err(changed_meanwhile(key));
                }
                _ => {}
            }
        }
        for op in txn.ops().iter().filter(|op| op.key() != head && op.key() != anchor) {
            if matches!(op, Op::Create { .. }) && self.coord().get(op.key()).await?.is_some() {
                return Err(occupied(op.key()));
            }
        }
        Ok(())
    }

    pub(crate) fn conflict(&self, expected: Expected, found: Option<Seen>) -> Edited {
        let key = self.paths().head.clone();
        Edited::Conflict(Conflict { key, expected, current: found.map(|seen| seen.head) })
    }
}

impl Plan {
    /// This main release, without gray rules.
    pub(crate) const fn to(op: Operation, main: ReleaseRef) -> Self {
        Self {
            op,
            main,
            grays: Vec::new(),
            gray: None,
            made: Vec::new(),
            needs: None,
            anchor: None,
            draft: None,
        }
    }

    /// The same with a release that is made with it.
    pub(crate) fn with(self, made: Made) -> Self {
        Self { made: vec![made], ..self }
    }
}

impl Planned {
    /// The head asks for nothing else already.
    pub(crate) fn as_it_is(head: &Head) -> Self {
        Self::AsItIs(Box::new(head.clone()))
    }
}

impl From<Plan> for Planned {
    fn from(plan: Plan) -> Self {
        Self::Make(Box::new(plan))
    }
}

/// Refuses content to which a gray rule could not be applied.
pub(crate) fn check_fit(grays: &[Gray], content: &Content) -> Result<()> {
    let Some(gray) = grays.iter().find(|gray| !gray.change.fits(content)) else { return Ok(()) };
    let message = "a gray rule is for content of another kind; promote or abandon it first";
    Err(Error::invalid(message).with_context("rule", &gray.rule.id).with_context("kind", content.kind()))
}

/// A key that would be ours, and was written by somebody else, or is left of a head that was deleted.
fn occupied(key: &Key) -> Error {
    malformed(key, "nothing yet", "there is something where the next generation belongs")
}

fn changed_meanwhile(key: &Key) -> Error {
    Error::new(ErrorKind::Conflict, "somebody else changed it first").with_context("key", key)
}
