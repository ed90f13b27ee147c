//! How a line is shown.

use coord::{Coord, Key, config_centre::WallTime};
use serde_json::{Value, json};

use super::line::{Line, Part, State};
use crate::{
    Failure, Format, age,
    output::{Output, printable, printable_text, value},
};

const HEAD: [&str; 8] = ["STATE", "AGE", "TOKEN", "SESSION", "WANTS", "VALUE", "NOTE", "KEY"];
const ASKED: &str = "asked to give it back";

pub(super) fn line(out: &mut Output<'_>, coord: &Coord, name: &Key, line: &Line) -> Result<(), Failure> {
    let now = WallTime::now();
    let with = |state: State| line.parts.iter().filter(move |part| part.state == state);
    match out.format() {
        Format::Json | Format::Jsonl => {
            let all = |state| with(state).map(|part| object(coord, part, now)).collect::<Vec<_>>();
            out.json(&json!({
                "name": name.as_str(),
                "kind": line.kind.map(super::line::Kind::name),
                "permits": line.permits,
                "holders": all(State::Holds),
                "waiters": all(State::Waits),
                "in_line": all(State::InLine),
                "beside": all(State::Beside),
            }))?;
        }
        Format::Table => {
            out.line(&printable_text(&summary(name, line)))?;
            if !line.parts.is_empty() {
                let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
                rows.extend(line.parts.iter().map(|part| cells(coord, part, now).to_vec()));
                out.table(&rows)?;
            }
        }
        Format::Auto | Format::Plain => {
            for part in &line.parts {
                let [state, _, token, session, .., key] = cells(coord, part, now);
                out.line(&[state, token, session, key].join("\t"))?;
            }
        }
    }
    Ok(())
}

fn summary(name: &Key, line: &Line) -> String {
    let count = |state: State| line.parts.iter().filter(|part| part.state == state).count();
    let kind = line.kind.map_or("unknown", super::line::Kind::name);
    let permits = line.permits.map_or_else(String::new, |permits| format!(" of {permits} permits"));
    let said = match [State::Holds, State::Waits, State::InLine].map(count) {
        [0, 0, 0] => return format!("{name}: nobody holds it and nobody waits"),
        [0, 0, all] => format!("{all} in line, of whom it is not known who holds"),
        [0, waits, _] => format!("held by nobody, {waits} waiting"),
        [holds, waits, _] => format!("held by {holds}, {waits} waiting"),
    };
    format!("{name}: {kind}{permits}: {said}")
}

fn token(coord: &Coord, part: &Part) -> Option<String> {
    part.entry.as_ref().map(|entry| coord.fencing_token(entry.meta.created).to_string())
}

fn session(part: &Part) -> Option<&str> {
    part.entry.as_ref()?.meta.owner.as_ref().map(coord::SessionId::as_str)
}

fn object(coord: &Coord, part: &Part, now: WallTime) -> Value {
    json!({
        "key": part.key.as_str(),
        "session": session(part),
        // Text: it may be larger than what fits 64 bits.
        "token": token(coord, part),
        "wants": part.wants(),
        "value": part.entry.as_ref().map(|entry| value(&entry.value)),
        "asked_to_release": part.is_asked(),
        "joined": part.joined.map(|at| at.to_string()),
        "age_seconds": age::seconds(part.joined, now),
    })
}

fn cells(coord: &Coord, part: &Part, now: WallTime) -> [String; 8] {
    let or_none =
        |text: Option<String>| text.filter(|text| !text.is_empty()).unwrap_or_else(|| "-".to_owned());
    let age = part.joined.map(|joined| age::for_people(joined.age(now)));
    [
        part.state.name().to_owned(),
        or_none(age.or_else(|| (part.state != State::Beside).then(|| "unknown".to_owned()))),
        or_none(token(coord, part)),
        or_none(session(part).map(printable_text)),
        or_none(part.wants()),
        or_none(part.entry.as_ref().map(|entry| printable(&entry.value))),
        or_none(part.is_asked().then(|| ASKED.to_owned())),
        printable_text(part.key.as_str()),
    ]
}
