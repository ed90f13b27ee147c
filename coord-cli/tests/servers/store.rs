//! Keys, watches and the doctor.

use std::process::{Output, Stdio};

use coord_testbed::{Kind, ServerOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::lab::{Lab, code, finish, run};

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

pub(crate) async fn keys_are_written_read_listed_and_deleted(lab: Lab) {
    let json = async |args: &[&str], expected: i32| {
        let output = run(lab.coord([args, &["-o", "json"]].concat())).await;
        assert_eq!(code(&output), expected, "{args:?}: {output:?}");
        if output.stdout.is_empty() { Value::Null } else { document(&output) }
    };
    assert_eq!(json(&["get", "/a/b"], 1).await, Value::Null);
    let created = json(&["put", "/a/b", "1", "--create"], 0).await;
    assert_eq!(json(&["put", "/a/b", "2", "--create"], 3).await, Value::Null);
    let version = created["version"].to_string();
    let written = json(&["put", "/a/b", "2", "--version", &version], 0).await;
    assert_ne!(written["version"], created["version"]);
    json(&["put", "/a/b", "3", "--version", &version], 3).await;
    let refused = run(lab.coord(["put", "/a/b", "3", "--version", &version])).await;
    let told = format!("/a/b is in version {}, not {version}", written["version"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains(&told), "no {told:?} in {refused:?}");
    let got = json(&["get", "/a/b"], 0).await;
    assert_eq!(
        (&got["value"], &got["version"], &got["key"]),
        (&json!("2"), &written["version"], &json!("/a/b"))
    );
    assert!(got["modified"].as_u64() > got["created"].as_u64() && got["owner"].is_null(), "{got}");
    assert_eq!(json(&["ls", "/a"], 0).await["children"][0]["key"], json!("/a/b"));
    json(&["del", "/a/b", "--version", &version], 3).await;
    assert_eq!(json(&["del", "/a/b"], 0).await["deleted"], json!(true));
    assert_eq!(json(&["del", "/a/b"], 1).await["deleted"], json!(false));
    json(&["del", "/a/b", "--version", &version], 1).await;
}

pub(crate) async fn any_bytes_come_back_as_they_went_in(lab: Lab) {
    let bytes = b"\0\xff\n\r\nend\n\n";
    let mut child = lab.coord(["put", "/bytes", "-"]).stdin(Stdio::piped()).spawn().expect("coord");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(bytes).await.expect("written");
    drop(input);
    assert_eq!(code(&finish(child).await), 0);
    assert_eq!(run(lab.coord(["get", "/bytes"])).await.stdout, bytes);
    let output = run(lab.coord(["get", "/bytes", "-o", "jsonl"])).await;
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), 1);
    assert!(document(&output)["value"]["base64"].is_string(), "{output:?}");
}

pub(crate) async fn a_watch_writes_a_line_an_event_and_ends_quietly_with_its_reader(lab: Lab) {
    run(lab.coord(["put", "/w/a", "1"])).await;
    let mut watch = lab.coord(["watch", "/w"]).spawn().expect("coord");
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    let mut next = async || {
        let line = tokio::time::timeout(crate::lab::DEADLINE, lines.next_line()).await;
        let line = line.expect("a line in time").expect("readable").expect("not the end");
        serde_json::from_str::<Value>(&line).expect("JSON")
    };
    let first = next().await;
    assert_eq!(
        (&first["event"], &first["entries"][0]["key"]),
        (&json!("snapshot"), &json!("/w/a")),
        "{first}"
    );
    run(lab.coord(["put", "/w/b/c", "2"])).await;
    let event = next().await;
    assert_eq!(
        (&event["event"], &event["key"], &event["value"]),
        (&json!("put"), &json!("/w/b/c"), &json!("2"))
    );
    run(lab.coord(["del", "/w/b/c"])).await;
    let event = next().await;
    assert_eq!((&event["event"], &event["key"]), (&json!("delete"), &json!("/w/b/c")));

    drop(lines);
    // The next event finds nobody who reads it.
    run(lab.coord(["put", "/w/a", "3"])).await;
    let output = finish(watch).await;
    assert_eq!((code(&output), String::from_utf8_lossy(&output.stderr).as_ref()), (0, ""));
}

pub(crate) async fn a_watch_ends_with_its_reader_also_when_nothing_happens(lab: Lab) {
    let mut watch = lab.coord(["watch", "/quiet"]).spawn().expect("coord");
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    let line = tokio::time::timeout(crate::lab::DEADLINE, lines.next_line()).await.expect("in time");
    assert!(line.expect("readable").is_some_and(|line| line.contains("snapshot")));
    drop(lines);
    let output = finish(watch).await;
    assert_eq!((code(&output), String::from_utf8_lossy(&output.stderr).as_ref()), (0, ""));
}

pub(crate) async fn doctor_tells_what_the_store_is(lab: Lab) {
    let output = run(lab.coord(["doctor", "-o", "json"])).await;
    assert_eq!(code(&output), 0, "{output:?}");
    let told = document(&output);
    assert_eq!(
        (&told["ok"], &told["backend"]),
        (&json!(true), &json!(lab.kind().map_or("sqlite", Kind::scheme)))
    );
    assert!(told["server"].as_str().is_some_and(|server| server.contains(char::is_numeric)), "{told}");
    assert!(told["limits"]["value_max_bytes"].as_u64() > Some(0), "{told}");
    assert!(told["guarantees"]["can_lose_acknowledged_writes"].is_boolean(), "{told}");
    assert!(told["round_trip"]["median_us"].as_u64() >= told["round_trip"]["min_us"].as_u64(), "{told}");
    let text = run(lab.coord(["doctor"])).await;
    assert!(String::from_utf8_lossy(&text.stdout).contains("verdict"), "{text:?}");
}

pub(crate) async fn doctor_tells_what_is_wrong(mut lab: Lab) {
    let mut server = lab.own_server(ServerOptions::new()).await;
    server.kill().await.expect("killed");
    let mut command = lab.coord(["doctor", "-o", "json"]);
    command.env("COORD_CONNECT_TIMEOUT", "2s");
    let output = run(command).await;
    assert_eq!(code(&output), 1, "{output:?}");
    let told = document(&output);
    assert_eq!(told["ok"], json!(false));
    let next = told["problems"][0]["next"].as_str().expect("a next step");
    assert!(told["problems"][0]["what"].is_string() && !next.contains("doctor"), "{told}");
}
