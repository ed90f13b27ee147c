//! How contents, heads and the like are shown.

use std::borrow::Cow;

use coord::config_centre::{
    Configuration, Content, Edited, Head, LogEntry, Rule, Running, mask_content, masked,
};
use serde_json::{Map, Value, json};

use super::Context;
use crate::{Failure, Format, code, output::Output, output::printable_text};

impl Context {
    /// The content as it may be shown.
    pub(super) fn shown<'c>(&self, content: &'c Content) -> Cow<'c, Content> {
        if self.show_secrets { Cow::Borrowed(content) } else { Cow::Owned(mask_content(content)) }
    }

    /// One value as it may be shown.
    pub(super) fn shown_value<'v>(&self, key: &str, value: &'v str) -> Cow<'v, str> {
        if self.show_secrets { Cow::Borrowed(value) } else { masked(key, value) }
    }

    /// Writes a content: items as a table or `key=value`, a document as it is.
    pub(super) fn content(
        &self,
        out: &mut Output<'_>,
        content: &Content,
        facts: Value,
    ) -> Result<(), Failure> {
        let shown = self.shown(content);
        match (out.format(), &*shown) {
            (Format::Json | Format::Jsonl, shown) => {
                let mut document = match facts {
                    Value::Object(facts) => facts,
                    _ => Map::new(),
                };
                document.extend(fields(shown));
                out.json(&document.into())?;
            }
            (Format::Table, Content::Items(items)) => {
                let mut rows = vec![vec!["KEY".to_owned(), "VALUE".to_owned()]];
                rows.extend(
                    items.iter().map(|(key, value)| vec![printable_text(key), printable_text(value)]),
                );
                out.table(&rows)?;
            }
            (Format::Auto | Format::Plain, Content::Items(items)) => {
                for (key, value) in items {
                    out.line(&format!("{}={}", printable_text(key), printable_text(value)))?;
                }
            }
            (_, Content::Document { text, .. }) => out.bytes(text.as_bytes())?,
        }
        Ok(())
    }
}

/// A content as JSON: `items`, or `format` and `text`.
fn fields(content: &Content) -> Map<String, Value> {
    let value = match content {
        Content::Items(items) => json!({ "items": items }),
        Content::Document { format, text } => json!({ "format": format.as_str(), "text": text }),
    };
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// What runs of each layer.
pub(super) fn layers(configuration: &Configuration) -> Value {
    configuration.layers().iter().map(layer).collect()
}

fn layer(running: &Running) -> Value {
    json!({
        "namespace": running.namespace,
        "generation": running.generation.map(|generation| generation.get()),
        "release": running.release.map(|release| release.get()),
        "rule": running.rule,
    })
}

/// One generation of the history.
pub(super) fn logged(entry: &LogEntry) -> Value {
    let rule = entry.gray.as_ref().and_then(|change| change.after.as_ref().or(change.before.as_ref()));
    json!({
        "generation": entry.generation.get(),
        "op": entry.op.as_str(),
        "from": entry.from.map(|release| release.get()),
        "to": entry.to.version.get(),
        "rule": rule.map(|gray| &gray.rule.id),
        "by": entry.made.by,
        "at": entry.made.at.to_string(),
        "note": entry.made.note,
    })
}

/// The conditions of a rule, for people.
pub(super) fn conditions(rule: &Rule) -> String {
    let labels = rule.labels.iter().map(|(name, values)| {
        let values: Vec<_> = values.iter().map(String::as_str).collect();
        format!("{name}={}", values.join("|"))
    });
    let networks = (!rule.networks.is_empty())
        .then(|| rule.networks.iter().map(ToString::to_string).collect::<Vec<_>>().join("|"));
    let percent = rule.percent.map(|percent| percent.to_string());
    printable_text(&labels.chain(networks).chain(percent).collect::<Vec<_>>().join(" "))
}

/// What became of a change: the new head; a refusal is an error.
pub(super) fn edited(out: &mut Output<'_>, namespace: &str, edited: Edited) -> Result<(u8, Head), Failure> {
    let changed = matches!(edited, Edited::Done(_));
    let head = edited.done()?;
    match out.format() {
        Format::Json | Format::Jsonl => out.json(&json!({
            "namespace": namespace,
            "changed": changed,
            "generation": head.generation.get(),
            "release": head.main.version.get(),
        }))?,
        Format::Table => out.table(&[
            ["NAMESPACE", "GENERATION", "RELEASE", ""].map(str::to_owned).to_vec(),
            vec![
                printable_text(namespace),
                head.generation.to_string(),
                head.main.version.to_string(),
                if changed { String::new() } else { "unchanged".to_owned() },
            ],
        ])?,
        Format::Auto | Format::Plain => out.line(&head.generation.to_string())?,
    }
    Ok((code::YES, head))
}
