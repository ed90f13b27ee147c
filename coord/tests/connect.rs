//! Opening stores: what works, and what is said when it does not.
#![cfg(feature = "memory")]

use std::{sync::Arc, time::Duration};

use coord::{
    Config, ErrorKind,
    api::{Backend, BackendFactory, OptionSpec},
};

async fn refused(url: &str) -> coord::Error {
    let error = coord::connect(url).await.expect_err(url);
    assert_eq!(error.kind(), ErrorKind::Config, "{url}: {error}");
    error
}

#[tokio::test]
async fn handles_of_one_name_share_a_store() {
    let a = coord::connect("memory:connect-shared").await.unwrap();
    let b = coord::connect("memory:connect-shared").await.unwrap();
    a.put("/greeting", "hello").await.unwrap();
    assert_eq!(b.get("/greeting").await.unwrap().unwrap().value, "hello");
}

#[tokio::test]
async fn what_is_unknown_is_refused_with_the_nearest() {
    let error = refused("memroy:x").await.to_string();
    assert!(error.contains("did you mean \"memory\"?") && error.contains("known="), "{error}");
    let error = refused("memory:x?operation_timeuot=1s").await.to_string();
    assert!(error.contains("did you mean \"operation_timeout\"?"), "{error}");
}

#[tokio::test]
async fn time_outs_that_cannot_work_are_refused() {
    for value in ["0s", "0ms", "2h", "99999999h", "5", "soon"] {
        for name in ["operation_timeout", "connect_timeout"] {
            let error = refused(&format!("memory:x?{name}={value}")).await.to_string();
            assert!(error.contains(name), "{error}");
        }
    }
    assert!(coord::connect("memory:x?operation_timeout=1h&connect_timeout=1ms").await.is_ok());
}

#[cfg(not(feature = "etcd"))]
#[tokio::test]
async fn a_backend_that_was_not_built_in_names_its_feature() {
    let error = refused("etcd://u:s3cret@127.0.0.1:1").await.to_string();
    assert!(error.contains("--features etcd") && !error.contains("s3cret"), "{error}");
}

#[tokio::test]
async fn a_file_names_the_store_and_a_broken_one_is_named_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("coord.toml");
    std::fs::write(&path, "url = \"memory:connect-file\"\nnamespace = \"orders\"\n").unwrap();
    let namespaced = coord::from_config(&path).await.unwrap();
    let whole = coord::connect("memory:connect-file").await.unwrap();
    namespaced.put("/a", "1").await.unwrap();
    assert!(whole.get("/orders/a").await.unwrap().is_some());

    std::fs::write(&path, "url = \"memory:x\"\npassword = \"s3cret\n").unwrap();
    let error = coord::from_config(&path).await.unwrap_err().to_string();
    assert!(error.contains("coord.toml") && error.contains("line=2"), "{error}");
    assert!(!error.contains("s3cret"), "{error}");

    std::fs::write(&path, "url = \"memory:x\"\nnamspace = \"a\"\n").unwrap();
    let error = coord::from_config(&path).await.unwrap_err().to_string();
    assert!(error.contains("coord.toml") && error.contains("did you mean \"namespace\"?"), "{error}");

    let error = coord::from_config(dir.path().join("none.toml")).await.unwrap_err().to_string();
    assert!(error.contains("none.toml"), "{error}");
}

/// A store whose revisions begin anew gets tokens that outrank those of the store before it.
#[tokio::test]
async fn the_fence_epoch_of_url_and_file_is_the_high_part_of_every_token() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("coord.toml");
    std::fs::write(&path, "url = \"memory:\"\nfence_epoch = 8\n").unwrap();
    let stores = [
        (0, coord::connect("memory:").await.unwrap()),
        (7, coord::connect("memory:?fence_epoch=7").await.unwrap()),
        (8, coord::from_config(&path).await.unwrap()),
        (u32::MAX, coord::connect("memory:?fence_epoch=4294967295").await.unwrap()),
    ];
    let fence = coord::Fence::new();
    for (epoch, store) in stores {
        let session = store.session(Duration::from_secs(10)).await.unwrap();
        let guard = coord::Lock::new(&session, "/locks/a").unwrap().acquire().await.unwrap();
        assert_eq!(guard.token().get() >> 64, u128::from(epoch));
        fence.admit(guard.token(), || ()).unwrap();
        guard.release().await.unwrap();
        let permit = coord::Semaphore::open(&session, "/limits/a", 1).await.unwrap().acquire().await.unwrap();
        assert_eq!(permit.token().get() >> 64, u128::from(epoch));
        permit.release().await.unwrap();
    }
    for value in ["-1", "4294967296", "one", ""] {
        let error = refused(&format!("memory:?fence_epoch={value}")).await.to_string();
        assert!(error.contains("fence_epoch"), "{value}: {error}");
    }
}

/// Somebody else's backend: here one that opens a memory store under another scheme.
#[derive(Debug)]
struct Theirs;

#[async_trait::async_trait]
impl BackendFactory for Theirs {
    fn schemes(&self) -> &'static [&'static str] {
        &["theirs"]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &[]
    }

    async fn connect(&self, _: &Config) -> coord::Result<Arc<dyn Backend>> {
        let memory = coord::registry().connect(&Config::from_url("memory:")?).await?;
        Ok(Arc::clone(memory.backend()))
    }
}

#[tokio::test]
async fn a_backend_of_others_joins_by_its_scheme() {
    let registry = coord::registry().with(Theirs);
    let config = Config::from_url("theirs://somewhere:1").unwrap();
    let store = coord::connect_through(&registry, &config).await.unwrap();
    let session = store.session(Duration::from_secs(10)).await.unwrap();
    let guard = coord::Lock::new(&session, "/locks/a").unwrap().acquire().await.unwrap();
    guard.release().await.unwrap();
}
