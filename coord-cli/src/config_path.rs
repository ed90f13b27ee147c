//! `config-path`.

use coord::{Config, StoreUrl, config_centre::masked};
use serde_json::{Value, json};

use crate::{
    Failure, Format, code,
    output::{Output, printable_text},
    store::{Found, Place, Source},
};

/// Tells where the store may be named, and which of these places counts. Asks no store.
pub(crate) fn config_path(source: &Source, out: &mut Output<'_>) -> Result<u8, Failure> {
    let places = source.places();
    let used = places.iter().position(|place| place.found.is_some());
    let read = source.config();
    let config = read.as_ref().ok().map(|(config, _)| config);
    match out.format() {
        Format::Json | Format::Jsonl => out.json(&json!({
            "used": used.map(|at| places[at].name.as_str()),
            "url": config.map(|config| config.url().to_string()),
            "places": places.iter().enumerate().map(|(at, place)| json!({
                "place": place.name,
                "state": state(place, at, used),
                "names": place.found.as_ref().map(names),
            })).collect::<Vec<_>>(),
            "options": config.map_or_else(Vec::new, |config| options(config).iter().map(|[name, value, from]| {
                json!({ "option": name, "value": value, "from": from })
            }).collect::<Vec<Value>>()),
        }))?,
        Format::Table => {
            let mut rows = vec![["PLACE", "STATE", "NAMES"].map(str::to_owned).to_vec()];
            rows.extend(places.iter().enumerate().map(|(at, place)| {
                let names = place.found.as_ref().map_or_else(|| "-".to_owned(), names);
                vec![
                    printable_text(&place.name),
                    state(place, at, used).to_owned(),
                    printable_text(&names),
                ]
            }));
            out.table(&rows)?;
            let options = config.map_or_else(Vec::new, options);
            if !options.is_empty() {
                out.line("")?;
                let mut rows = vec![["OPTION", "VALUE", "FROM"].map(str::to_owned).to_vec()];
                rows.extend(options.iter().map(|row| row.iter().map(|cell| printable_text(cell)).collect()));
                out.table(&rows)?;
            }
        }
        Format::Auto | Format::Plain => {
            if let Some(at) = used {
                out.line(&printable_text(match &places[at].found {
                    Some(Found::File(file)) => file.to_str().unwrap_or(&places[at].name),
                    _ => &places[at].name,
                }))?;
            }
        }
    }
    read.map(|_| code::YES)
}

fn state(place: &Place, at: usize, used: Option<usize>) -> &'static str {
    match &place.found {
        None => "absent",
        Some(_) if used == Some(at) => "used",
        Some(_) => "overridden",
    }
}

/// What a place names, without passwords and values of options.
fn names(found: &Found) -> String {
    match found {
        Found::File(file) => file.display().to_string(),
        Found::Url(url) => {
            StoreUrl::parse(url).map_or_else(|_| "a malformed URL".to_owned(), |url| url.to_string())
        }
    }
}

/// The options that are set: name, value, and where it comes from. Values of names that look secret are masked.
fn options(config: &Config) -> Vec<[String; 3]> {
    let options = config.options();
    let row = |(name, from): (&str, &str)| {
        let value = masked(name, options.get(name).unwrap_or_default());
        [name.to_owned(), value.into_owned(), from.to_owned()]
    };
    options.origins().map(row).collect()
}
