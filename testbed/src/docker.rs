//! Servers in containers of the local Docker engine.

mod images;

use std::{
    collections::{HashMap, VecDeque},
    env,
    net::Ipv4Addr,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use futures::StreamExt;
use testcontainers::{
    ContainerAsync, ContainerRequest, GenericImage, ImageExt,
    bollard::{
        Docker,
        models::{HostConfig, PortBinding},
        query_parameters::{
            KillContainerOptions, ListContainersOptionsBuilder, LogsOptionsBuilder,
            RemoveContainerOptionsBuilder,
        },
    },
    core::{IntoContainerPort, client::docker_client_instance},
    runners::AsyncRunner,
};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

pub(crate) use self::images::offers;
use crate::{
    Kind, Result, ServerOptions, TestbedError,
    address::Address,
    config::{self, Members, Place, TlsPaths},
    registry::Process,
};

/// On every container of ours.
const LABEL: &str = "coord.test";
/// The process that a container belongs to.
const OWNER: &str = "coord.owner";

/// Where things are in a container.
const ZK_DATA: &str = "/data";
const ETCD_DATA: &str = "/var/lib/etcd";
const REDIS_DATA: &str = "/data";
const TLS: &str = "/tls";

fn docker(what: impl Into<String>, error: impl std::fmt::Display) -> TestbedError {
    TestbedError::Docker { what: what.into(), message: error.to_string() }
}

/// The engine, if it is one of this machine and answers.
async fn engine() -> Result<Docker> {
    if let Ok(host) = env::var("DOCKER_HOST")
        && !host.starts_with("unix:")
    {
        // Ports are published on loopback addresses, which are another machine's there.
        return Err(docker("use the engine", format!("DOCKER_HOST={host} is not on this machine")));
    }
    docker_client_instance().await.map_err(|error| docker("find the engine", error))
}

/// One server in a container.
pub(crate) struct DockerServer {
    /// There until the container is removed.
    container: Option<ContainerAsync<GenericImage>>,
    engine: Docker,
    id: String,
    log: Arc<Mutex<VecDeque<u8>>>,
    follower: JoinHandle<()>,
}

impl std::fmt::Debug for DockerServer {
    // By hand: the command of the container holds passwords.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DockerServer").field("id", &self.id).finish_non_exhaustive()
    }
}

impl DockerServer {
    /// Starts the container; the server in it may not answer yet.
    pub(crate) async fn start(kind: Kind, options: &ServerOptions, address: &Address) -> Result<Self> {
        static SWEPT: AtomicBool = AtomicBool::new(false);
        let engine = engine().await?;
        if !SWEPT.swap(true, Ordering::Relaxed)
            && let Err(error) = sweep().await
        {
            tracing::warn!(%error, "could not sweep stale containers");
        }
        let name = container_name(kind);
        let request = request(kind, options, address).await?.with_container_name(&name);
        let container = match request.start().await {
            Ok(container) => container,
            Err(error) => {
                // A container that was made but could not be started has no owner to remove it.
                let _ = remove(&engine, &name).await;
                return Err(docker(
                    format!("start {}", images::reference(kind)),
                    images::explain(kind, &error),
                ));
            }
        };
        let id = container.id().to_owned();
        let log = Arc::default();
        let follower = follow(&engine, &id, Arc::clone(&log));
        Ok(DockerServer { container: Some(container), engine, id, log, follower })
    }

    fn container(&self) -> Result<&ContainerAsync<GenericImage>> {
        self.container.as_ref().ok_or_else(|| docker("use the container", "it has been removed"))
    }

    /// How it ended, if it has: the log of a container ends with it.
    pub(crate) fn ended(&self) -> Option<String> {
        self.follower.is_finished().then(|| "the container has stopped".to_owned())
    }

    pub(crate) async fn kill(&self) -> Result<()> {
        let container = self.container()?;
        let running =
            async || container.is_running().await.map_err(|error| docker("ask for the state", error));
        if !running().await? {
            return Ok(());
        }
        let kill = async || self.engine.kill_container(&self.id, None::<KillContainerOptions>).await;
        if let Err(error) = kill().await
            && running().await?
        {
            // Some engines refuse to kill what is paused. It may run for a moment then.
            container.unpause().await.map_err(|_| docker("kill", &error))?;
            kill().await.map_err(|error| docker("kill", error))?;
        }
        while running().await? {
            sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    pub(crate) async fn restart(&mut self) -> Result<()> {
        self.kill().await?;
        // The engine may hold on to the published port for a moment after the end.
        let deadline = Instant::now() + Duration::from_secs(5);
        while let Err(error) = self.container()?.start().await {
            if Instant::now() >= deadline {
                return Err(docker("start again", error));
            }
            sleep(Duration::from_millis(50)).await;
        }
        self.follower.abort();
        self.follower = follow(&self.engine, &self.id, Arc::clone(&self.log));
        Ok(())
    }

    pub(crate) async fn pause(&self) -> Result<()> {
        self.container()?.pause().await.map_err(|error| docker("pause", error))
    }

    pub(crate) async fn resume(&self) -> Result<()> {
        self.container()?.unpause().await.map_err(|error| docker("resume", error))
    }

    pub(crate) async fn remove(&mut self) -> Result<()> {
        self.follower.abort();
        match self.container.take() {
            Some(container) => container.rm().await.map_err(|error| docker("remove", error)),
            None => Ok(()),
        }
    }

    pub(crate) fn log_tail(&self) -> String {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = log.iter().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for DockerServer {
    fn drop(&mut self) {
        self.follower.abort();
        let Some(container) = self.container.take() else { return };
        if tokio::runtime::Handle::try_current().is_ok() {
            drop(container);
            return;
        }
        // Its own drop needs a runtime, and would panic without.
        let removal = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            if let Ok(runtime) = runtime {
                let _ = runtime.block_on(container.rm());
            }
        });
        let _ = removal.join();
    }
}

fn container_name(kind: Kind) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("coord-test-{}-{number}-{kind}", std::process::id())
}

/// Keeps the end of the container's log.
fn follow(engine: &Docker, id: &str, log: Arc<Mutex<VecDeque<u8>>>) -> JoinHandle<()> {
    const TAIL: usize = 4096;
    let options = LogsOptionsBuilder::new().follow(true).stdout(true).stderr(true).tail("50").build();
    let mut lines = Box::pin(engine.logs(id, Some(options)));
    tokio::spawn(async move {
        while let Some(Ok(output)) = lines.next().await {
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            log.extend(output.into_bytes());
            let surplus = log.len().saturating_sub(TAIL);
            log.drain(..surplus);
        }
    })
}

async fn request(
    kind: Kind,
    options: &ServerOptions,
    address: &Address,
) -> Result<ContainerRequest<GenericImage>> {
    let reference = images::reference(kind);
    let (name, tag) = images::split(&reference);
    let mut request = GenericImage::new(name, tag)
        .with_label(LABEL, "1")
        .with_label(OWNER, owner())
        // Redis does not start with a locale its libc does not know.
        .with_env_var("LC_ALL", "C");

    // Published on the address that is the server's own, with its standard port: both stay the
    // same when the container is started again, unlike a port chosen by the engine.
    let ports: Vec<_> = [kind.port(), kind.tls_port()].map(|port| (port, address.socket(port))).into();
    for (port, _) in &ports {
        request = request.with_mapped_port(0, port.tcp());
    }
    request = request.with_host_config_modifier(move |host: &mut HostConfig| {
        let binding = |addr: &std::net::SocketAddr| PortBinding {
            host_ip: Some(addr.ip().to_string()),
            host_port: Some(addr.port().to_string()),
        };
        let bindings = ports.iter().map(|(port, addr)| (format!("{port}/tcp"), Some(vec![binding(addr)])));
        host.port_bindings = Some(bindings.collect::<HashMap<_, _>>());
        host.publish_all_ports = Some(false);
    });

    let inside = |name: &str| Path::new(TLS).join(name);
    let (ca, cert, key, bundle) =
        (inside("ca.pem"), inside("cert.pem"), inside("key.pem"), inside("bundle.pem"));
    let mut tls = None;
    if let Some(files) = &options.tls {
        let identity = files.issue(address.ip()).await?;
        let copies = [
            (&ca, files.ca.clone()),
            (&cert, identity.cert.clone()),
            (&key, identity.key.clone()),
            (&bundle, identity.bundle()),
        ];
        for (to, from) in copies {
            let bytes = tokio::fs::read(&from).await.map_err(TestbedError::io("read a certificate"))?;
            request = request.with_copy_to(to.display().to_string(), bytes);
        }
        tls = Some(TlsPaths { ca: &ca, cert: &cert, key: &key, bundle: &bundle });
    }

    let members = Members { all: std::slice::from_ref(address), me: 0 };
    let place =
        |data: &'static str| Place { listen: Ipv4Addr::UNSPECIFIED.into(), data: Path::new(data), tls };
    Ok(match kind {
        Kind::ZooKeeper | Kind::ZooKeeper38 => {
            let config = config::zoo_cfg(options, place(ZK_DATA), members);
            request
                .with_copy_to("/conf/zoo.cfg", config.into_bytes())
                .with_env_var("JVMFLAGS", config::jvm_flags(options))
        }
        Kind::Etcd => request.with_cmd(command("etcd", config::etcd(options, place(ETCD_DATA), members))),
        Kind::Redis | Kind::Valkey => {
            request.with_cmd(command(kind.binary(), config::redis(kind, options, place(REDIS_DATA), members)))
        }
    })
}

fn command(program: &str, args: Vec<String>) -> impl Iterator<Item = String> {
    std::iter::once(program.to_owned()).chain(args)
}

/// Names this process: number and start, and the space in which the number counts, since
/// processes of several containers may share one engine.
fn owner() -> String {
    let started = Process::find(std::process::id()).map_or(0, |process| process.started);
    format!("{} {started} {}", std::process::id(), space())
}

fn space() -> String {
    std::fs::read_link("/proc/self/ns/pid").map_or_else(|_| String::new(), |link| link.display().to_string())
}

/// Whether the owner named in a label is known to be gone.
fn is_gone(owner: &str) -> bool {
    let mut words = owner.splitn(3, ' ');
    let (pid, started) = (words.next(), words.next());
    let (Some(Ok(pid)), Some(Ok(started))) = (pid.map(str::parse), started.map(str::parse)) else {
        return false;
    };
    let here = space();
    started != 0 && !here.is_empty() && words.next() == Some(&here) && !Process { pid, started }.alive()
}

/// Removes containers whose test run is gone. No engine means nothing to remove.
pub(crate) async fn sweep() -> Result<usize> {
    let Ok(engine) = engine().await else { return Ok(0) };
    if engine.ping().await.is_err() {
        return Ok(0);
    }
    let filters = HashMap::from([("label", vec![format!("{LABEL}=1")])]);
    let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    let all =
        engine.list_containers(Some(options)).await.map_err(|error| docker("list containers", error))?;
    let mut swept = 0;
    for container in all {
        let gone = container.labels.as_ref().and_then(|labels| labels.get(OWNER)).is_some_and(|o| is_gone(o));
        if let (true, Some(id)) = (gone, container.id) {
            remove(&engine, &id).await?;
            swept += 1;
        }
    }
    Ok(swept)
}

async fn remove(engine: &Docker, name: &str) -> Result<()> {
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    engine.remove_container(name, Some(options)).await.map_err(|error| docker("remove", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_owner_known_to_be_gone_is_gone() {
        assert!(!is_gone(&owner()));
        let me = Process::find(std::process::id()).unwrap();
        assert!(is_gone(&format!("{} {} {}", me.pid, me.started + 1, space())));
        for unknown in ["", "1", "x y z", "1 0 pid:[1]", "4000000 5 pid:[1]"] {
            assert!(!is_gone(unknown), "{unknown}");
        }
    }
}
