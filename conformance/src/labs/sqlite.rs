//! Rigs of the embedded store: files of their own, and handles that can be held up as by a disk that hangs.

use std::{path::PathBuf, sync::Arc};

use crate::{Client, Failure, Lab, Link, Need, Rig, labs::opened};
use async_trait::async_trait;
use coord_api::Config;
use coord_backend_sqlite::{Faults, SqliteBackend};
use tempfile::TempDir;

/// Makes files in a directory that goes with it.
#[derive(Debug)]
pub struct SqliteLab(TempDir);

#[derive(Debug)]
struct SqliteRig {
    dir: TempDir,
}

#[derive(Debug)]
struct SqliteLink(Faults);

fn file(dir: &TempDir) -> PathBuf {
    dir.path().join("coord.db")
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure(error.to_string())
}

impl SqliteLab {
    /// A new directory.
    ///
    /// # Errors
    /// If the system gives none.
    pub fn new() -> Result<Self, Failure> {
        tempfile::tempdir().map(Self).map_err(failed)
    }

    /// The URL of the file that the cases share.
    #[must_use]
    pub fn url(&self) -> String {
        format!("sqlite:{}", file(&self.0).display())
    }
}

#[async_trait]
impl Lab for SqliteLab {
    fn offers(&self, need: Need) -> Result<(), String> {
        match need {
            Need::Store | Need::Link => Ok(()),
            Need::Server => Err("an embedded store has no server to kill or pause".to_owned()),
        }
    }

    async fn rig(&self) -> Result<Arc<dyn Rig>, Failure> {
        Ok(Arc::new(SqliteRig { dir: tempfile::tempdir().map_err(failed)? }))
    }
}

fn no_server() -> Result<(), Failure> {
    Err(Failure("not offered".to_owned()))
}

#[async_trait]
impl Rig for SqliteRig {
    async fn client(&self, namespace: &str) -> Result<Client, Failure> {
        let config = Config::from_url(&format!("sqlite:{}", file(&self.dir).display()))?;
        let backend = SqliteBackend::connect(&config).await?;
        let faults = backend.faults();
        let coord = opened(Arc::new(backend), namespace).await?;
        Ok(Client { coord, link: Arc::new(SqliteLink(faults)) })
    }

    async fn kill(&self) -> Result<(), Failure> {
        no_server()
    }

    async fn restart(&self) -> Result<(), Failure> {
        no_server()
    }

    async fn pause(&self) -> Result<(), Failure> {
        no_server()
    }

    async fn resume(&self) -> Result<(), Failure> {
        no_server()
    }
}

#[async_trait]
impl Link for SqliteLink {
    async fn blackhole(&self) {
        self.0.cut_off();
    }

    async fn heal(&self) {
        self.0.reconnect();
    }

    async fn reset(&self) -> Result<(), Failure> {
        self.0.cut_watches();
        Ok(())
    }

    async fn lose_reply(&self, nth: u64) -> Result<(), Failure> {
        self.0.lose_reply(nth);
        Ok(())
    }
}
