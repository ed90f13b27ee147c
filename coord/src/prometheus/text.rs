//! Prometheus' text format, version 0.0.4.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
    sync::atomic::Ordering,
};

use metrics::Key;

use super::{
    histogram::{LIMITS, Samples},
    recorder::Recorder,
};

/// The lines of one name, by labels.
struct Family {
    kind: &'static str,
    lines: BTreeMap<String, String>,
}

/// The page, sorted by name and labels.
pub(super) fn page(recorder: &Recorder) -> String {
    let numbers = recorder.numbers();
    let mut families = BTreeMap::new();
    for (key, counter) in numbers.counters.all() {
        let value = counter.load(Ordering::Relaxed);
        add(&mut families, "counter", &key, |name, labels| format!("{name}{} {value}\n", braces(labels)));
    }
    for (key, gauge) in numbers.gauges.all() {
        let value = f64::from_bits(gauge.load(Ordering::Relaxed));
        add(&mut families, "gauge", &key, |name, labels| {
            format!("{name}{} {}\n", braces(labels), number(value))
        });
    }
    for (key, histogram) in numbers.histograms.all() {
        add(&mut families, "histogram", &key, |name, labels| buckets(name, labels, &histogram.samples()));
    }
    let helps: HashMap<_, _> =
        numbers.helps.all().into_iter().map(|(name, help)| (plain(&name), help)).collect();
    let mut page = String::new();
    for (name, Family { kind, lines }) in families {
        if let Some(help) = helps.get(&name) {
            let help = help.replace('\\', "\\\\").replace('\n', "\\n");
            let _ = writeln!(page, "# HELP {name} {help}");
        }
        let _ = writeln!(page, "# TYPE {name} {kind}");
        page.extend(lines.into_values());
    }
    page
}

fn add(
    families: &mut BTreeMap<String, Family>,
    kind: &'static str,
    key: &Key,
    lines: impl FnOnce(&str, &str) -> String,
) {
    let name = plain(key.name());
    let mut labels: Vec<_> = key.labels().map(|label| (plain(label.key()), escaped(label.value()))).collect();
    labels.sort();
    let labels: Vec<_> = labels.into_iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
    let labels = labels.join(",");
    let family = families.entry(name.clone()).or_insert(Family { kind, lines: BTreeMap::new() });
    // A name has one kind on a page; that somebody uses it twice is their mistake, and shows by what is missing.
    if family.kind == kind {
        family.lines.insert(labels.clone(), lines(&name, &labels));
    }
}

fn buckets(name: &str, labels: &str, samples: &Samples) -> String {
    let comma = if labels.is_empty() { "" } else { "," };
    let (mut text, mut below) = (String::new(), 0);
    for (limit, count) in LIMITS.iter().zip(samples.within) {
        below += count;
        let _ = writeln!(text, "{name}_bucket{{{labels}{comma}le=\"{limit}\"}} {below}");
    }
    let _ = writeln!(text, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {}", samples.count);
    let _ = writeln!(text, "{name}_sum{} {}", braces(labels), number(samples.sum));
    let _ = writeln!(text, "{name}_count{} {}", braces(labels), samples.count);
    text
}

fn braces(labels: &str) -> String {
    if labels.is_empty() { String::new() } else { format!("{{{labels}}}") }
}

fn number(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        (if value > 0.0 { "+Inf" } else { "-Inf" }).to_owned()
    } else {
        value.to_string()
    }
}

/// A name that Prometheus takes.
fn plain(name: &str) -> String {
    let mut plain: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == ':' { c } else { '_' })
        .collect();
    if plain.starts_with(|c: char| c.is_ascii_digit()) {
        plain.insert(0, '_');
    }
    plain
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
