//! The tour, which stops with an error where what it shows is not so.

use std::{
    env,
    path::PathBuf,
    process::{Command, Output},
};

fn tour() -> PathBuf {
    let tests = env::current_exe().expect("this program").with_file_name("");
    tests.with_file_name("examples").join("tour")
}

#[test]
fn it_shows_what_is_so_and_ends_with_three_stores_to_try() {
    let tour = tour();
    assert!(tour.exists(), "cargo test -p coord --features sqlite,config-centre builds {}", tour.display());
    let Output { status, stdout, stderr } = Command::new(tour).output().expect("it runs");
    let (said, complained) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{said}\n{complained}");
    assert!(complained.is_empty(), "{complained}");
    for words in [
        "bob's 15 are lost",
        "25 apples stand",
        "later bob leads",
        "both run with it",
        "zk://",
        "etcd://",
        "redis://",
    ] {
        assert!(said.contains(words), "{words}\n{said}");
    }
}
