//! Transactions: all or nothing, judged on the state before.

use std::sync::Arc;

use coord_api::{Check, ErrorKind, Failed, Key, Lifetime, Outcome, Revision, Txn, TxnOutcome, Version};

use crate::{CaseResult, Cx, Failure};

cases!("txn", needs Store:
    every_check_holds_or_refuses,
    every_write_states_what_it_expects,
    a_refusal_changes_nothing_and_names_the_condition,
    many_keys_change_at_one_revision,
    put_keeps_the_owner,
    the_limits_are_refused_before_anything_is_sent,
    one_hundred_and_twenty_eight_operations_fit,
    a_check_alone_is_a_transaction,
    a_check_and_a_write_of_one_key_go_together,
    an_old_version_of_a_recreated_key_is_refused_where_that_is_declared,
);

fn key(path: &str) -> Key {
    Key::parse(path).expect("a literal")
}

fn rejected(outcome: TxnOutcome) -> Option<Failed> {
    match outcome {
        TxnOutcome::Rejected(rejection) => {
            Some(rejection.failed.expect("our stores tell which condition failed"))
        }
        TxnOutcome::Committed(_) => None,
    }
}

/// Promise: each kind of check holds exactly when it should.
async fn every_check_holds_or_refuses(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let there = coord.put("/there", "1").await?;
    let wrong_version = Version::new(there.version.get() + 1);
    let wrong_created = Revision::new(there.revision.get() + 1);
    let table = [
        (Check::Absent(key("/absent")), true),
        (Check::Absent(key("/there")), false),
        (Check::Exists(key("/there")), true),
        (Check::Exists(key("/absent")), false),
        (Check::Version(key("/there"), there.version), true),
        (Check::Version(key("/there"), wrong_version), false),
        (Check::Version(key("/there"), Version::new(u64::MAX)), false),
        (Check::Version(key("/absent"), there.version), false),
        (Check::Created(key("/there"), there.revision), true),
        (Check::Created(key("/there"), wrong_created), false),
        (Check::Created(key("/absent"), there.revision), false),
    ];
    for (i, (check, holds)) in table.into_iter().enumerate() {
        let outcome =
            coord.commit(Txn::new().check(check.clone()).put(key(&format!("/made/{i}")), "")).await?;
        assert_eq!(outcome.is_committed(), holds, "{check:?}");
        assert_eq!(coord.get(format!("/made/{i}")).await?.is_some(), holds, "{check:?}");
    }
    Ok(())
}

/// Promise: create wants absence, update and delete want presence, put wants nothing.
async fn every_write_states_what_it_expects(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    coord.put("/there", "1").await?;
    let (there, absent) = (key("/there"), key("/absent"));
    for (txn, fits) in [
        (Txn::new().create(there.clone(), "x", Lifetime::Persistent), false),
        (Txn::new().update(absent.clone(), "x"), false),
        (Txn::new().delete(absent.clone()), false),
        (Txn::new().update(there.clone(), "2"), true),
        (Txn::new().put(there.clone(), "3"), true),
        (Txn::new().put(absent.clone(), "1"), true),
        (Txn::new().delete(absent.clone()), true),
        (Txn::new().create(absent, "1", Lifetime::Persistent), true),
        (Txn::new().delete(there), true),
    ] {
        assert_eq!(coord.commit(txn.clone()).await?.is_committed(), fits, "{txn:?}");
    }
    Ok(())
}

/// Promise: a refused transaction leaves no trace and says which condition it was.
async fn a_refusal_changes_nothing_and_names_the_condition(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    coord.put("/a", "old").await?;
    coord.put("/b", "old").await?;
    let by_check =
        Txn::new().check_exists(key("/a")).check_absent(key("/b")).put(key("/a"), "new").delete(key("/b"));
    assert_eq!(rejected(coord.commit(by_check).await?), Some(Failed::Check(1)));
    let by_write =
        Txn::new().put(key("/a"), "new").create(key("/b"), "new", Lifetime::Persistent).put(key("/c"), "new");
    assert_eq!(rejected(coord.commit(by_write).await?), Some(Failed::Op(1)));
    assert_eq!(coord.get("/a").await?.expect("/a").value, "old");
    assert_eq!(coord.get("/b").await?.expect("/b").value, "old");
    assert!(coord.get("/c").await?.is_none());
    Ok(())
}

/// Promise: all keys of a transaction change together, at one revision.
async fn many_keys_change_at_one_revision(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    coord.put("/gone", "").await?;
    let txn =
        Txn::new().put(key("/x/a"), "1").create(key("/x/b"), "2", Lifetime::Persistent).delete(key("/gone"));
    let commit = coord.commit(txn).await?.committed().expect("nothing stands against it");
    let revision = commit.revision().expect("it wrote");
    assert!(commit.written[2].is_none(), "a deletion writes nothing");
    for path in ["/x/a", "/x/b"] {
        let meta = coord.get(path).await?.expect(path).meta;
        assert_eq!((meta.created, meta.modified), (revision, revision), "{path}");
    }
    assert!(coord.get("/gone").await?.is_none());
    Ok(())
}

/// Promise: a put into an ephemeral key leaves it to its owner.
async fn put_keeps_the_owner(cx: Arc<Cx>) -> CaseResult {
    let session = cx.session().await?;
    let coord = cx.coord().await?;
    session.coord().create("/eph", "1", Lifetime::Session).await?.expect("new");
    coord.put("/eph", "2").await?;
    coord.commit(Txn::new().update(key("/eph"), "3")).await?.committed().expect("there");
    let entry = coord.get("/eph").await?.expect("there");
    assert_eq!((entry.value.as_ref(), entry.meta.owner.as_ref()), (&b"3"[..], Some(session.id())));
    session.close().await?;
    assert!(coord.with_freshness(coord_api::Freshness::Latest).get("/eph").await?.is_none());
    Ok(())
}

/// Promise: what no store takes is a typed error, and nothing happens.
async fn the_limits_are_refused_before_anything_is_sent(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let too_large = vec![0; coord.info().limits.value_max_bytes + 1];
    let many =
        (0..=coord.info().limits.txn_max_ops).fold(Txn::new(), |txn, i| txn.put(key(&format!("/m/{i}")), ""));
    let half = vec![0; coord.info().limits.request_max_bytes / 2 + 1];
    let table = [
        (Txn::new(), ErrorKind::InvalidArgument),
        (Txn::new().put(key("/a"), "1").delete(key("/a")), ErrorKind::InvalidArgument),
        (Txn::new().create(key("/e"), "", Lifetime::Session), ErrorKind::InvalidArgument),
        (Txn::new().put(key("/a"), too_large), ErrorKind::LimitExceeded),
        (Txn::new().put(key("/a"), half.clone()).put(key("/b"), half), ErrorKind::LimitExceeded),
        (many, ErrorKind::LimitExceeded),
    ];
    for (i, (txn, kind)) in table.into_iter().enumerate() {
        let error = coord.commit(txn).await.expect_err("no store takes it");
        assert_eq!((error.kind(), error.outcome()), (kind, Outcome::NotApplied), "row {i}: {error}");
    }
    assert!(coord.list("/").await?.children.is_empty());
    Ok(())
}

/// Promise: a transaction as large as the limit goes through.
async fn one_hundred_and_twenty_eight_operations_fit(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let most = coord.info().limits.txn_max_ops;
    let txn = (0..most).fold(Txn::new(), |txn, i| txn.put(key(&format!("/m/{i}")), format!("{i}")));
    let commit = coord.commit(txn).await?.committed().expect("nothing stands against it");
    assert_eq!(commit.written.len(), most);
    assert_eq!(coord.list("/m").await?.children.len(), most);
    let half = most / 2;
    let txn = (0..half).fold(Txn::new(), |txn, i| {
        txn.check_exists(key(&format!("/m/{}", i + half))).delete(key(&format!("/m/{i}")))
    });
    assert!(coord.commit(txn).await?.is_committed());
    assert_eq!(coord.list("/m").await?.children.len(), most - half);
    let too_many = (0..=half).fold(Txn::new(), |txn, i| {
        txn.check_absent(key(&format!("/n/{i}"))).put(key(&format!("/m/{i}")), "")
    });
    assert_eq!(coord.commit(too_many).await.expect_err("one too many").kind(), ErrorKind::LimitExceeded);
    Ok(())
}

/// Promise: checks without writes are answered.
async fn a_check_alone_is_a_transaction(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    assert!(coord.commit(Txn::new().check_absent(key("/a"))).await?.is_committed());
    assert!(!coord.commit(Txn::new().check_exists(key("/a"))).await?.is_committed());
    assert!(coord.list("/").await?.children.is_empty(), "a check leaves nothing behind");
    Ok(())
}

/// Promise: a key may be checked and written in one transaction, in every combination.
async fn a_check_and_a_write_of_one_key_go_together(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let a = || key("/a");
    let steps: [(Txn, bool); 5] = [
        (Txn::new().check_absent(a()).create(a(), "1", Lifetime::Persistent), true),
        (Txn::new().check_absent(a()).put(a(), "2"), false),
        (Txn::new().check_exists(a()).update(a(), "3"), true),
        (Txn::new().check_exists(a()).delete(a()), true),
        (Txn::new().check_absent(a()).put(a(), "4"), true),
    ];
    for (txn, fits) in steps {
        let outcome = coord.commit(txn.clone()).await.map_err(|e| Failure(format!("{txn:?}: {e:?}")))?;
        assert_eq!(outcome.is_committed(), fits, "{txn:?}");
    }
    Ok(())
}

/// Promise: a store says whether an old version can fit a key that was deleted and created again, and it is so.
async fn an_old_version_of_a_recreated_key_is_refused_where_that_is_declared(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let old = coord.create("/a", "first", Lifetime::Persistent).await?.expect("new");
    coord.delete("/a").await?;
    let new = coord.create("/a", "second", Lifetime::Persistent).await?.expect("new");
    assert!(new.revision > old.revision);
    let fooled = coord.compare_and_set("/a", old.version, "by an old version").await?.is_some();
    assert_eq!(!fooled, coord.info().guarantees.check_survives_recreate, "stronger or weaker than declared");
    // The check for such cases holds on every store.
    let by_creation = Txn::new().check(Check::Created(key("/a"), old.revision)).put(key("/a"), "never");
    assert!(!coord.commit(by_creation).await?.is_committed());
    Ok(())
}
