//! `get`, `put`, `ls` and `del`.

use std::io::IsTerminal;

use coord::{Coord, Entry, Lifetime, Version, Written};
use serde_json::json;

use crate::{
    Failure, Format,
    args::{DelArgs, DirArgs, GetArgs, PutArgs},
    code,
    exit::say,
    input::stdin,
    output::{Output, entry, printable, printable_text},
};

pub(crate) async fn get(coord: &Coord, out: &mut Output<'_>, args: &GetArgs) -> Result<u8, Failure> {
    let Some(found) = coord.get(args.key.as_str()).await? else {
        say(&format!("{} is absent", printable_text(&args.key)));
        return Ok(code::NO);
    };
    match out.format() {
        Format::Json | Format::Jsonl => out.json(&entry(&found).into())?,
        Format::Table => out.table(&[head(&ENTRY), row(&found)])?,
        Format::Auto | Format::Plain => {
            // The bytes and nothing else, so that a file comes back as it went in.
            out.bytes(&found.value)?;
            if std::io::stdout().is_terminal() {
                out.line("")?;
            }
        }
    }
    Ok(code::YES)
}

const ENTRY: [&str; 6] = ["KEY", "VERSION", "CREATED", "MODIFIED", "OWNER", "VALUE"];

fn head(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn row(entry: &Entry) -> Vec<String> {
    vec![
        printable_text(entry.key.as_str()),
        entry.meta.version.to_string(),
        entry.meta.created.to_string(),
        entry.meta.modified.to_string(),
        entry.meta.owner.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
        printable(&entry.value),
    ]
}

pub(crate) async fn put(coord: &Coord, out: &mut Output<'_>, args: PutArgs) -> Result<u8, Failure> {
    let value = match args.value {
        Some(text) if text != "-" => text.into_bytes(),
        _ => stdin("the value")?,
    };
    let key = args.key.as_str();
    let written = match args.version {
        Some(version) => coord.compare_and_set(key, Version::new(version), value).await?,
        None if args.create => coord.create(key, value, Lifetime::Persistent).await?,
        None => Some(coord.put(key, value).await?),
    };
    let Some(Written { revision, version, .. }) = written else {
        let otherwise = match args.version {
            // For people only: it may be another one a moment later.
            Some(asked) => match coord.get(key).await {
                Ok(Some(now)) => format!("is in version {}, not {asked}", now.meta.version),
                Ok(None) => "is absent".to_owned(),
                Err(_) => format!("is not in version {asked}"),
            },
            None => "exists already".to_owned(),
        };
        say(&format!("{} {otherwise}; nothing was written", printable_text(key)));
        return Ok(code::CONFLICT);
    };
    match out.format() {
        Format::Json | Format::Jsonl => {
            out.json(&json!({ "key": args.key, "revision": revision.get(), "version": version.get() }))?;
        }
        Format::Table => out.table(&[
            head(&["KEY", "VERSION", "REVISION"]),
            vec![printable_text(key), version.to_string(), revision.to_string()],
        ])?,
        Format::Auto | Format::Plain => out.line(&version.to_string())?,
    }
    Ok(code::YES)
}

pub(crate) async fn ls(coord: &Coord, out: &mut Output<'_>, args: &DirArgs) -> Result<u8, Failure> {
    let listing = coord.list(args.dir.as_str()).await?;
    let children = || {
        listing.children.iter().map(|child| {
            json!({
                "key": child.key.as_str(),
                "tag": child.tag.as_ref().map(ToString::to_string),
                "nonce": child.nonce.map(|nonce| nonce.to_string()),
            })
        })
    };
    match out.format() {
        Format::Json => out.json(&json!({
            "dir": args.dir,
            "revision": listing.revision.get(),
            "children": children().collect::<Vec<_>>(),
        }))?,
        Format::Jsonl => {
            for child in children() {
                out.json(&child)?;
            }
        }
        Format::Table => {
            let mut rows = vec![head(&["KEY", "PLACE IN LINE"])];
            rows.extend(listing.children.iter().map(|child| {
                let place = child.tag.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
                vec![printable_text(child.key.as_str()), place]
            }));
            out.table(&rows)?;
        }
        Format::Auto | Format::Plain => {
            for child in &listing.children {
                out.line(&printable_text(child.key.as_str()))?;
            }
        }
    }
    Ok(code::YES)
}

pub(crate) async fn del(coord: &Coord, out: &mut Output<'_>, args: &DelArgs) -> Result<u8, Failure> {
    let key = args.key.as_str();
    let code = match args.version {
        None if coord.delete(key).await? => code::YES,
        None => code::NO,
        Some(version) if coord.delete_version(key, Version::new(version)).await? => code::YES,
        // Refused: absent, or in another version. The answer may be another one a moment later.
        Some(_) if coord.get(key).await?.is_none() => code::NO,
        Some(_) => code::CONFLICT,
    };
    match code {
        code::NO => say(&format!("{} is absent", printable_text(key))),
        code::CONFLICT => say(&format!("{} is in another version; nothing was deleted", printable_text(key))),
        _ => {}
    }
    if matches!(out.format(), Format::Json | Format::Jsonl) {
        out.json(&json!({ "key": args.key, "deleted": code == code::YES }))?;
    }
    Ok(code)
}
