//! Rigs of the memory store: its own faults stand in for links.

use std::sync::Arc;

use crate::{Client, Failure, Lab, Link, Need, Rig, labs::opened};
use async_trait::async_trait;
use coord_api::kit::Runtime;
use coord_backend_memory::{Fault, Faults, MemoryBackend, MemoryStore};

/// Makes stores in this process.
#[derive(Debug)]
pub struct MemoryLab;

#[derive(Debug)]
struct MemoryRig {
    store: MemoryStore,
    runtime: Runtime,
}

#[derive(Debug)]
struct MemoryLink(Faults);

#[async_trait]
impl Lab for MemoryLab {
    fn offers(&self, need: Need) -> Result<(), String> {
        match need {
            Need::Store | Need::Link => Ok(()),
            Need::Server => Err("a store in memory has no server to kill or pause".to_owned()),
        }
    }

    async fn rig(&self) -> Result<Arc<dyn Rig>, Failure> {
        let runtime = Runtime::current()?;
        Ok(Arc::new(MemoryRig { store: MemoryStore::new(&runtime), runtime }))
    }
}

fn no_server() -> Result<(), Failure> {
    Err(Failure("not offered".to_owned()))
}

#[async_trait]
impl Rig for MemoryRig {
    async fn client(&self, namespace: &str) -> Result<Client, Failure> {
        let backend = MemoryBackend::new(&self.store, self.runtime.clone());
        let faults = backend.faults();
        let coord = opened(Arc::new(backend), namespace).await?;
        Ok(Client { coord, link: Arc::new(MemoryLink(faults)) })
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
impl Link for MemoryLink {
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
        self.0.plan(nth, Fault::LoseReply);
        Ok(())
    }
}
