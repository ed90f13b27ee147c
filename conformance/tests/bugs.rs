//! `docs/bugs.md`: every bug that is held against this project has a test that exists, or a reason; and the page and the
//! comments of the tests say the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use coord_api::kit::{Backoff, Runtime};

mod workspace;

use workspace::{files, read, root, shown};

/// The bugs that concern locks, elections, watches, sessions, the other recipes, the registry and the config centre.
#[rustfmt::skip]
const IDS: &[u32] = &[
    1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19, 20, 22, 23, 25, 26, 28, 29, 31, 32, 34, 35, 37, 38,
    40, 41, 43, 44, 46, 47, 49, 50, 52, 53, 55, 56, 58, 59, 61, 62, 64, 65, 67, 68, 70, 71, 73, 74, 76,
    77, 79, 80, 82, 83, 85, 86, 88, 89, 91, 92, 94, 95, 97, 98, 100, 101, 103, 104, 106, 107, 109, 110,
    112, 113, 115, 116, 118, 119, 121, 122, 124, 125, 127, 128, 130, 131, 133, 134, 136, 137, 139, 140,
    142, 143, 145, 146, 148, 149, 151, 152, 154, 155, 157, 158, 160, 161, 163, 164, 166, 167, 169, 170,
    172, 173, 175, 176, 178, 179, 181, 182, 184, 185, 187, 188, 190, 191, 193, 194, 196, 197, 199, 200,
    202, 203, 205, 206, 208, 209, 211, 212, 214, 215, 217, 218, 220, 221, 223, 224, 226, 227, 229, 230,
    232, 233, 235, 236, 238, 239, 241, 242, 244, 245, 265, 266,
    268, 269, 271, 272, 274, 275, 277, 278, 280, 281, 283, 284, 286, 287, 289, 290, 292, 293, 295, 296,
    298, 299, 301, 302, 304, 305, 307, 308, 310, 311, 313, 314, 316, 317, 319, 320, 322,
];

/// A row of the page.
struct Row {
    id: u32,
    links: String,
    ours: String,
}

fn rows() -> Vec<Row> {
    let page = read(&root().join("docs/bugs.md"));
    let rows = page.lines().filter(|line| line.starts_with("| BB-")).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [id, wrong, links, ours] = cells[..] else { panic!("not four cells: {line}") };
        assert!(!wrong.is_empty(), "{line}");
        let id = id.trim_start_matches("BB-").parse().expect("a number");
        Row { id, links: links.to_owned(), ours: ours.to_owned() }
    });
    rows.collect()
}

/// The tests that a row names, as file and function.
fn tests(ours: &str) -> Vec<(&str, &str)> {
    ours.split('`').skip(1).step_by(2).filter_map(|code| code.split_once(".rs::")).collect()
}

/// The bugs that the comments of a file name, each with the function below the comment.
fn named(source: &str) -> Vec<(u32, String)> {
    let (mut found, mut waiting) = (Vec::new(), Vec::new());
    for line in source.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("///") {
            let ids = comment.split("BB-").skip(1);
            let digits = ids.map(|id| id.chars().take_while(char::is_ascii_digit).collect::<String>());
            waiting.extend(digits.filter_map(|id| id.parse::<u32>().ok()));
        } else if let Some(name) = line.split("fn ").nth(1).filter(|_| !line.starts_with("//")) {
            let name: String = name.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            found.extend(waiting.drain(..).map(|id| (id, name.clone())));
        } else if !line.starts_with("#[") {
            waiting.clear();
        }
    }
    found
}

#[test]
fn every_bug_is_on_the_page_once_with_a_link_and_an_answer() {
    let mut seen = BTreeSet::new();
    for row in rows() {
        assert!(seen.insert(row.id), "BB-{:03} is there twice", row.id);
        assert!(row.links.contains("](https://"), "BB-{:03} has no link", row.id);
        let reason = row.ours.starts_with("does not apply, because ");
        assert!(
            reason == tests(&row.ours).is_empty(),
            "BB-{:03} has neither test nor reason, or both",
            row.id
        );
    }
    let all: BTreeSet<u32> = IDS.iter().copied().collect();
    assert_eq!(all.len(), IDS.len(), "an id is listed twice");
    assert_eq!(seen, all);
}

#[test]
fn every_test_on_the_page_exists() {
    let mut files: BTreeMap<&str, String> = BTreeMap::new();
    let rows = rows();
    for row in &rows {
        for (file, name) in tests(&row.ours) {
            let source = files.entry(file).or_insert_with(|| {
                let path = root().join(format!("{file}.rs"));
                read(&path)
            });
            assert!(source.contains(&format!("fn {name}(")), "BB-{:03}: no {name} in {file}.rs", row.id);
        }
    }
}

#[test]
fn a_test_that_names_a_bug_is_on_the_page() {
    let page: BTreeMap<u32, String> = rows().into_iter().map(|row| (row.id, row.ours)).collect();
    let mut names = 0;
    for path in files(root(), &["rs"]) {
        let source = read(&path);
        let file = shown(&path);
        for (id, name) in named(&source).into_iter().filter(|(id, _)| page.contains_key(id)) {
            names += 1;
            assert!(
                page[&id].contains(&format!("`{file}::{name}`")),
                "BB-{id:03} of {file}::{name} is not on the page"
            );
        }
    }
    assert!(names > 100, "only {names} found: are they written as before?");
}

fn runtime(seed: u64) -> Runtime {
    Runtime::current().expect("inside a runtime").with_seed(seed)
}

/// BB-313 (<https://github.com/python-zk/kazoo/pull/521>): jitter around fixed points made clients try again together.
#[tokio::test]
async fn delays_of_many_clients_are_spread_over_the_whole_window() {
    const CLIENTS: usize = 1_000;
    let cap = Duration::from_secs(1);
    let mut tenths = [0; 10];
    for client in 0..CLIENTS {
        let runtime = runtime(client as u64);
        let mut backoff = Backoff::new(cap);
        let last = (0..10).map(|_| backoff.next_delay(&runtime)).last().expect("ten");
        let share = last.as_secs_f64() / cap.as_secs_f64();
        assert!((0.5..=1.0).contains(&share), "{last:?}");
        let tenth = (1..10).filter(|tenth| share >= 0.5 + 0.05 * f64::from(*tenth)).count();
        tenths[tenth] += 1;
    }
    // A hundred each; far enough from chance, far from any heap.
    assert!(tenths.iter().all(|count| (60..140).contains(count)), "{tenths:?}");
}

/// BB-271 (<https://issues.apache.org/jira/browse/CURATOR-262>): the delay overflowed after many tries. BB-193
/// (<https://github.com/krojew/rust-zookeeper/issues/9>): a loop that reconnected without end and without delay.
#[tokio::test]
async fn delays_double_up_to_a_cap_and_stay_there() {
    let runtime = runtime(1);
    for cap in [Duration::from_secs(1), Duration::MAX] {
        let mut backoff = Backoff::new(cap);
        let delays: Vec<Duration> = (0..1_000).map(|_| backoff.next_delay(&runtime)).collect();
        assert!(delays.iter().all(|delay| *delay >= Duration::from_millis(25) && *delay <= cap));
        assert!(delays[0] <= Duration::from_millis(50) && delays[999] >= cap / 4, "{:?}", delays[999]);
    }
}
