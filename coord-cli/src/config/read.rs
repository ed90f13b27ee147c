//! `ls`, `get`, `history`, `diff`, `verify`, `instances`.

use coord::config_centre::{Content, Diff, Side};
use coord::{Error, ErrorKind};
use serde_json::{Value, json};

use super::{
    Context,
    args::{DiffArgs, GetArgs, HistoryArgs, NamespaceArgs},
    show::logged,
};
use crate::{Failure, Format, code, exit::say, output::Output, output::printable_text};

fn header(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Writes rows as they were asked for: a table, one JSON document, or one object a line.
pub(super) fn rows(
    out: &mut Output<'_>,
    names: &[&str],
    objects: Vec<Value>,
    row: impl Fn(&Value) -> Vec<String>,
) -> Result<(), Failure> {
    match out.format() {
        Format::Json => out.json(&objects.into())?,
        Format::Jsonl => {
            for object in &objects {
                out.json(object)?;
            }
        }
        Format::Table => {
            let rows: Vec<_> = [header(names)].into_iter().chain(objects.iter().map(row)).collect();
            out.table(&rows)?;
        }
        Format::Auto | Format::Plain => {
            for object in &objects {
                out.line(&row(object).join("\t"))?;
            }
        }
    }
    Ok(())
}

/// A field as a cell: text without its quotes, `-` for nothing.
pub(super) fn cell(object: &Value, field: &str) -> String {
    match &object[field] {
        Value::Null => "-".to_owned(),
        Value::String(text) => printable_text(text),
        other => other.to_string(),
    }
}

impl Context {
    pub(super) async fn ls(&self, out: &mut Output<'_>) -> Result<u8, Failure> {
        let names =
            self.centre.namespaces().await?.into_iter().map(|name| json!({ "namespace": name })).collect();
        rows(out, &["NAMESPACE"], names, |object| vec![cell(object, "namespace")])?;
        Ok(code::YES)
    }

    pub(super) async fn get(&self, out: &mut Output<'_>, args: &GetArgs) -> Result<u8, Failure> {
        let Some((content, facts)) = self.find(args).await? else {
            return Ok(nothing_in(&args.namespace));
        };
        let Some(item) = &args.item else {
            self.content(out, &content, facts)?;
            return Ok(code::YES);
        };
        let Some(value) = content.item(item) else {
            say(&format!("{} is absent", printable_text(item)));
            return Ok(code::NO);
        };
        let value = self.shown_value(item, value);
        match out.format() {
            Format::Json | Format::Jsonl => {
                let mut document = facts;
                document["item"] = json!(item);
                document["value"] = json!(value);
                out.json(&document)?;
            }
            Format::Table => out.line(&printable_text(&value))?,
            // The value and nothing else, so that a script has what was published.
            Format::Auto | Format::Plain => out.bytes(value.as_bytes())?,
        }
        Ok(code::YES)
    }

    /// What is asked for: what an instance sees, or the main release.
    async fn find(&self, args: &GetArgs) -> Result<Option<(Content, Value)>, Failure> {
        if args.view.id.is_some() {
            let layers = self.layers(&args.below, &args.namespace)?;
            let configuration = self.configuration(layers, args.view.identity()).await?;
            return Ok(configuration
                .map(|found| (found.content().clone(), json!({ "layers": super::show::layers(&found) }))));
        }
        let namespace = self.namespace(&args.namespace)?;
        let Some(current) = namespace.current().await? else { return Ok(None) };
        let facts = json!({
            "namespace": args.namespace,
            "generation": current.generation().get(),
            "release": current.release.version.get(),
            "by": current.release.made.by,
            "at": current.release.made.at.to_string(),
            "note": current.release.made.note,
        });
        Ok(Some((self.opened(&args.namespace, current.content())?, facts)))
    }

    /// The content with its encrypted values opened, if there is a key.
    fn opened(&self, namespace: &str, content: &Content) -> Result<Content, Failure> {
        let (Some(keyring), Content::Items(items)) = (&self.keyring, content) else {
            return Ok(content.clone());
        };
        let open = |(key, value): (&String, &String)| {
            keyring.open(namespace, key, value).map(|value| (key.clone(), value))
        };
        Ok(Content::items(items.iter().map(open).collect::<coord::Result<Vec<_>>>()?))
    }

    pub(super) async fn history(&self, out: &mut Output<'_>, args: &HistoryArgs) -> Result<u8, Failure> {
        let history = self.namespace(&args.namespace)?.history(args.limit).await?;
        let entries = history.entries.iter().map(logged).collect();
        let fields = ["generation", "op", "from", "to", "rule", "by", "at", "note"];
        let names = ["GENERATION", "OP", "FROM", "TO", "RULE", "BY", "AT", "NOTE"];
        rows(out, &names, entries, |entry| fields.map(|field| cell(entry, field)).to_vec())?;
        for error in &history.unreadable {
            say(&error.to_string());
        }
        if history.entries.is_empty() && history.unreadable.is_empty() {
            return Ok(nothing_in(&args.namespace));
        }
        Ok(if history.entries.is_empty() { code::NO } else { code::YES })
    }

    pub(super) async fn diff(&self, out: &mut Output<'_>, args: &DiffArgs) -> Result<u8, Failure> {
        let namespace = self.namespace(&args.namespace)?;
        let to = match args.to {
            Some(to) => to,
            None => {
                let head = namespace.head().await?;
                let absent = || Error::new(ErrorKind::NotFound, "nothing was published in the namespace yet");
                head.ok_or_else(absent)?.main.version
            }
        };
        let (before, after) = (namespace.release(args.from).await?, namespace.release(to).await?);
        if before.content == after.content {
            say("they hold the same");
            return Ok(code::YES);
        }
        // Compared as they are: where only a secret differs, the line says so and hides both values.
        match Diff::between(&before.content, &after.content) {
            Diff::Items(items) => {
                let shown = |value: Option<&String>, key: &str| {
                    value.map(|value| self.shown_value(key, value).into_owned())
                };
                let items = items.iter().map(|item| {
                    json!({
                        "item": item.key,
                        "before": shown(item.before.as_ref(), &item.key),
                        "after": shown(item.after.as_ref(), &item.key),
                    })
                });
                rows(out, &["ITEM", "BEFORE", "AFTER"], items.collect(), |item| {
                    ["item", "before", "after"].map(|field| cell(item, field)).to_vec()
                })?;
            }
            Diff::Lines(_) => self.lines(out, &self.shown(&before.content), &self.shown(&after.content))?,
            Diff::Kind { from, to } => {
                rows(out, &["BEFORE", "AFTER"], vec![json!({ "before": from, "after": to })], |kinds| {
                    ["before", "after"].map(|field| cell(kinds, field)).to_vec()
                })?;
            }
            _ => {}
        }
        Ok(code::NO)
    }

    /// The lines of two documents as they may be shown.
    fn lines(&self, out: &mut Output<'_>, before: &Content, after: &Content) -> Result<(), Failure> {
        if before == after {
            say("they differ in masked values only");
        }
        let Diff::Lines(lines) = Diff::between(before, after) else { return Ok(()) };
        let objects = lines.iter().map(|line| {
            let side = match line.side {
                Side::Before => "-",
                Side::After => "+",
                Side::Both => " ",
            };
            json!({ "side": side, "line": line.text.trim_end_matches('\n') })
        });
        match out.format() {
            Format::Json | Format::Jsonl => rows(out, &[], objects.collect(), |_| Vec::new()),
            _ => {
                for line in objects {
                    out.line(&format!("{}{}", cell(&line, "side"), cell(&line, "line")))?;
                }
                Ok(())
            }
        }
    }

    pub(super) async fn verify(&self, out: &mut Output<'_>, args: &NamespaceArgs) -> Result<u8, Failure> {
        let audit = self.namespace(&args.namespace)?.verify().await?;
        // Not in order: a name that is misspelt has nothing wrong with it, either.
        if audit.last.is_none() && audit.entries == 0 && audit.broken.is_none() {
            return Ok(nothing_in(&args.namespace));
        }
        let object = json!({
            "namespace": args.namespace,
            "first": audit.first.get(),
            "last": audit.last.map(|last| last.get()),
            "entries": audit.entries,
            "releases": audit.releases,
            "key": audit.broken.as_ref().map(|broken| broken.key.as_str()),
            "broken": audit.broken.as_ref().map(|broken| broken.why),
        });
        let fields = ["first", "last", "entries", "releases", "broken", "key"];
        rows(out, &["FIRST", "LAST", "ENTRIES", "RELEASES", "BROKEN", "KEY"], vec![object], |audit| {
            fields.map(|field| cell(audit, field)).to_vec()
        })?;
        Ok(if audit.broken.is_some() { code::NO } else { code::YES })
    }

    pub(super) async fn instances(&self, out: &mut Output<'_>, args: &NamespaceArgs) -> Result<u8, Failure> {
        let instances = self.namespace(&args.namespace)?.instances().await?;
        let objects = instances.reports.iter().map(|report| {
            json!({
                "id": report.identity.id,
                "ip": report.identity.ip,
                "labels": report.identity.labels,
                "generation": report.generation.map(|generation| generation.get()),
                "release": report.release.map(|release| release.get()),
                "rule": report.rule,
                "age_seconds": report.age().as_secs(),
                "error": report.error,
            })
        });
        let fields = ["id", "ip", "generation", "release", "rule", "age_seconds", "error"];
        let names = ["ID", "IP", "GENERATION", "RELEASE", "RULE", "AGE (S)", "ERROR"];
        rows(out, &names, objects.collect(), |report| fields.map(|field| cell(report, field)).to_vec())?;
        for error in &instances.unreadable {
            say(&error.to_string());
        }
        Ok(code::YES)
    }
}

/// Tells that there is nothing, and gives the exit code.
fn nothing_in(namespace: &str) -> u8 {
    say(&format!("nothing was published in {}", printable_text(namespace)));
    code::NO
}
