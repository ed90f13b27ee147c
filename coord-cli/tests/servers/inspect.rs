//! Transactions, explanations, sessions and copies.

use std::{
    collections::BTreeSet,
    process::{Output, Stdio},
};

use coord::config_centre::WallTime;
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, process::Command};

use crate::lab::{Lab, code, finish, run};

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

async fn told(lab: &Lab, args: &[&str], expected: i32) -> Value {
    let output = run(lab.coord([args, &["-o", "json"]].concat())).await;
    assert_eq!(code(&output), expected, "{args:?}: {output:?}");
    document(&output)
}

async fn with_input(mut command: Command, input: &str) -> Output {
    let mut child = command.stdin(Stdio::piped()).spawn().expect("coord");
    let mut pipe = child.stdin.take().expect("a pipe");
    pipe.write_all(input.as_bytes()).await.expect("written");
    drop(pipe);
    finish(child).await
}

pub(crate) async fn a_transaction_is_applied_whole_or_tells_what_did_not_hold(lab: Lab) {
    let txn = async |input: &str| with_input(lab.coord(["txn", "-o", "json"]), input).await;
    let output = txn("# first\n\nabsent /t/frozen\ncreate /t/running v42\nput /t/last two words\n").await;
    let done = document(&output);
    assert_eq!((code(&output), &done["committed"]), (0, &json!(true)), "{output:?}");
    assert!(done["revision"].is_u64(), "{done}");
    let version = done["written"][1]["version"].to_string();
    let last = told(&lab, &["get", "/t/last"], 0).await;
    assert_eq!((&last["value"], last["version"].to_string()), (&json!("two words"), version.clone()));

    for (input, failed) in [
        ("put /t/last x\nabsent /t/running\n", json!({ "line": 2, "what": "absent", "key": "/t/running" })),
        ("exists /t/frozen\nput /t/last x\n", json!({ "line": 1, "what": "exists", "key": "/t/frozen" })),
        ("put /t/last x\ncreate /t/running x\n", json!({ "line": 2, "what": "create", "key": "/t/running" })),
        ("put /t/last x\ndelete /t/frozen\n", json!({ "line": 2, "what": "delete", "key": "/t/frozen" })),
        (
            "{\"version\": \"/t/running\", \"number\": 999999}\nput /t/last x\n",
            json!({ "line": 1, "what": "version", "key": "/t/running" }),
        ),
    ] {
        let output = txn(input).await;
        assert_eq!(code(&output), 3, "{input}: {output:?}");
        assert_eq!(document(&output)["failed"], failed, "{input}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("did not hold") && said.contains("nothing was written"), "{said}");
        assert_eq!(told(&lab, &["get", "/t/last"], 0).await["version"].to_string(), version, "{input}");
    }
    let output = txn(&format!("version /t/last {version}\ndelete /t/last\ndelete /t/running\n")).await;
    assert_eq!((code(&output), document(&output)["written"][0]["deleted"].clone()), (0, json!(true)));
    assert_eq!(code(&run(lab.coord(["get", "/t/last"])).await), 1);
}

pub(crate) async fn explain_says_the_same_on_every_store(lab: Lab) {
    told(&lab, &["explain", "/locks/it"], 1).await;
    let began = WallTime::now().to_string();
    let script = "echo $COORD_SESSION $COORD_FENCING_TOKEN > holder; while ! [ -e go ]; do sleep 0.02; done";
    let holder = lab.lock(&[], script).spawn().expect("coord");
    let line = lab.line("holder").await;
    let (session, token) = line.split_once(' ').expect("two words");
    let waiter = lab.lock(&[], "echo $COORD_SESSION > second").spawn().expect("coord");
    lab.line_has(2).await;

    let line = told(&lab, &["explain", "/locks/it"], 0).await;
    assert_eq!((&line["kind"], &line["name"]), (&json!("lock"), &json!("/locks/it")), "{line}");
    let [first, second] =
        [&line["holders"], &line["waiters"]].map(|list| match list.as_array().map(Vec::as_slice) {
            Some([one]) => one.clone(),
            _ => panic!("{line}"),
        });
    assert_eq!((&first["session"], &first["token"]), (&json!(session), &json!(token)), "{line}");
    let number = |part: &Value| part["token"].as_str().and_then(|token| token.parse::<u128>().ok());
    assert!(number(&second) > number(&first) && second["session"] != first["session"], "{line}");
    // Times of one form are in the order of their texts.
    let joined = [&first, &second].map(|part| part["joined"].as_str().unwrap_or_default().to_owned());
    assert!(
        began <= joined[0] && joined[0] <= joined[1] && joined[1] <= WallTime::now().to_string(),
        "{line}"
    );
    assert!(first["age_seconds"].as_u64() >= second["age_seconds"].as_u64(), "{line}");

    let sessions = told(&lab, &["sessions"], 0).await;
    let ids: Vec<_> =
        sessions["sessions"].as_array().expect("a list").iter().map(|s| s["session"].clone()).collect();
    assert_eq!(ids.len(), 2, "{sessions}");
    assert!(ids.contains(&first["session"]) && ids.contains(&second["session"]), "{sessions}");
    let keys =
        sessions["sessions"].as_array().expect("a list").iter().map(|s| s["keys"][0]["joined"].as_str());
    let keys: BTreeSet<_> = keys.map(Option::unwrap_or_default).collect();
    assert_eq!(keys, joined.iter().map(String::as_str).collect(), "{sessions}");

    std::fs::write(lab.file("go"), "").expect("written");
    assert_eq!((code(&finish(holder).await), code(&finish(waiter).await)), (0, 0));
    assert_eq!(second["session"], json!(lab.line("second").await));
    told(&lab, &["explain", "/locks/it"], 1).await;
    told(&lab, &["sessions"], 1).await;
}

pub(crate) async fn keys_are_copied_to_another_store_and_back(lab: Lab) {
    let statements: String = (0..120).map(|at| format!("put /app/{}/{at} value {at}\n", at % 5)).collect();
    assert_eq!(code(&with_input(lab.coord(["txn"]), &statements).await), 0);
    let bytes = json!({ "put": "/app/bytes", "value": { "base64": "/wANCg==" } });
    assert_eq!(code(&with_input(lab.coord(["txn"]), &format!("{bytes}\n")).await), 0);
    let script = "echo > held; while ! [ -e go ]; do sleep 0.02; done";
    let holder = lab.lock(&[], script).spawn().expect("coord");
    lab.line("held").await;

    let away = told(&lab, &["copy", lab.url(), "sqlite:away.db"], 0).await;
    assert_eq!((&away["keys"], away["differs"].as_array().map(Vec::len)), (&json!(121), Some(0)), "{away}");
    let left_out = away["left_out"].as_array().expect("a list");
    assert!(left_out.len() == 1 && left_out[0]["session"].is_string(), "{away}");
    std::fs::write(lab.file("go"), "").expect("written");
    assert_eq!(code(&finish(holder).await), 0);

    // Back, through a configuration file, into a directory of the store.
    std::fs::write(lab.file("away.toml"), "url = \"sqlite:away.db\"\n").expect("written");
    let back = told(&lab, &["copy", "away.toml", "/back"], 0).await;
    assert_eq!((&back["keys"], &back["sha256"]), (&json!(121), &away["sha256"]), "{back}");
    let value = told(&lab, &["get", "/back/app/bytes"], 0).await;
    assert_eq!(value["value"], json!({ "base64": "/wANCg==" }));
    let refused = run(lab.coord(["copy", "away.toml", "/back"])).await;
    assert_eq!(code(&refused), 3, "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("/back is not empty"), "{refused:?}");
    told(&lab, &["copy", "away.toml", "/back", "--overwrite"], 0).await;
}
