//! Setting, promoting and abandoning gray rules.

use std::collections::{BTreeMap, BTreeSet};

use coord_api::{Error, ErrorKind, Result};

use super::{Alternative, Gray, Rule, check_rules};
use crate::{
    Edit, Edited, Namespace,
    change::{Intent, Made, Plan, Planned},
    model::{Content, GrayChange, Head, Operation},
};

/// What a gray rule is to give instead of the main release.
///
/// ```
/// # use coord_config_centre::{Content, Format, GrayContent};
/// let faster = GrayContent::set([("rate", "200")]).remove("limit");
/// let other = GrayContent::whole(Content::document(Format::Toml, "rate = 200"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrayContent(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Items(Alternative),
    Whole(Content),
}

impl GrayContent {
    /// The items of the main release, with these values for these items.
    pub fn set<K: Into<String>, V: Into<String>>(items: impl IntoIterator<Item = (K, V)>) -> Self {
        let set = items.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        Self(Kind::Items(Alternative::Items { set, remove: BTreeSet::new() }))
    }

    /// The same without this item. Instead of a whole document it gives the items without it.
    #[must_use]
    pub fn remove(self, item: impl Into<String>) -> Self {
        let (mut set, mut remove) = match self.0 {
            Kind::Items(Alternative::Items { set, remove }) => (set, remove),
            _ => (BTreeMap::new(), BTreeSet::new()),
        };
        let item = item.into();
        set.remove(&item);
        remove.insert(item);
        Self(Kind::Items(Alternative::Items { set, remove }))
    }

    /// This document, whole, instead of the document of the main release.
    #[must_use]
    pub const fn whole(document: Content) -> Self {
        Self(Kind::Whole(document))
    }
}

impl Namespace {
    /// Adds a gray rule, or replaces the rule of the same id, and says what it gives. The main release must be there.
    ///
    /// A rule over items gives the main release with some items changed, so what is published later shows through. A
    /// rule over a document gives another document, whole. Rules are judged by each consumer for itself; what a rule
    /// gives to others is no secret.
    ///
    /// Costs as much as [`publish`](Self::publish), and a round trip for a main release not read lately.
    ///
    /// ```
    /// # coord_backend_memory::doc_example(async |store| {
    /// use coord_config_centre::{ConfigCentre, Content, Edit, GrayContent, Identity, Rule};
    ///
    /// let billing = ConfigCentre::new(&store, "/config")?.namespace("billing")?;
    /// let ann = Edit::by("ann");
    /// billing.publish(Content::items([("rate", "100"), ("zone", "eu")]), &ann).await?.done()?;
    ///
    /// let canary = Rule::new("canary").with_label("track", "canary");
    /// billing.set_gray(canary, GrayContent::set([("rate", "200")]), &ann).await?.done()?;
    ///
    /// let one = Identity::new("i-1").with_label("track", "canary");
    /// let given = billing.content_for(&one).await?.expect("it was published");
    /// assert_eq!((given.item("rate"), given.item("zone")), (Some("200"), Some("eu")));
    ///
    /// billing.promote("canary", &ann).await?.done()?;
    /// assert_eq!(billing.get("rate").await?.as_deref(), Some("200"));
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument), with the rule, if it or another one could match nothing, gives
    /// nothing, or gives items instead of a document or the other way round; [`NotFound`](ErrorKind::NotFound) if nothing
    /// was published; [`LimitExceeded`](ErrorKind::LimitExceeded) for more than 64 rules, or more than 64 KiB of them; as
    /// [`publish`](Self::publish).
    ///
    /// # Cancel safety
    /// As [`publish`](Self::publish).
    pub async fn set_gray(&self, rule: Rule, gives: GrayContent, edit: &Edit) -> Result<Edited> {
        self.change(Intent::SetGray(rule, Some(gives)), edit).await
    }

    /// Replaces the conditions of the rule of the same id, which gives what it gave before: to widen it, for example.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) if there is no such rule; as [`set_gray`](Self::set_gray).
    ///
    /// # Cancel safety
    /// As [`publish`](Self::publish).
    pub async fn set_rule(&self, rule: Rule, edit: &Edit) -> Result<Edited> {
        self.change(Intent::SetGray(rule, None), edit).await
    }

    /// Gives to everybody what the rule gives to some, and removes the rule: one transaction.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) if there is no such rule; as [`publish`](Self::publish).
    ///
    /// # Cancel safety
    /// As [`publish`](Self::publish).
    pub async fn promote(&self, rule: &str, edit: &Edit) -> Result<Edited> {
        self.change(Intent::Promote(rule.to_owned()), edit).await
    }

    /// Removes the rule; who fell under it sees the main release again, or what the next rule gives.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) if there is no such rule; as [`publish`](Self::publish).
    ///
    /// # Cancel safety
    /// As [`publish`](Self::publish).
    pub async fn abandon(&self, rule: &str, edit: &Edit) -> Result<Edited> {
        self.change(Intent::Abandon(rule.to_owned()), edit).await
    }

    pub(crate) async fn plan_gray(
        &self,
        rule: &Rule,
        gives: Option<&GrayContent>,
        edit: &Edit,
        head: &Head,
    ) -> Result<Planned> {
        let before = head.grays.iter().find(|gray| gray.rule.id == rule.id);
        let (change, made) = match (gives, before) {
            (Some(gives), _) => self.alternative(gives, before, edit, head)?,
            (None, Some(before)) => (before.change.clone(), None),
            (None, None) => return Err(self.no_rule(&rule.id)),
        };
        let main = self.release_at(&head.main).await?;
        let after = Gray::new(rule.clone(), change);
        after.check(&main.content)?;
        if before == Some(&after) {
            return Ok(Planned::as_it_is(head));
        }
        let mut grays: Vec<_> = without(head, &rule.id).chain([after.clone()]).collect();
        check_rules(&mut grays)?;
        let gray = Some(GrayChange { before: before.cloned(), after: Some(after) });
        Ok(Plan { grays, gray, made: made.into_iter().collect(), ..Plan::to(Operation::Gray, head.main) }
            .into())
    }

    /// What a rule will give, and the release that has to be made for it.
    fn alternative(
        &self,
        gives: &GrayContent,
        before: Option<&Gray>,
        edit: &Edit,
        head: &Head,
    ) -> Result<(Alternative, Option<Made>)> {
        let content = match &gives.0 {
            Kind::Items(items) => return Ok((items.clone(), None)),
            Kind::Whole(content) => content,
        };
        content.validate()?;
        match before.map(|gray| &gray.change) {
            Some(Alternative::Release(known)) if known.content_sha256 == content.digest() => {
                Ok((Alternative::Release(*known), None))
            }
            _ => {
                let made = self.make(content.clone(), edit.provenance(), Some(head))?;
                Ok((Alternative::Release(made.named), Some(made)))
            }
        }
    }

    pub(crate) async fn plan_promote(&self, rule: &str, edit: &Edit, head: &Head) -> Result<Planned> {
        let (before, grays) = self.taken_out(rule, head)?;
        let op = Operation::Promote;
        let plan = match &before.change {
            Alternative::Release(release) => Plan { needs: Some(release.version), ..Plan::to(op, *release) },
            change @ Alternative::Items { .. } => {
                let content = change.over(&self.release_at(&head.main).await?.content);
                if content.digest() == head.main.content_sha256 {
                    Plan::to(op, head.main)
                } else {
                    let made = self.make(content, edit.provenance(), Some(head))?;
                    Plan::to(op, made.named).with(made)
                }
            }
        };
        let gray = Some(GrayChange { before: Some(before), after: None });
        Ok(Plan { grays, gray, ..plan }.into())
    }

    pub(crate) fn plan_abandon(&self, rule: &str, head: &Head) -> Result<Planned> {
        let (before, grays) = self.taken_out(rule, head)?;
        let gray = Some(GrayChange { before: Some(before), after: None });
        Ok(Plan { grays, gray, ..Plan::to(Operation::Abandon, head.main) }.into())
    }

    /// The rule, and all others.
    fn taken_out(&self, rule: &str, head: &Head) -> Result<(Gray, Vec<Gray>)> {
        let before = head.grays.iter().find(|gray| gray.rule.id == rule).cloned();
        Ok((before.ok_or_else(|| self.no_rule(rule))?, without(head, rule).collect()))
    }

    fn no_rule(&self, rule: &str) -> Error {
        Error::new(ErrorKind::NotFound, "there is no such gray rule")
            .with_context("key", &self.paths().head)
            .with_context("rule", rule)
    }
}

fn without(head: &Head, rule: &str) -> impl Iterator<Item = Gray> {
    head.grays.iter().filter(move |gray| gray.rule.id != rule).cloned()
}
