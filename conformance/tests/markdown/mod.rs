//! What a page says, for tests that read it.

/// The lines outside of fenced code, each with its number.
pub(crate) fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fence: Option<&str> = None;
    let mut out = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let start = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => out.push((at + 1, line)),
            (Some(_), _) => {}
        }
    }
    out
}

/// The line without what stands in backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// The targets of inline links and of link definitions.
pub(crate) fn targets(line: &str) -> Vec<String> {
    let line = without_code(line);
    let mut found = Vec::new();
    let mut rest = line.as_str();
    while let Some(at) = rest.find("](") {
        rest = &rest[at + 2..];
        let Some(end) = rest.find(')') else { break };
        found.push(rest[..end].split_whitespace().next().unwrap_or_default().to_owned());
    }
    let definition = line.trim_start();
    if definition.starts_with('[')
        && let Some((_, target)) = definition.split_once("]: ")
    {
        found.push(target.split_whitespace().next().unwrap_or_default().to_owned());
    }
    found
}
