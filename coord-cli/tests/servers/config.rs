//! The config centre.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::lab::{Lab, code, finish, run};

pub(crate) async fn a_namespace_is_published_followed_and_rolled_back(lab: Lab) {
    let config = async |args: &[&str], expected: i32| {
        let output = run(lab.coord([&["config"], args, &["-o", "json"]].concat())).await;
        assert_eq!(code(&output), expected, "{args:?}: {output:?}");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        (serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default(), told)
    };
    assert_eq!(config(&["get", "billing"], 1).await.0, Value::Null);
    let (first, _) = config(&["set", "billing", "rate=100", "db.password=hunter2", "--by", "ann"], 0).await;
    assert_eq!(first["generation"], json!(1));
    let mut watch = lab.coord(["config", "watch", "billing"]).spawn().expect("coord");
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    let mut next = async || {
        let line = tokio::time::timeout(crate::lab::DEADLINE, lines.next_line()).await;
        let line = line.expect("a line in time").expect("readable").expect("not the end");
        serde_json::from_str::<Value>(&line).expect("JSON")
    };
    let now = next().await;
    assert_eq!(now["items"], json!({ "rate": "100", "db.password": "******" }));
    config(&["set", "billing", "rate=200", "--by", "ben"], 0).await;
    let now = next().await;
    assert_eq!((&now["items"]["rate"], &now["layers"][0]["generation"]), (&json!("200"), &json!(2)));
    config(&["set", "billing", "rate=300", "--expect", "1"], 3).await;

    let (back, told) = config(&["rollback", "billing", "1", "--by", "eve"], 0).await;
    assert_eq!(back["release"], json!(1));
    assert!(told.contains("takes effect now; nothing more to press"), "{told}");
    assert_eq!(next().await["items"]["rate"], json!("100"));
    drop(lines);
    assert_eq!(code(&finish(watch).await), 0, "it ends quietly with its reader");
    let (history, _) = config(&["history", "billing"], 0).await;
    let authors: Vec<_> = history.as_array().expect("entries").iter().map(|one| &one["by"]).collect();
    assert_eq!(authors, ["eve", "ben", "ann"]);
    assert_eq!(config(&["verify", "billing"], 0).await.0[0]["broken"], Value::Null);
}
