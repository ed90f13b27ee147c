//! The settings of each kind of server, for a process or a container alike.

use std::{
    fmt::Write as _,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
    time::Duration,
};

use crate::{Auth, Kind, Result, ServerOptions, TestbedError, address::Address};

/// ZooKeeper's ports between servers.
const ZK_PEER: u16 = 2888;
const ZK_ELECTION: u16 = 3888;
/// etcd's port between servers.
const ETCD_PEER: u16 = 2380;

/// Every port a server of this kind may bind.
pub(crate) fn ports(kind: Kind) -> Vec<u16> {
    let mut ports = vec![kind.port(), kind.tls_port()];
    match kind {
        Kind::ZooKeeper | Kind::ZooKeeper38 => ports.extend([ZK_PEER, ZK_ELECTION]),
        Kind::Etcd => ports.push(ETCD_PEER),
        Kind::Redis | Kind::Valkey => {}
    }
    ports
}

/// Where a server keeps things, as it sees it itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    /// What it binds.
    pub(crate) listen: IpAddr,
    /// Its data.
    pub(crate) data: &'a Path,
    /// Certificates, if it serves TLS.
    pub(crate) tls: Option<TlsPaths<'a>>,
}

/// Certificates, as the server sees them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TlsPaths<'a> {
    pub(crate) ca: &'a Path,
    pub(crate) cert: &'a Path,
    pub(crate) key: &'a Path,
    pub(crate) bundle: &'a Path,
}

/// A server and those it forms a cluster with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Members<'a> {
    /// All of them; one that stands alone is a cluster of one.
    pub(crate) all: &'a [Address],
    pub(crate) me: usize,
}

impl Members<'_> {
    fn socket(&self, listen: IpAddr, port: u16) -> SocketAddr {
        // In a container the port is the standard one, whatever it is published as.
        match self.all.get(self.me) {
            Some(address) if address.ip() == listen => address.socket(port),
            _ => (listen, port).into(),
        }
    }
}

/// Refuses what this kind cannot be asked for.
pub(crate) fn check(kind: Kind, options: &ServerOptions) -> Result<()> {
    if kind.is_zookeeper() && options.auth.is_some() {
        return Err(TestbedError::Unsupported {
            what: "be started with a password: its digests are set by clients, in ACLs",
            by: "ZooKeeper",
        });
    }
    Ok(())
}

/// The file `zoo.cfg`.
pub(crate) fn zoo_cfg(options: &ServerOptions, place: Place<'_>, members: Members<'_>) -> String {
    let tick = millis(options.tick);
    let mut text = String::new();
    let mut set = |name: &str, value: &dyn std::fmt::Display| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}={value}");
    };
    set("dataDir", &place.data.display());
    set("tickTime", &tick);
    // In ticks; a machine under load is slow to start, not broken.
    set("initLimit", &50);
    set("syncLimit", &5);
    // The defaults, 2 and 20 ticks, would cut sessions to 4 s without a word.
    set("minSessionTimeout", &(2 * tick));
    set("maxSessionTimeout", &60_000);
    set("maxClientCnxns", &0);
    set("4lw.commands.whitelist", &"*");
    set("admin.enableServer", &false);
    let client = members.socket(place.listen, Kind::ZooKeeper.port());
    if members.all.len() > 1 {
        for (index, member) in members.all.iter().enumerate() {
            let ip = member.ip();
            let (peer, election) = (member.socket(ZK_PEER).port(), member.socket(ZK_ELECTION).port());
            let own = member.socket(Kind::ZooKeeper.port());
            set(
                &format!("server.{}", index + 1),
                &format!("{ip}:{peer}:{election}:participant;{}:{}", own.ip(), own.port()),
            );
        }
    } else {
        set("clientPort", &client.port());
        set("clientPortAddress", &client.ip());
    }
    if let Some(tls) = place.tls {
        let secure = members.socket(place.listen, Kind::ZooKeeper.tls_port());
        set("secureClientPort", &secure.port());
        set("secureClientPortAddress", &secure.ip());
        set("serverCnxnFactory", &"org.apache.zookeeper.server.NettyServerCnxnFactory");
        set("ssl.keyStore.location", &tls.bundle.display());
        set("ssl.keyStore.type", &"PEM");
        set("ssl.trustStore.location", &tls.ca.display());
        set("ssl.trustStore.type", &"PEM");
        set("ssl.clientAuth", &if options.require_client_cert { "need" } else { "none" });
    }
    for (name, value) in &options.extra {
        set(name, value);
    }
    text
}

/// ZooKeeper's settings that are flags of the JVM.
pub(crate) fn jvm_flags(options: &ServerOptions) -> String {
    let mut flags = format!(
        // Nodes with a TTL are off by default. A dead peer must not hold up an election for 5 s.
        "-Dzookeeper.extendedTypesEnabled=true -Dzookeeper.cnxTimeout=500 \
         -Dznode.container.checkIntervalMs={}",
        millis(options.container_check_interval)
    );
    if !options.durable {
        flags += " -Dzookeeper.forceSync=no";
    }
    flags
}

/// The flags of etcd.
pub(crate) fn etcd(options: &ServerOptions, place: Place<'_>, members: Members<'_>) -> Vec<String> {
    let url = |scheme: &str, addr: SocketAddr| format!("{scheme}://{addr}");
    let name = |index: usize| format!("n{}", index + 1);
    let listen = |port: u16| members.socket(place.listen, port);
    let peer_of = |member: &Address| url("http", member.socket(ETCD_PEER));

    let mut clients = url("http", listen(Kind::Etcd.port()));
    // What members tell clients is only used by clients that ask; it must not be 0.0.0.0.
    let mut advertised = members.all.get(members.me).map(|own| own.socket(Kind::Etcd.port()));
    let mut scheme = "http";
    if place.tls.is_some() {
        clients += &format!(",{}", url("https", listen(Kind::Etcd.tls_port())));
        advertised = members.all.get(members.me).map(|own| own.socket(Kind::Etcd.tls_port()));
        scheme = "https";
    }
    let advertised = url(scheme, advertised.unwrap_or_else(|| listen(Kind::Etcd.port())));
    let own_peer = match members.all {
        // Alone in a container, the peer address is bound but need not be reachable from outside.
        [one] if one.ip() != place.listen => url("http", (Ipv4Addr::LOCALHOST, ETCD_PEER).into()),
        all => all.get(members.me).map(peer_of).unwrap_or_default(),
    };
    let cluster = match members.all {
        [_] => format!("{}={own_peer}", name(members.me)),
        all => all
            .iter()
            .enumerate()
            .map(|(index, member)| format!("{}={}", name(index), peer_of(member)))
            .collect::<Vec<_>>()
            .join(","),
    };

    let mut args = Vec::new();
    let mut set = |flag: &str, value: String| args.extend([format!("--{flag}"), value]);
    set("name", name(members.me));
    set("data-dir", place.data.display().to_string());
    set("listen-client-urls", clients);
    set("advertise-client-urls", advertised);
    set("listen-peer-urls", own_peer.clone());
    set("initial-advertise-peer-urls", own_peer);
    set("initial-cluster", cluster);
    set("heartbeat-interval", millis(options.heartbeat).to_string());
    set("election-timeout", millis(options.election).to_string());
    set("log-level", "warn".to_owned());
    if let Some(tls) = place.tls {
        set("cert-file", tls.cert.display().to_string());
        set("key-file", tls.key.display().to_string());
        // Naming an authority is enough to make etcd ask for client certificates.
        if options.require_client_cert {
            set("trusted-ca-file", tls.ca.display().to_string());
        }
    }
    for (name, value) in &options.extra {
        set(name, value.clone());
    }
    // Boolean flags take no separate value.
    if place.tls.is_some() && options.require_client_cert {
        args.push("--client-cert-auth".to_owned());
    }
    if !options.durable {
        args.push("--unsafe-no-fsync".to_owned());
    }
    args
}

/// The flags of Redis and Valkey.
pub(crate) fn redis(
    kind: Kind,
    options: &ServerOptions,
    place: Place<'_>,
    members: Members<'_>,
) -> Vec<String> {
    let plain = members.socket(place.listen, kind.port());
    let mut args = Vec::new();
    let mut set = |flag: &str, values: &[&str]| {
        args.push(format!("--{flag}"));
        args.extend(values.iter().map(|value| (*value).to_owned()));
    };
    set("bind", &[&plain.ip().to_string()]);
    set("port", &[&plain.port().to_string()]);
    set("protected-mode", &["no"]);
    set("dir", &[&place.data.display().to_string()]);
    // The log is written before a reply is sent, so that a kill loses nothing acknowledged, as
    // with the other servers; only a crash of the machine could, unless it is also synced.
    set("appendonly", &["yes"]);
    set("appendfsync", &[if options.durable { "always" } else { "no" }]);
    set("save", &[""]);
    if let Some(tls) = place.tls {
        let secure = members.socket(place.listen, kind.tls_port());
        set("tls-port", &[&secure.port().to_string()]);
        set("tls-cert-file", &[&tls.cert.display().to_string()]);
        set("tls-key-file", &[&tls.key.display().to_string()]);
        set("tls-ca-cert-file", &[&tls.ca.display().to_string()]);
        set("tls-auth-clients", &[if options.require_client_cert { "yes" } else { "no" }]);
    }
    if let Some(Auth { user, password }) = &options.auth {
        if user == "default" {
            set("requirepass", &[password]);
        } else {
            set("user", &[user, "on", &format!(">{password}"), "~*", "&*", "+@all"]);
            set("user", &["default", "off"]);
        }
    }
    for (name, value) in &options.extra {
        // One argument would be quoted as one word: "60 1000" is two.
        let values: Vec<_> = if value.is_empty() { vec![""] } else { value.split_whitespace().collect() };
        set(name, &values);
    }
    args
}

fn millis(duration: Duration) -> u64 {
    // A setting of more milliseconds than fit is a mistake that the server will report.
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).max(1)
}
