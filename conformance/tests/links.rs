//! Links in the documents lead somewhere: every relative link of every Markdown file, and every anchor.

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::{Component, Path, PathBuf},
};

mod markdown;
mod workspace;

use markdown::{prose, targets};
use workspace::{files, read, root, shown};

/// The anchors of a page, as GitHub makes them from its headings.
fn anchors(text: &str) -> HashSet<String> {
    let mut count: HashMap<String, usize> = HashMap::new();
    let mut found = HashSet::new();
    for (_, line) in prose(text) {
        let level = line.chars().take_while(|c| *c == '#').count();
        if !(1..=6).contains(&level) || !line[level..].starts_with(' ') {
            continue;
        }
        let slug = slug(&line[level..]);
        let seen = count.entry(slug.clone()).or_default();
        found.insert(if *seen == 0 { slug } else { format!("{slug}-{seen}") });
        *seen += 1;
    }
    found
}

fn slug(heading: &str) -> String {
    // The target of a link in a heading is no part of its text.
    let mut text = String::new();
    let mut rest = heading.trim();
    while let Some((before, after)) = rest.split_once("](") {
        text.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    let kept = text.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The file that a link means; `None` if it leads out of the repository.
fn resolve(page: &Path, target: &str) -> Option<PathBuf> {
    let mut path = page.parent()?.to_path_buf();
    for part in Path::new(target).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::ParentDir => _ = path.pop(),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    path.starts_with(root()).then_some(path)
}

/// What is wrong with a link, if something is.
fn trouble(page: &Path, target: &str) -> Option<String> {
    if ["https://", "http://", "mailto:"].iter().any(|scheme| target.starts_with(scheme)) {
        return None;
    }
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let Some(path) = (if file.is_empty() { Some(page.to_path_buf()) } else { resolve(page, file) }) else {
        return Some("leads out of the repository".to_owned());
    };
    if !path.exists() {
        return Some("there is no such file".to_owned());
    }
    let anchor = anchor.filter(|_| path.extension().is_some_and(|extension| extension == "md"))?;
    let text = fs::read_to_string(&path).ok()?;
    (!anchors(&text).contains(anchor)).then(|| "there is no such heading".to_owned())
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    let mut seen = 0;
    let pages = files(root(), &["md"]);
    for page in &pages {
        let text = read(page);
        for (number, line) in prose(&text) {
            for target in targets(line) {
                seen += 1;
                if let Some(why) = trouble(page, &target) {
                    let page = shown(page);
                    broken.push(format!("{page}:{number}: {target}: {why}"));
                }
            }
        }
    }
    assert!(pages.len() > 5 && seen > 20, "the test looks at the wrong files: {pages:?}");
    assert!(broken.is_empty(), "mend these links, or write what they promise:\n  {}", broken.join("\n  "));
}

#[test]
fn the_readme_shows_the_figures_of_the_suite() {
    let read = |name: &str| read(&root().join(name));
    let (readme, matrix) = (read("README.md"), read("docs/compatibility.md"));
    let (_, marked) =
        readme.split_once("<!-- figures: begin").expect("README.md marks where the figures begin");
    let (marked, _) = marked.split_once("<!-- figures: end -->").expect("README.md marks where they end");
    let known: HashSet<&str> = matrix.lines().collect();
    let shown: Vec<&str> = marked.lines().filter(|line| line.starts_with('|')).collect();
    assert!(shown.len() >= 3, "README.md shows no figures: {shown:?}");
    let stale: Vec<&&str> = shown.iter().filter(|line| !known.contains(**line)).collect();
    assert!(
        stale.is_empty(),
        "copy these lines into README.md as docs/compatibility.md has them now: {stale:#?}"
    );
}

#[test]
fn the_page_of_figures_has_the_cases_of_the_suite() {
    let page = read(&root().join("docs/compatibility.md"));
    let listed: HashSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let declared: HashSet<&str> = coord_conformance::cases::ALL.iter().map(|case| case.name).collect();
    let differ: Vec<_> = declared.symmetric_difference(&listed).collect();
    assert!(differ.is_empty(), "make docs/compatibility.md anew, as CONTRIBUTING.md says: {differ:#?}");
}

#[test]
fn a_broken_link_is_found_and_code_is_not_read_as_one() {
    let page = root().join("README.md");
    assert_eq!(targets("see [a](x.md#y \"title\"), `[b](c)` and [d]( e )"), ["x.md#y", "e"]);
    assert_eq!(targets("[ref]: docs/a.md"), ["docs/a.md"]);
    assert_eq!(prose("a\n```rust\n[x](y)\n```\nb"), [(1, "a"), (5, "b")]);
    let text = "# One `two` & three\n## Same\n## Same\n```\n# no heading\n```\n# A [link](x)";
    let known = anchors(text);
    for anchor in ["one-two--three", "same", "same-1", "a-link"] {
        assert!(known.contains(anchor), "{anchor}: {known:?}");
    }
    assert!(!known.contains("no-heading"));
    assert!(trouble(&page, "no/such/file.md").is_some());
    assert!(trouble(&page, "README.md#no-such-heading").is_some());
    assert!(trouble(&page, "../outside.md").is_some() && trouble(&page, "/etc/passwd").is_some());
    assert!(trouble(&page, "https://example.org/x").is_none());
}
