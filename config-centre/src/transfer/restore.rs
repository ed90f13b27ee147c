//! What a namespace holds, taken out whole and put back whole.

use coord_api::{ErrorKind, Result};

use super::bundle::{Exported, ExportedGray, Given};
use crate::{
    Alternative, Edit, Gray, Namespace,
    change::{Made, Plan, Planned},
    gray::check_rules,
    model::{Head, Operation},
};

/// How often a namespace is read again when a release was collected while it was read.
const TRIES: usize = 5;

impl Exported {
    /// Whether `there` is the same. What the files do not say, they do not ask for.
    pub(super) fn is_in(&self, there: &Self) -> bool {
        self.content == there.content
            && self.grays == there.grays
            && (self.made.is_none() || self.made == there.made)
    }
}

impl Namespace {
    /// What it holds now; `None` if nothing was published.
    pub(super) async fn export(&self) -> Result<Option<Exported>> {
        let mut tries = 0..TRIES;
        loop {
            let Some(head) = self.head().await? else { return Ok(None) };
            match self.export_at(&head).await {
                // Another head has come, and retention has removed a release of this one.
                Err(error) if error.kind() == ErrorKind::NotFound && tries.next().is_some() => {}
                exported => return exported.map(Some),
            }
        }
    }

    async fn export_at(&self, head: &Head) -> Result<Exported> {
        let main = self.release_at(&head.main).await?;
        let mut grays = Vec::new();
        for gray in &head.grays {
            let gives = match &gray.change {
                Alternative::Items { set, remove } => {
                    Given::Items { set: set.clone(), remove: remove.clone() }
                }
                Alternative::Release(named) => {
                    let release = self.release_at(named).await?;
                    Given::Document { made: release.made.clone(), content: release.content.clone() }
                }
            };
            grays.push(ExportedGray { rule: gray.rule.clone(), gives, unknown: Default::default() });
        }
        Ok(Exported { content: main.content.clone(), made: Some(main.made.clone()), grays })
    }

    /// A generation that holds what was exported, all of it, whatever was there.
    pub(crate) fn plan_restore(
        &self,
        exported: &Exported,
        edit: &Edit,
        found: Option<&Head>,
    ) -> Result<Planned> {
        exported.content.validate()?;
        let made = exported.made.clone().unwrap_or_else(|| edit.provenance());
        let main = self.make(exported.content.clone(), made, found)?;
        let named = main.named;
        let mut version = named.version;
        let mut releases: Vec<Made> = vec![main];
        let mut grays = Vec::new();
        for ExportedGray { rule, gives, .. } in &exported.grays {
            let change = match gives {
                Given::Items { set, remove } => {
                    Alternative::Items { set: set.clone(), remove: remove.clone() }
                }
                Given::Document { made, content } => {
                    content.validate()?;
                    version = version.next();
                    let release = self.make_as(version, content.clone(), made.clone(), found)?;
                    let named = release.named;
                    releases.push(release);
                    Alternative::Release(named)
                }
            };
            let gray = Gray::new(rule.clone(), change);
            gray.check(&exported.content)?;
            grays.push(gray);
        }
        check_rules(&mut grays)?;
        Ok(Plan { grays, made: releases, ..Plan::to(Operation::Publish, named) }.into())
    }
}
