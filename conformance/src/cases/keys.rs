//! Keys and values come back as they were written.

use std::sync::Arc;

use bytes::Bytes;
use coord_api::{Dir, ErrorKind, Freshness, Key, Lifetime, OrderedCreate, Tag};

use crate::{CaseResult, Cx};

cases!("keys", needs Store:
    every_portable_name_reads_back,
    names_differ_by_case,
    any_bytes_are_a_value,
    encoded_text_stays_in_its_directory,
    a_write_never_hides_the_value_of_another_key,
);

/// Promise: every name that the grammar allows is a name of its own.
async fn every_portable_name_reads_back(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let long = "x".repeat(255);
    let names = [
        "a", "a b", "ünï", "漢字", "{tag}", "*?[]^-\\", "%2F", "%", "a%20b", "...", "-", "_c_", "~",
        "\"'`$(x)", &long,
    ];
    for name in names {
        coord.put(format!("/names/{name}"), name.to_owned()).await?;
    }
    for name in names {
        let entry = coord.get(format!("/names/{name}")).await?;
        assert_eq!(entry.expect(name).value, name);
    }
    let mut listed: Vec<String> =
        coord.list("/names").await?.children.iter().map(|c| c.key.name().to_owned()).collect();
    let mut wanted: Vec<String> = names.map(str::to_owned).to_vec();
    listed.sort();
    wanted.sort();
    assert_eq!(listed, wanted);
    Ok(())
}

/// Promise: names are compared by every byte.
async fn names_differ_by_case(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    coord.put("/Lock", "upper").await?;
    coord.put("/lock", "lower").await?;
    assert_eq!(coord.get("/Lock").await?.expect("upper").value, "upper");
    assert_eq!(coord.get("/lock").await?.expect("lower").value, "lower");
    Ok(())
}

/// Promise: a value is any bytes up to the limit, the empty one included.
async fn any_bytes_are_a_value(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let largest = vec![0x5a; coord.info().limits.value_max_bytes - 2048];
    let all: Vec<u8> = (0..=255).collect();
    for (i, value) in [vec![], vec![0], vec![1], vec![0xff, 0xfe], all, largest].into_iter().enumerate() {
        let key = format!("/values/{i}");
        coord.put(&key, value.clone()).await?;
        assert_eq!(coord.get(&key).await?.expect("written").value, value, "value {i}");
    }
    Ok(())
}

/// Promise: text of unknown origin cannot leave its directory or become another name.
async fn encoded_text_stays_in_its_directory(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let dir = Dir::parse("/encoded")?;
    let texts =
        ["../up", "/abs", "a/b", "a%2Fb", ".", "..", "", "\0", "\u{1f512}", "dubbo://10.0.0.1:20880/a?b=c"];
    for text in texts {
        coord.put(Key::encode(&dir, text)?, text).await?;
    }
    assert_eq!(coord.list(&dir).await?.children.len(), texts.len());
    for text in texts {
        assert_eq!(coord.get(Key::encode(&dir, text)?).await?.expect(text).value, text);
    }
    Ok(())
}

/// Promise: a store refuses a key below another, or keeps both; it never hides a value.
async fn a_write_never_hides_the_value_of_another_key(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let session = cx.session().await?;
    let dir = Dir::parse("/m/k")?;
    coord.put("/m/k", "value").await?;
    let place = OrderedCreate {
        dir: dir.clone(),
        tag: Tag::new("lock-")?,
        nonce: coord.runtime().nonce(),
        value: Bytes::new(),
        lifetime: Lifetime::Session,
    };
    let owner = session.coord();
    let below = [
        coord.put("/m/k/sub", "x").await.map(drop),
        coord.put("/m/k/deep/sub", "x").await.map(drop),
        coord.create("/m/k/new", "x", Lifetime::Persistent).await.map(drop),
        owner.create("/m/k/mine", "x", Lifetime::Session).await.map(drop),
        owner.backend().create_ordered(owner.context(), place).await.map(drop),
    ];
    let refused = below.iter().filter(|answer| answer.is_err()).count();
    assert!(refused == 0 || refused == below.len(), "one rule for all of them: {below:?}");
    for error in below.into_iter().filter_map(Result::err) {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        let named: Vec<&str> = error.context().map(|(name, _)| name).collect();
        assert!(named.contains(&"key") && named.contains(&"other"), "both keys are named: {error}");
    }
    for reader in [&coord, owner, &cx.coord().await?.with_freshness(Freshness::Latest)] {
        assert_eq!(reader.get("/m/k").await?.expect("not hidden").value, "value");
        let listed = reader.list(&dir).await?.children.len();
        assert_eq!(listed == 0, refused > 0, "what was refused was not applied: {listed}");
    }
    session.close().await?;
    Ok(())
}
