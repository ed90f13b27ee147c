//! A server under the control of a test.

use std::{net::SocketAddr, path::Path, slice, time::Duration};

use crate::{
    Auth, Framing, Kind, Provider, Proxy, Result, ServerOptions, TestbedError, TlsFiles,
    address::Address,
    config::{self, Members},
    handshake::{Probe, Waited, http},
    local::LocalServer,
    remote::Remote,
};

/// A server under the control of a test.
///
/// Dropping it kills it and removes its data. So does the end of the test process, whatever its
/// cause: for local servers at once, for containers at the next [`sweep`](crate::sweep).
#[derive(Debug)]
pub struct Server {
    kind: Kind,
    host: Host,
    probe: Probe,
    /// Without credentials.
    url: String,
    version: String,
    tls: Option<TlsFiles>,
    timeout: Duration,
}

#[derive(Debug)]
enum Host {
    // The address goes after the server: it is free again when nobody binds it any more.
    Local(Box<LocalServer>, Address),
    #[cfg(feature = "docker")]
    Docker(Box<crate::docker::DockerServer>, Address),
    /// Somebody else's.
    Url,
}

const BY_URL: &str = "the provider `url`";

impl Server {
    /// Starts a server and returns when it has answered a real handshake of its protocol: a
    /// session made on ZooKeeper, a healthy answer of etcd, a `PONG` of Redis.
    ///
    /// With [`Provider::Url`] nothing is started, only the handshake is made; of the options only
    /// the credentials and the timeout matter then, and credentials in the URL go before them.
    /// A server with TLS at a URL is only connected to.
    ///
    /// # Errors
    /// [`NotReady`](TestbedError::NotReady) after the time set by
    /// [`start_timeout`](ServerOptions::start_timeout), [`Exited`](TestbedError::Exited) if the
    /// server ends before; both carry the end of its log. [`Off`](TestbedError::Off) for
    /// [`Provider::Off`].
    ///
    /// # Cancel safety
    /// Safe: what was started is killed.
    pub async fn start(kind: Kind, provider: &Provider, options: ServerOptions) -> Result<Server> {
        config::check(kind, &options)?;
        let mut server = match provider {
            Provider::Off => return Err(TestbedError::Off { kind }),
            Provider::Url(url) => Server::remote(kind, url, options).await?,
            Provider::Local(bin) => {
                let address = Address::claim(&config::ports(kind))?;
                let members = Members { all: slice::from_ref(&address), me: 0 };
                let local = Server::spawn(kind, bin, &options, members).await?;
                Server::local(kind, local, address, options.clone())
            }
            #[cfg(feature = "docker")]
            Provider::Docker => {
                let address = Address::claim(&config::ports(kind))?;
                let container = crate::docker::DockerServer::start(kind, &options, &address).await?;
                Server::on(kind, Host::Docker(Box::new(container), address), options.clone())
            }
            #[cfg(not(feature = "docker"))]
            Provider::Docker => {
                return Err(TestbedError::Unsupported {
                    what: "start containers: built without the feature `docker`",
                    by: "this build",
                });
            }
        };
        server.ready().await?;
        if !matches!(server.host, Host::Url) {
            server.set_up().await?;
        }
        Ok(server)
    }

    /// Starts a local process that may not answer yet.
    pub(crate) async fn spawn(
        kind: Kind,
        bin: &Path,
        options: &ServerOptions,
        members: Members<'_>,
    ) -> Result<LocalServer> {
        let identity = match (&options.tls, members.all.get(members.me)) {
            (Some(files), Some(own)) => Some(files.issue(own.ip()).await?),
            _ => None,
        };
        LocalServer::start(kind, bin, options, members, identity.as_ref()).await
    }

    pub(crate) fn local(kind: Kind, local: LocalServer, address: Address, options: ServerOptions) -> Server {
        Server::on(kind, Host::Local(Box::new(local), address), options)
    }

    fn on(kind: Kind, host: Host, options: ServerOptions) -> Server {
        let (plain, addr, scheme) = match &host {
            Host::Url => (None, SocketAddr::from(([0; 4], 0)), kind.scheme()),
            Host::Local(_, address) => at(kind, address, options.tls.is_some()),
            #[cfg(feature = "docker")]
            Host::Docker(_, address) => at(kind, address, options.tls.is_some()),
        };
        Server {
            kind,
            host,
            url: format!("{scheme}://{addr}"),
            probe: Probe { kind, plain, addr, auth: options.auth },
            version: String::new(),
            tls: options.tls,
            timeout: options.start_timeout,
        }
    }

    async fn remote(kind: Kind, url: &str, mut options: ServerOptions) -> Result<Server> {
        let remote = Remote::resolve(kind, url).await?;
        options.auth = remote.auth.or(options.auth);
        let mut server = Server::on(kind, Host::Url, options);
        server.probe.addr = remote.addr;
        server.probe.plain = (!remote.tls).then_some(remote.addr);
        server.url = remote.url;
        Ok(server)
    }

    /// Waits for the handshake.
    pub(crate) async fn ready(&mut self) -> Result<()> {
        let host = &mut self.host;
        let waited = self.probe.until_ready(self.timeout, || host.ended()).await;
        self.version = waited.map_err(|waited| match waited {
            Waited::Gone(status) => {
                TestbedError::Exited { kind: self.kind, status, log: self.host.log_tail() }
            }
            Waited::TooLong(last) => TestbedError::NotReady {
                kind: self.kind,
                addr: self.probe.addr,
                waited: self.timeout,
                last,
                log: self.host.log_tail(),
            },
        })?;
        Ok(())
    }

    /// What can only be set up on a running server: etcd's users. Survives restarts.
    pub(crate) async fn set_up(&self) -> Result<()> {
        let (Kind::Etcd, Some(Auth { user, password }), Some(plain)) =
            (self.kind, &self.probe.auth, self.probe.plain)
        else {
            return Ok(());
        };
        let call = async |path: &str, body: String| {
            http(plain, "POST", path, &body).await.map_err(|message| TestbedError::Setup {
                what: "turn etcd's authentication on".to_owned(),
                message,
            })
        };
        let mut users = vec!["root"];
        if user != "root" {
            users.push(user);
        }
        for name in users {
            let (name, password) = (json(name), json(password));
            call("/v3/auth/user/add", format!("{{\"name\":{name},\"password\":{password}}}")).await?;
            call("/v3/auth/user/grant", format!("{{\"user\":{name},\"role\":\"root\"}}")).await?;
        }
        call("/v3/auth/enable", "{}".to_owned()).await.map(drop)
    }

    /// Where clients connect, without credentials: `zk://`, `etcd://` or `redis://` and the
    /// address; with TLS `zks://`, `etcds://` or `rediss://`. With [`Provider::Url`], that URL.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Where clients connect. The same after [`restart`](Server::restart).
    pub fn addr(&self) -> SocketAddr {
        self.probe.addr
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its version as the server reports it, such as `3.9.3`; `unknown` if it does not tell.
    pub fn version(&self) -> String {
        self.version.clone()
    }

    /// The credentials it asks for.
    pub fn auth(&self) -> Option<&Auth> {
        self.probe.auth.as_ref()
    }

    /// The certificates, if it serves TLS.
    pub fn tls(&self) -> Option<&TlsFiles> {
        self.tls.as_ref()
    }

    /// The process, if it is one of this machine and runs.
    pub fn pid(&self) -> Option<u32> {
        match &self.host {
            Host::Local(local, _) => local.pid(),
            _ => None,
        }
    }

    /// Kills it with SIGKILL, also while it is paused. Returns when it is gone. Its data stays; on
    /// one already killed this does nothing.
    ///
    /// # Errors
    /// [`Unsupported`](TestbedError::Unsupported) with [`Provider::Url`].
    pub async fn kill(&mut self) -> Result<()> {
        match &mut self.host {
            Host::Local(local, _) => local.kill().await,
            #[cfg(feature = "docker")]
            Host::Docker(container, _) => container.kill().await,
            Host::Url => Err(TestbedError::Unsupported { what: "kill a server", by: BY_URL }),
        }
    }

    /// Starts it again, at the same address with the same data, and waits for the handshake. One
    /// that still runs is killed first.
    ///
    /// # Errors
    /// As [`start`](Server::start), and [`Unsupported`](TestbedError::Unsupported) with
    /// [`Provider::Url`].
    pub async fn restart(&mut self) -> Result<()> {
        match &mut self.host {
            Host::Local(local, _) => local.restart().await?,
            #[cfg(feature = "docker")]
            Host::Docker(container, _) => container.restart().await?,
            Host::Url => return Err(TestbedError::Unsupported { what: "restart a server", by: BY_URL }),
        }
        self.ready().await
    }

    /// Stops it from running (SIGSTOP) with everything as it is: connections stay open, the kernel
    /// still accepts new ones, nothing is answered. Returns when all of its threads stand still.
    ///
    /// # Errors
    /// [`Unsupported`](TestbedError::Unsupported) with [`Provider::Url`],
    /// [`Io`](TestbedError::Io) if it does not run.
    pub async fn pause(&self) -> Result<()> {
        match &self.host {
            Host::Local(local, _) => local.pause().await,
            #[cfg(feature = "docker")]
            Host::Docker(container, _) => container.pause().await,
            Host::Url => Err(TestbedError::Unsupported { what: "pause a server", by: BY_URL }),
        }
    }

    /// Lets it run on after [`pause`](Server::pause).
    ///
    /// # Errors
    /// As [`pause`](Server::pause).
    #[cfg_attr(not(feature = "docker"), expect(clippy::unused_async, reason = "awaits with `docker`"))]
    pub async fn resume(&self) -> Result<()> {
        match &self.host {
            Host::Local(local, _) => local.resume(),
            #[cfg(feature = "docker")]
            Host::Docker(container, _) => container.resume().await,
            Host::Url => Err(TestbedError::Unsupported { what: "resume a server", by: BY_URL }),
        }
    }

    /// Ends it and removes its data and container. Unlike a drop this reports what went wrong, and
    /// does not block the thread. With [`Provider::Url`] it does nothing.
    ///
    /// # Errors
    /// If the system or the container engine refuses.
    pub async fn stop(mut self) -> Result<()> {
        match &mut self.host {
            Host::Local(local, _) => local.kill().await,
            #[cfg(feature = "docker")]
            Host::Docker(container, _) => container.remove().await,
            Host::Url => Ok(()),
        }
    }

    /// The last few kilobytes of its log, for the message of a failed test.
    pub fn log_tail(&self) -> String {
        self.host.log_tail()
    }

    /// Puts a proxy before it that understands its protocol. With TLS the proxy sees no requests:
    /// [`requests`](Proxy::requests) stays 0 and [`lose_reply`](Proxy::lose_reply) never fires.
    ///
    /// # Errors
    /// If no port can be bound.
    pub async fn proxied(&self) -> Result<Proxy> {
        let tls = self.probe.plain != Some(self.probe.addr);
        let framing = if tls { Framing::Opaque } else { self.kind.framing() };
        let scheme = if tls { self.kind.tls_scheme() } else { self.kind.scheme() };
        Proxy::start_as(self.probe.addr, framing, scheme).await.map_err(TestbedError::io("start a proxy"))
    }
}

impl Host {
    fn ended(&mut self) -> Option<String> {
        match self {
            Host::Local(local, _) => local.ended(),
            #[cfg(feature = "docker")]
            Host::Docker(container, _) => container.ended(),
            Host::Url => None,
        }
    }

    fn log_tail(&self) -> String {
        match self {
            Host::Local(local, _) => local.log_tail(),
            #[cfg(feature = "docker")]
            Host::Docker(container, _) => container.log_tail(),
            Host::Url => String::new(),
        }
    }
}

/// The plain address, the one for clients, and its scheme.
fn at(kind: Kind, address: &Address, tls: bool) -> (Option<SocketAddr>, SocketAddr, &'static str) {
    let plain = address.socket(kind.port());
    if tls {
        (Some(plain), address.socket(kind.tls_port()), kind.tls_scheme())
    } else {
        (Some(plain), plain, kind.scheme())
    }
}

/// A JSON string.
fn json(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out += &format!("\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out + "\""
}
