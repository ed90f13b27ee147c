//! From one centre to another, or into files and back.

mod archive;
mod bundle;
mod dir;
mod files;
mod restore;

use coord_api::{Error, ErrorKind, Result};

use crate::{ConfigCentre, Edit, Edited, Expected, Generation, Namespace, change::Intent, model::Head};

pub use bundle::Bundle;
pub(crate) use bundle::Exported;

/// What an import does with a namespace that is there already and holds something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// Nothing at all is imported.
    #[default]
    Abort,
    /// It stays as it is.
    Skip,
    /// It is given what the bundle has, as a new generation: what was there stays in its history.
    Overwrite,
}

/// How to import.
#[derive(Clone, Debug)]
#[must_use = "an import does nothing until it is used"]
pub struct Import {
    edit: Edit,
    on_conflict: OnConflict,
    dry_run: bool,
}

impl Import {
    /// By this author; aborting where something else is there.
    pub fn by(author: impl Into<String>) -> Self {
        Self { edit: Edit::by(author), on_conflict: OnConflict::Abort, dry_run: false }
    }

    /// The same with a note for the history. The releases keep the authors and notes of the bundle.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.edit = self.edit.note(note);
        self
    }

    /// The same, doing this where something else is there.
    pub const fn on_conflict(mut self, on_conflict: OnConflict) -> Self {
        self.on_conflict = on_conflict;
        self
    }

    /// The same, only telling what would be done. All is checked as if it were.
    pub const fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }
}

/// What became of one namespace of an import, or would become of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imported {
    /// The namespace.
    pub namespace: String,
    /// What was done.
    pub outcome: ImportOutcome,
    /// The generation that was there; `None` if there was nothing.
    pub before: Option<Generation>,
}

/// What an import did with a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImportOutcome {
    /// It was not there, and is now.
    Created,
    /// It held something else, and holds what the bundle has now.
    Overwritten,
    /// It holds something else, and was left alone.
    Skipped,
    /// It holds this already.
    Unchanged,
}

impl ImportOutcome {
    /// The name in lower case: `created`, `overwritten`, `skipped`, `unchanged`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Overwritten => "overwritten",
            Self::Skipped => "skipped",
            Self::Unchanged => "unchanged",
        }
    }
}

/// What is to be done with one namespace, decided on what was found.
struct Decided<'b> {
    namespace: Namespace,
    exported: &'b Exported,
    found: Option<Head>,
    outcome: ImportOutcome,
}

impl ConfigCentre {
    /// What these namespaces hold now, each as of one generation.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) with the first namespace in which nothing was published; as
    /// [`Namespace::current`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn export<N: AsRef<str>>(&self, namespaces: impl IntoIterator<Item = N>) -> Result<Bundle> {
        let names: Vec<String> = namespaces.into_iter().map(|name| name.as_ref().to_owned()).collect();
        let mut bundle = Bundle::default();
        for name in names {
            let exported = self.namespace(&name)?.export().await?;
            let exported = exported.ok_or_else(|| {
                Error::new(ErrorKind::NotFound, "nothing was published in the namespace yet")
                    .with_context("namespace", &name)
            })?;
            bundle.namespaces.insert(name, exported);
        }
        Ok(bundle)
    }

    /// Publishes what is in the bundle, each namespace as one generation: content, authors, notes and gray rules.
    ///
    /// All namespaces are looked at and checked before the first is written. Each is then written only if it is still as
    /// it was found. The answer has one line for each namespace, in the order of their names.
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict) with the namespaces that hold something else, where the import is to
    /// [abort](OnConflict::Abort), and with the one that somebody changed meanwhile: those before it in the order of
    /// names are imported then, and importing once more finds them unchanged. As [`Namespace::publish`], with the
    /// namespace, for content and rules that cannot be published; nothing is imported then.
    ///
    /// # Cancel safety
    /// If the future is dropped, some namespaces may have been imported, each of them whole.
    pub async fn import(&self, bundle: &Bundle, import: Import) -> Result<Vec<Imported>> {
        let mut decided = Vec::new();
        for (name, exported) in &bundle.namespaces {
            let namespace = self.namespace(name)?;
            let checked = self.decide(namespace, exported, &import).await;
            decided.push(checked.map_err(|error| error.with_context("namespace", name))?);
        }
        let in_the_way: Vec<_> = decided
            .iter()
            .filter(|decided| decided.outcome == ImportOutcome::Overwritten)
            .map(|decided| decided.namespace.name())
            .collect();
        if import.on_conflict == OnConflict::Abort && !in_the_way.is_empty() {
            return Err(Error::new(ErrorKind::Conflict, "something else is there; nothing was imported")
                .with_context("namespaces", in_the_way.join(", ")));
        }
        let mut imported = Vec::new();
        for decided in decided {
            let before = decided.found.as_ref().map(|head| head.generation);
            let writes = matches!(decided.outcome, ImportOutcome::Created | ImportOutcome::Overwritten);
            if writes && !import.dry_run {
                let expected = before.map_or(Expected::Nothing, Expected::Generation);
                let edit = import.edit.clone().expecting(expected);
                let intent = Intent::Restore(Box::new(decided.exported.clone()));
                if let Edited::Conflict(conflict) = decided.namespace.change(intent, &edit).await? {
                    return Err(Error::from(conflict).with_context("namespace", decided.namespace.name()));
                }
            }
            let namespace = decided.namespace.name().to_owned();
            imported.push(Imported { namespace, outcome: decided.outcome, before });
        }
        Ok(imported)
    }

    async fn decide<'b>(
        &self,
        namespace: Namespace,
        exported: &'b Exported,
        import: &Import,
    ) -> Result<Decided<'b>> {
        let found = namespace.head().await?;
        // Also where it will be skipped: a bundle is good or not, whatever is there.
        namespace.plan_restore(exported, &import.edit, found.as_ref())?;
        let outcome = match &found {
            None => ImportOutcome::Created,
            Some(_) if namespace.export().await?.is_some_and(|there| exported.is_in(&there)) => {
                ImportOutcome::Unchanged
            }
            Some(_) if import.on_conflict == OnConflict::Skip => ImportOutcome::Skipped,
            Some(_) => ImportOutcome::Overwritten,
        };
        Ok(Decided { namespace, exported, found, outcome })
    }
}
