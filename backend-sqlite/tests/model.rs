//! Random transactions do what they do on the reference store.

use coord_api::{
    Config, Coord, Entry, Failed, Key, Lifetime, Outcome, Registry, Txn, TxnOutcome, Version, kit::Runtime,
};
use coord_backend_memory::MemoryFactory;
use coord_backend_sqlite::SqliteFactory;

/// Few, some above others, so that transactions meet.
const KEYS: [&str; 7] = ["/a", "/a/b", "/a/b/c", "/b", "/b0", "/c/d", "/c/e"];
const ROUNDS: usize = 1500;

/// One part of a transaction, in words that both stores understand: versions are told by whether they are the current.
type Part = (usize, usize, bool);

fn txn(parts: &[Part], current: impl Fn(&str) -> Option<Entry>) -> Txn {
    parts.iter().fold(Txn::new(), |txn, (what, key, right)| {
        let key = KEYS[*key];
        let version = current(key).map_or(Version::new(1), |entry| entry.meta.version);
        let version = if *right { version } else { Version::new(version.get() + 1) };
        match what {
            0 => txn.check_absent(key),
            1 => txn.check_exists(key),
            2 => txn.check_version(key, version),
            3 => txn.create(key, "created", Lifetime::Persistent),
            4 => txn.update(key, "updated"),
            5 => txn.put(key, "put"),
            _ => txn.delete(key),
        }
    })
}

/// What came out, in the same words: applied, refused by which part, or the kind of the error.
async fn outcome(coord: &Coord, parts: &[Part]) -> Result<Option<Failed>, String> {
    let mut entries = Vec::new();
    for key in KEYS {
        entries.extend(coord.get(key).await.expect("read"));
    }
    let current = |key: &str| entries.iter().find(|entry| entry.key.as_str() == key).cloned();
    match coord.commit(txn(parts, current)).await {
        Ok(TxnOutcome::Committed(_)) => Ok(None),
        Ok(TxnOutcome::Rejected(rejection)) => Ok(rejection.failed),
        Err(error) => {
            assert_eq!(error.outcome(), Outcome::NotApplied);
            Err(error.kind().to_string())
        }
    }
}

async fn contents(coord: &Coord) -> Vec<(Key, Option<bytes::Bytes>)> {
    let mut all = Vec::new();
    for dir in ["/", "/a", "/a/b", "/c"] {
        for child in coord.list(dir).await.expect("listed").children {
            let value = coord.get(&child.key).await.expect("read").map(|entry| entry.value);
            all.push((child.key, value));
        }
    }
    all
}

#[tokio::test]
async fn random_transactions_do_what_they_do_on_the_reference_store() {
    let dir = tempfile::tempdir().unwrap();
    let registry = Registry::new().with(MemoryFactory).with(SqliteFactory);
    let url = format!("sqlite:{}/x.db?synchronous=off", dir.path().display());
    let file = registry.connect(&Config::from_url(&url).unwrap()).await.unwrap();
    let memory = registry.connect(&Config::from_url("memory:").unwrap()).await.unwrap();
    let random = Runtime::library().unwrap().with_seed(20);
    let draw = |below: usize| usize::try_from(random.nonce().get() % below as u128).expect("small");
    let mut applied = 0;
    for round in 0..ROUNDS {
        let parts: Vec<Part> = (0..=draw(3)).map(|_| (draw(7), draw(KEYS.len()), draw(4) > 0)).collect();
        let (expected, got) = (outcome(&memory, &parts).await, outcome(&file, &parts).await);
        assert_eq!(got, expected, "round {round}: {parts:?}");
        applied += usize::from(got == Ok(None));
        if round % 10 == 0 {
            assert_eq!(contents(&file).await, contents(&memory).await, "round {round}");
        }
    }
    assert!((ROUNDS / 10..ROUNDS * 9 / 10).contains(&applied), "{applied}");
}
