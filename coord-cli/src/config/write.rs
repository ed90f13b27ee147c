//! `set`, `publish`, `rollback`.

use std::path::Path;

use coord::config_centre::{Content, Expected, Format as Document, looks_secret};
use coord::{Error, ErrorKind};

use super::{
    Context,
    args::{ContentFormat, PublishArgs, RollbackArgs, SetArgs},
    edit,
    show::edited,
};
use crate::{Failure, exit::say, input::stdin, output::Output};

impl Context {
    pub(super) async fn set(&self, out: &mut Output<'_>, args: &SetArgs) -> Result<u8, Failure> {
        let namespace = self.namespace(&args.namespace)?;
        let current = namespace.current().await?;
        let mut items = match current.as_ref().map(|current| current.content()) {
            Some(Content::Items(items)) => items.clone(),
            Some(Content::Document { .. }) => {
                return Err(Error::invalid("the namespace holds a document: publish it whole")
                    .with_context("namespace", &args.namespace)
                    .into());
            }
            None => Default::default(),
        };
        for key in &args.remove {
            if items.remove(key).is_none() {
                let absent =
                    Error::new(ErrorKind::NotFound, "there is no such item").with_context("item", key);
                return Err(absent.into());
            }
        }
        for (key, value) in &args.items {
            let value = match &self.keyring {
                Some(keyring) if looks_secret(key) => keyring.seal(&args.namespace, key, value)?,
                _ => value.clone(),
            };
            items.insert(key.clone(), value);
        }
        // What was read is what is changed: nobody's change in between is undone.
        let seen = current.map_or(Expected::Nothing, |current| current.generation().into());
        let mut edit = edit(&args.edit);
        if args.edit.expect.is_none() {
            edit = edit.expecting(seen);
        }
        let done = namespace.publish(Content::Items(items), &edit).await?;
        Ok(edited(out, &args.namespace, done)?.0)
    }

    pub(super) async fn publish(&self, out: &mut Output<'_>, args: &PublishArgs) -> Result<u8, Failure> {
        let content = content(&args.file, args.format)?;
        let done = self.namespace(&args.namespace)?.publish(content, &edit(&args.edit)).await?;
        Ok(edited(out, &args.namespace, done)?.0)
    }

    pub(super) async fn rollback(&self, out: &mut Output<'_>, args: &RollbackArgs) -> Result<u8, Failure> {
        let namespace = self.namespace(&args.namespace)?;
        let done = namespace.rollback(args.to, &edit(&args.edit)).await?;
        let (code, head) = edited(out, &args.namespace, done)?;
        say(&format!("release {} takes effect now; nothing more to press", head.main.version));
        if namespace.draft().await.is_ok_and(|draft| draft.is_some()) {
            say("the draft is untouched: it is not what runs");
        }
        Ok(code)
    }
}

/// Reads what is to be published.
pub(super) fn content(file: &Path, format: Option<ContentFormat>) -> Result<Content, Failure> {
    let name = file.display();
    let format = match format.or_else(|| by_name(file)) {
        Some(format) => format,
        None => {
            return Err(Failure::Setup(format!(
                "what is {name}? Say --format items, json, yaml, toml or text"
            )));
        }
    };
    let read = if file == Path::new("-") { stdin("the content") } else { std::fs::read(file) };
    let bytes = read.map_err(|error| Failure::Setup(format!("{name}: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|_| Failure::Setup(format!("{name} is no text")))?;
    let document = |format| Ok(Content::document(format, text.as_str()));
    match format {
        ContentFormat::Json => document(Document::Json),
        ContentFormat::Yaml => document(Document::Yaml),
        ContentFormat::Toml => document(Document::Toml),
        ContentFormat::Text => document(Document::Text),
        // The error of the parser may quote a value, which may be a secret; the place is enough.
        ContentFormat::Items => serde_json::from_str(&text).map(Content::Items).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            Failure::Setup(format!(
                "{name}, line {line}, column {column}: items are one JSON object of texts"
            ))
        }),
    }
}

fn by_name(file: &Path) -> Option<ContentFormat> {
    match file.extension()?.to_str()? {
        "json" => Some(ContentFormat::Json),
        "yaml" | "yml" => Some(ContentFormat::Yaml),
        "toml" => Some(ContentFormat::Toml),
        "txt" => Some(ContentFormat::Text),
        _ => None,
    }
}
