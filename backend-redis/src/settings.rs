//! What a URL and its options ask for.

use std::time::Duration;

use coord_api::{Config, Error, OptionSpec, Result, Secret};
use redis::{
    Client, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo,
    io::tcp::{TcpSettings, socket2::TcpKeepalive},
};

use crate::{names::Names, tls::Tls};

const PORT: u16 = 6379;
/// After this long without an answer of the other end's kernel a connection counts as dead.
const TCP_PATIENCE: Duration = Duration::from_secs(5);

/// The options of `redis` and `rediss` beside the common ones.
pub(crate) const OPTIONS: &[OptionSpec] = &[
    OptionSpec { name: "tls_ca", doc: "a PEM file with the authorities to trust (the system's)" },
    OptionSpec { name: "tls_cert", doc: "a PEM file with the client's certificate; needs tls_key" },
    OptionSpec { name: "tls_key", doc: "a PEM file with the key of tls_cert" },
    OptionSpec { name: "log_max", doc: "how many changes the server keeps for watches that resume (10000)" },
    OptionSpec { name: "replicas", doc: "how many replicas must have a write before it counts (0)" },
];

/// Where the servers are, who we are, and what we use there.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    hosts: Vec<(String, u16)>,
    username: Option<String>,
    password: Option<Secret>,
    tls: Option<Tls>,
    /// The keys of the namespace.
    pub(crate) names: Names,
    /// Entries the log keeps, as scripts take it.
    pub(crate) log_max: String,
    /// Replicas that must have a write.
    pub(crate) replicas: u32,
}

impl Settings {
    /// Reads a configuration. Files of certificates are read here, once.
    ///
    /// # Errors
    /// [`Config`](coord_api::ErrorKind::Config) that names the option.
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let (url, options) = (config.url(), config.options());
        if url.hosts().is_empty() {
            return Err(Error::config("a Redis URL names a server: redis://host:6379/namespace"));
        }
        let log_max = options.number("log_max")?.unwrap_or(10_000);
        if log_max == 0 {
            return Err(Error::config("the log keeps at least one entry").with_context("option", "log_max"));
        }
        let username = config.username().map(str::to_owned);
        // A user without a password still has to say who it is.
        let password = config.password()?.or_else(|| username.as_ref().map(|_| Secret::new("")));
        Ok(Self {
            hosts: url.hosts().iter().map(|host| (host.name.clone(), host.port.unwrap_or(PORT))).collect(),
            username,
            password,
            tls: Tls::new(url.scheme() == "rediss", options)?,
            names: Names::new(url.path()),
            log_max: log_max.to_string(),
            replicas: options.number("replicas")?.unwrap_or(0),
        })
    }

    /// How many servers the URL names.
    pub(crate) fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// One of them, as people write it.
    pub(crate) fn host(&self, index: usize) -> String {
        let (name, port) = &self.hosts[index % self.hosts.len()];
        format!("{name}:{port}")
    }

    /// The same, to connect to.
    pub(crate) fn address(&self, index: usize) -> (&str, u16) {
        let (name, port) = &self.hosts[index % self.hosts.len()];
        (name, *port)
    }

    /// Whether connections are encrypted.
    pub(crate) const fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The driver's client for one of the servers. It keeps no connection.
    pub(crate) fn client(&self, index: usize) -> Result<Client> {
        let (host, port) = self.hosts[index % self.hosts.len()].clone();
        let refused = |_| Error::config("the driver refuses the settings of the connection");
        let mut login = RedisConnectionInfo::default()
            // RESP3 tells at once when a connection is gone; RESP2 only when it is used.
            .set_protocol(ProtocolVersion::RESP3)
            .set_skip_set_lib_name();
        if let Some(username) = &self.username {
            login = login.set_username(username);
        }
        if let Some(password) = &self.password {
            login = login.set_password(password.expose());
        }
        let address = match &self.tls {
            None => ConnectionAddr::Tcp(host, port),
            Some(_) => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
        };
        let keepalive = TcpKeepalive::new().with_time(TCP_PATIENCE).with_interval(TCP_PATIENCE / 5);
        let tcp = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
        #[cfg(target_os = "linux")]
        let tcp = tcp.set_user_timeout(TCP_PATIENCE);
        let info =
            address.into_connection_info().map_err(refused)?.set_redis_settings(login).set_tcp_settings(tcp);
        match &self.tls {
            None => Client::open(info).map_err(refused),
            Some(tls) => tls.client(info),
        }
    }
}

#[cfg(test)]
mod tests {
    use coord_api::ErrorKind;

    use super::*;

    fn settings(url: &str) -> Result<Settings> {
        Settings::new(&Config::from_url(url)?)
    }

    #[test]
    fn hosts_and_options_are_read_and_the_password_never_shows() {
        let found = settings("redis://u:s3cret@h1,[::1]:7000/app?log_max=5&replicas=1").unwrap();
        assert_eq!((found.host(0), found.host(1), found.hosts()), ("h1:6379".into(), "::1:7000".into(), 2));
        assert_eq!(
            (found.log_max.as_str(), found.replicas, found.names.all()[0].as_str()),
            ("5", 1, "{app}:m")
        );
        let shown = format!("{found:?} {:?}", found.client(0).unwrap());
        assert!(!shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for bad in [
            "redis:app",
            "redis://h?log_max=0",
            "redis://h?log_max=x",
            "redis://h?tls_ca=/ca.pem",
            "redis://h?tls_key=/key.pem",
            "rediss://h?tls_ca=/there/is/no/such/file",
            "rediss://h?tls_cert=/dev/null",
        ] {
            assert_eq!(settings(bad).map(|_| ()).unwrap_err().kind(), ErrorKind::Config, "{bad}");
        }
    }

    #[test]
    #[cfg(not(feature = "tls"))]
    fn without_the_feature_there_is_no_silent_plaintext() {
        let e = settings("rediss://h").unwrap_err();
        assert!(e.kind() == ErrorKind::Config && e.to_string().contains("feature"), "{e}");
    }
}
