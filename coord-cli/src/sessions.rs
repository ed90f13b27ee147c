//! `sessions`: who is alive, as far as their keys tell.

use std::collections::BTreeMap;

use coord::{Coord, Dir, Freshness, Key, SessionId, config_centre::WallTime};
use serde_json::{Value, json};

use crate::{
    Failure, Format, age,
    args::DirArgs,
    code,
    output::{Output, printable_text},
    walk::{Found, walk},
};

/// Lists the owners of keys in a directory and below; exit 1 if there are none.
pub(crate) async fn sessions(coord: Coord, out: &mut Output<'_>, args: &DirArgs) -> Result<u8, Failure> {
    let coord = coord.with_freshness(Freshness::Latest);
    let keys = walk(&coord, &Dir::parse(&args.dir)?, |_| ()).await?;
    let mut owners: BTreeMap<SessionId, Vec<(Key, Found)>> = BTreeMap::new();
    for (key, mut found) in keys {
        if let Some(owner) = found.owner.take() {
            owners.entry(owner).or_default().push((key, found));
        }
    }
    let now = WallTime::now();
    let objects = owners.iter().map(|(session, keys)| {
        let keys: Vec<_> = keys.iter().map(|(key, found)| object(key, found, now)).collect();
        json!({ "session": session.as_str(), "keys": keys })
    });
    match out.format() {
        Format::Json => {
            out.json(&json!({ "dir": args.dir, "sessions": objects.collect::<Vec<_>>() }))?;
        }
        Format::Jsonl => {
            for object in objects {
                out.json(&object)?;
            }
        }
        Format::Table => {
            let mut rows = vec![["SESSION", "KEYS", "AGE", "OWNS"].map(str::to_owned).to_vec()];
            for (session, keys) in &owners {
                for (at, (key, found)) in keys.iter().enumerate() {
                    let first = at == 0;
                    let cell = |text: String| if first { text } else { String::new() };
                    rows.push(vec![
                        cell(printable_text(session.as_str())),
                        cell(keys.len().to_string()),
                        found.joined.map_or_else(|| "-".to_owned(), |at| age::for_people(at.age(now))),
                        printable_text(key.as_str()),
                    ]);
                }
            }
            out.table(&rows)?;
        }
        Format::Auto | Format::Plain => {
            for (session, keys) in &owners {
                for (key, _) in keys {
                    out.line(&[session.as_str(), key.as_str()].map(printable_text).join("\t"))?;
                }
            }
        }
    }
    Ok(if owners.is_empty() { code::NO } else { code::YES })
}

fn object(key: &Key, found: &Found, now: WallTime) -> Value {
    json!({
        "key": key.as_str(),
        "created": found.created.get(),
        "in_line": found.place,
        "joined": found.joined.map(|at| at.to_string()),
        "age_seconds": age::seconds(found.joined, now),
    })
}
