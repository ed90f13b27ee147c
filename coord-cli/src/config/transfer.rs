//! `import` and `export`.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
};

use coord::config_centre::{Bundle, Import};
use serde_json::json;

use super::{
    Context,
    args::{ExportArgs, ImportArgs},
    author,
    read::{cell, rows},
};
use crate::{Failure, code, exit::say, output::Output};

impl Context {
    pub(super) async fn import(&self, out: &mut Output<'_>, args: &ImportArgs) -> Result<u8, Failure> {
        let path = &args.path;
        let bundle = if path == Path::new("-") {
            Bundle::from_archive(io::stdin().lock())?
        } else if path.is_dir() {
            Bundle::from_dir(path)?
        } else {
            let file =
                File::open(path).map_err(|error| Failure::Setup(format!("{}: {error}", path.display())))?;
            Bundle::from_archive(file)?
        };
        let import =
            Import::by(author(args.by.as_deref())).note(&args.note).on_conflict(args.on_conflict.into());
        let import = if args.dry_run { import.dry_run() } else { import };
        let imported = self.centre.import(&bundle, import).await?;
        let objects = imported.iter().map(|one| {
            json!({
                "namespace": one.namespace,
                "outcome": one.outcome.as_str(),
                "before": one.before.map(|generation| generation.get()),
                "dry_run": args.dry_run,
            })
        });
        rows(out, &["NAMESPACE", "OUTCOME", "GENERATION BEFORE"], objects.collect(), |one| {
            ["namespace", "outcome", "before"].map(|field| cell(one, field)).to_vec()
        })?;
        if args.dry_run {
            say("nothing was written: this was a dry run");
        }
        Ok(code::YES)
    }

    pub(super) async fn export(&self, out: &mut Output<'_>, args: &ExportArgs) -> Result<u8, Failure> {
        let names =
            if args.namespaces.is_empty() { self.published().await? } else { args.namespaces.clone() };
        let bundle = self.centre.export(&names).await?;
        let path = &args.path;
        if path == Path::new("-") {
            out.bytes(&bundle.to_archive()?)?;
        } else if path.extension().is_some_and(|extension| extension == "tar") {
            let written = write(path, &bundle.to_archive()?);
            written.map_err(|error| Failure::Setup(format!("{}: {error}", path.display())))?;
        } else {
            bundle.to_dir(path)?;
        }
        say(&format!(
            "{} namespaces; secrets are in it as they are; drafts and instances are not",
            names.len()
        ));
        Ok(code::YES)
    }

    /// The namespaces in which something was published.
    async fn published(&self) -> Result<Vec<String>, Failure> {
        let mut published = Vec::new();
        for name in self.centre.namespaces().await? {
            if self.namespace(&name)?.head().await?.is_some() {
                published.push(name);
            }
        }
        Ok(published)
    }
}

/// A new file that only its owner may read.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(bytes)
}
