//! The guide is whole: every chapter is in its table of contents, what it includes is there, its programs are tests.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

mod markdown;
mod workspace;

use markdown::{prose, targets};
use workspace::{files, read, root, shown};

fn source() -> PathBuf {
    root().join("docs/guide/src")
}

/// The chapters, as paths from the guide's sources.
fn chapters() -> BTreeSet<String> {
    let source = source();
    let pages = files(&source, &["md"]).into_iter().map(|page| {
        page.strip_prefix(&source).expect("below the sources").to_str().expect("a plain name").to_owned()
    });
    pages.filter(|name| name != "SUMMARY.md").collect()
}

/// What the page is made of besides itself: the targets of its includes.
fn includes(text: &str) -> Vec<&str> {
    text.split("{{#include ").skip(1).filter_map(|rest| rest.split("}}").next()).map(str::trim).collect()
}

fn target(chapter: &str, include: &str) -> Option<PathBuf> {
    source().join(chapter).parent().map(|dir| dir.join(include))
}

#[test]
fn every_chapter_is_in_the_table_of_contents_once() {
    let summary = read(&source().join("SUMMARY.md"));
    let listed: Vec<&str> = summary.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    let once: BTreeSet<String> = listed.iter().map(|name| (*name).to_owned()).collect();
    assert!(once.len() > 40, "the test looks at the wrong file: {listed:?}");
    assert_eq!(listed.len(), once.len(), "a chapter stands twice in SUMMARY.md: {listed:?}");
    let chapters = chapters();
    let missing: Vec<_> = chapters.symmetric_difference(&once).collect();
    assert!(missing.is_empty(), "write these into SUMMARY.md, or take them out: {missing:?}");
}

/// What the book shows as the chapter, and whether it is a page of `docs`.
fn shows(chapter: &str) -> (String, bool) {
    let text = read(&source().join(chapter));
    let included = includes(&text);
    let Some(include) = included.first() else { return (text, false) };
    assert_eq!(included.len(), 1, "{chapter} includes several pages");
    let page = target(chapter, include).and_then(|path| path.canonicalize().ok());
    let expected = root().join("docs").join(chapter);
    assert_eq!(page, expected.canonicalize().ok(), "{chapter} has the place of another page");
    (read(&expected), true)
}

/// What is wrong with a link of a chapter in the book, if something is. One that leaves the book must be what `leave.js`
/// takes it for.
fn trouble(chapter: &str, included: bool, link: &str, chapters: &BTreeSet<String>) -> Option<&'static str> {
    let path = link.split('#').next().unwrap_or_default();
    if path.is_empty() || link.contains("://") {
        return None;
    }
    let mut place: Vec<&str> = chapter.split('/').collect();
    place.pop();
    let mut beyond = 0;
    for part in path.split('/') {
        match part {
            ".." if place.pop().is_none() => beyond += 1,
            ".." => {}
            name => place.push(name),
        }
    }
    let place = place.join("/");
    match (beyond, included) {
        (0, _) if chapters.contains(&place) => None,
        (0, _) if !place.ends_with(".md") && source().join(&place).exists() => None,
        (0, _) => Some("is no chapter"),
        (1, true) | (2 | 3, false) => None,
        _ => Some("leads out of the repository"),
    }
}

#[test]
fn a_link_in_the_book_leads_to_a_chapter_or_into_the_repository() {
    let chapters = chapters();
    let mut wrong = Vec::new();
    let mut seen = 0;
    for chapter in &chapters {
        let (text, included) = shows(chapter);
        for link in prose(&text).into_iter().flat_map(|(_, line)| targets(line)) {
            seen += 1;
            let why = trouble(chapter, included, &link, &chapters);
            wrong.extend(why.map(|why| format!("{chapter}: {link}: {why}")));
        }
    }
    assert!(seen > 200, "the test looks at the wrong files: {seen} links");
    assert!(wrong.is_empty(), "{wrong:#?}");
    let trouble = |link| trouble("recipes/lock.md", true, link, &chapters);
    assert!(trouble("../cli.md#x").is_none() && trouble("../../README.md").is_none());
    assert!(trouble("none.md").is_some() && trouble("../../../README.md").is_some());
}

#[test]
fn a_chapter_that_becomes_an_index_is_found_by_its_own_name() {
    let book = read(&root().join("docs/guide/book.toml"));
    let indices = chapters().into_iter().filter_map(|name| Some(name.strip_suffix(".md")?.to_owned()));
    let indices = indices.filter(|name| name.ends_with("/README"));
    let missing: Vec<_> = indices.filter(|name| !book.contains(&format!("\"/{name}.html\" ="))).collect();
    assert!(missing.is_empty(), "book.toml has no redirect of {missing:?}");
}

#[test]
fn what_a_chapter_includes_is_there_and_every_page_of_a_recipe_and_store_is_included() {
    let mut included = BTreeSet::new();
    for chapter in chapters() {
        for include in includes(&read(&source().join(&chapter))) {
            let found = target(&chapter, include).and_then(|path| path.canonicalize().ok());
            included
                .insert(found.unwrap_or_else(|| panic!("{chapter} includes {include}, which is not there")));
        }
    }
    let mut left_out = Vec::new();
    for dir in ["docs/recipes", "docs/backends"] {
        let pages = files(&root().join(dir), &["md"]);
        assert!(pages.len() >= 4, "the test looks at the wrong files: {pages:?}");
        let unseen = |page: &PathBuf| page.canonicalize().is_ok_and(|page| !included.contains(&page));
        left_out.extend(pages.into_iter().filter(unseen).map(|page| shown(&page)));
    }
    assert!(left_out.is_empty(), "give these a chapter that includes them: {left_out:?}");
}

#[test]
fn a_program_of_a_page_is_a_test() {
    let tests = read(&root().join("coord/src/pages.rs"));
    let mut pages = files(&root().join("docs"), &["md"]);
    pages.extend(["README.md", "README.zh.md"].map(|name| root().join(name)));
    let mut programs = 0;
    let mut untested = Vec::new();
    for page in pages {
        if !read(&page).lines().any(|line| line.trim_start().starts_with("```rust")) {
            continue;
        }
        programs += 1;
        let shown = shown(&page);
        let names = [shown.as_str(), from(&shown, "docs/recipes/"), from(&shown, "docs/guide/src/")];
        if !names.iter().any(|name| tests.contains(&format!("{name}\""))) {
            untested.push(shown);
        }
    }
    assert!(programs > 30, "the test looks at the wrong files: {programs} pages with programs");
    assert!(untested.is_empty(), "name these in coord/src/pages.rs: {untested:?}");
}

/// The path without `dir` before it.
fn from<'p>(page: &'p str, dir: &str) -> &'p str {
    Path::new(page).strip_prefix(dir).ok().and_then(Path::to_str).unwrap_or(page)
}
