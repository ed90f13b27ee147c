//! What the configuration says about an etcd store.

use std::time::Duration;

use coord_api::{Config, Dir, Error, OptionSpec, Result, Secret};

/// The port of etcd's client API.
const PORT: u16 = 2379;
/// How long one request may take. Below a third of the shortest usual session, so that one hung member is found
/// before a session is lost by it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// The options of the backend, beside the common ones.
pub(crate) const OPTIONS: &[OptionSpec] = &[
    OptionSpec { name: "tls_ca", doc: "a PEM file with the authorities to trust; needed by etcds" },
    OptionSpec { name: "tls_cert", doc: "a PEM file with the client's certificate" },
    OptionSpec { name: "tls_key", doc: "a PEM file with the client's key" },
    OptionSpec { name: "tls_name", doc: "the name that the servers' certificates bear, if not the host" },
    OptionSpec { name: "request_timeout", doc: "how long one request to one server may take (2s)" },
];

/// What to connect to, and how.
pub(crate) struct Settings {
    /// `host:port` of each member.
    pub(crate) hosts: Vec<String>,
    pub(crate) root: Dir,
    pub(crate) user: Option<(String, Secret)>,
    pub(crate) request_timeout: Duration,
    /// `None` for the plaintext scheme.
    pub(crate) tls: Option<Tls>,
}

/// TLS material as read from its files.
#[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "read only where TLS is built in"))]
pub(crate) struct Tls {
    pub(crate) ca: Vec<u8>,
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
    pub(crate) name: Option<String>,
}

impl Settings {
    /// Reads the configuration.
    ///
    /// # Errors
    /// `Config` for what is missing, contradicts itself or cannot be read.
    pub(crate) async fn read(config: &Config) -> Result<Self> {
        let url = config.url();
        let options = config.options();
        if url.hosts().is_empty() {
            return Err(Error::config("an etcd URL names at least one host, such as etcd://127.0.0.1:2379"));
        }
        let secure = url.scheme() == "etcds";
        let tls_options = ["tls_ca", "tls_cert", "tls_key", "tls_name"];
        if let Some(name) = tls_options.iter().find(|name| !secure && options.get(name).is_some()) {
            return Err(Error::config("a TLS option with the plaintext scheme: use etcds://")
                .with_context("option", name));
        }
        if secure && !cfg!(feature = "tls") {
            return Err(Error::config(
                "this program was built without TLS for etcd: enable the feature `tls` of coord-backend-etcd",
            ));
        }
        let tls = if secure { Some(Tls::read(config).await?) } else { None };
        let request_timeout = options.duration("request_timeout")?.unwrap_or(REQUEST_TIMEOUT);
        if request_timeout.is_zero() {
            return Err(Error::config("a request_timeout of zero allows no request"));
        }
        Ok(Self {
            hosts: url.hosts().iter().map(|host| host.authority(PORT)).collect(),
            root: url.path().clone(),
            user: user(config).await?,
            request_timeout,
            tls,
        })
    }
}

impl Tls {
    async fn read(config: &Config) -> Result<Self> {
        let options = config.options();
        let Some(ca) = options.get("tls_ca") else {
            return Err(Error::config("etcds needs tls_ca: the authorities to trust, as a PEM file"));
        };
        let identity = match (options.get("tls_cert"), options.get("tls_key")) {
            (Some(cert), Some(key)) => Some((
                pem("tls_cert", cert, "-----BEGIN CERTIFICATE-----").await?,
                pem("tls_key", key, "PRIVATE KEY-----").await?,
            )),
            (None, None) => None,
            _ => return Err(Error::config("tls_cert and tls_key are given together")),
        };
        let name = options.get("tls_name").map(str::to_owned);
        Ok(Self { ca: pem("tls_ca", ca, "-----BEGIN CERTIFICATE-----").await?, identity, name })
    }
}

/// Name and password, from the URL or the options.
async fn user(config: &Config) -> Result<Option<(String, Secret)>> {
    let options = config.options();
    let name = config.url().username().or_else(|| options.get("username"));
    let password = match (config.url().password(), options.get("password"), options.get("password_file")) {
        (Some(password), _, _) => Some(password.clone()),
        (None, Some(password), _) => Some(Secret::new(password)),
        (None, None, Some(path)) => {
            let text = String::from_utf8(file("password_file", path).await?)
                .map_err(|_| Error::config("the password file is not text"))?;
            Some(Secret::new(text.trim_end_matches(['\r', '\n'])))
        }
        (None, None, None) => None,
    };
    match (name, password) {
        (Some(name), Some(password)) => Ok(Some((name.to_owned(), password))),
        (None, None) => Ok(None),
        // Never as nobody, where somebody was meant.
        (Some(_), None) => Err(Error::config("a user name without a password")),
        (None, Some(_)) => Err(Error::config("a password without a user name: etcd needs both")),
    }
}

/// A file of PEM blocks. The driver takes one without any, and trusts nobody then.
async fn pem(option: &'static str, path: &str, block: &str) -> Result<Vec<u8>> {
    let bytes = file(option, path).await?;
    if bytes.windows(block.len()).any(|window| window == block.as_bytes()) {
        return Ok(bytes);
    }
    let error = Error::config("the file is not PEM of the kind that the option needs");
    Err(error.with_context("option", option).with_context("file", path))
}

async fn file(option: &'static str, path: &str) -> Result<Vec<u8>> {
    tokio::fs::read(path).await.map_err(|e| {
        Error::config("cannot read a file")
            .with_context("option", option)
            .with_context("file", path)
            .with_source(e)
    })
}

#[cfg(test)]
mod tests {
    use coord_api::ErrorKind;

    use super::*;

    async fn refusal(url: &str) -> String {
        match Settings::read(&Config::from_url(url).unwrap()).await {
            Ok(_) => panic!("{url} was taken"),
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::Config, "{url}: {e}");
                assert!(!format!("{e} {e:?}").contains("s3cret"), "{e}");
                e.to_string()
            }
        }
    }

    #[tokio::test]
    async fn what_is_wrong_is_refused_before_anything_is_sent() {
        for (url, says) in [
            ("etcd:", "at least one host"),
            ("etcd://h?tls_ca=/ca.pem", "etcds://"),
            ("etcd://h?tls_name=x", "etcds://"),
            ("etcd://u@h", "without a password"),
            ("etcd://h?password=s3cret", "without a user name"),
            ("etcd://u@h?password_file=/nowhere/s", "/nowhere/s"),
            ("etcd://h?request_timeout=0s", "request_timeout"),
            ("etcd://h?request_timeout=2", "request_timeout"),
        ] {
            let text = refusal(url).await;
            assert!(text.contains(says), "{url}: {text}");
        }
    }

    #[cfg(not(feature = "tls"))]
    #[tokio::test]
    async fn tls_that_is_not_built_in_is_said() {
        assert!(refusal("etcds://h?tls_ca=/ca.pem").await.contains("feature `tls`"));
    }

    #[cfg(feature = "tls")]
    #[tokio::test]
    async fn tls_needs_its_files() {
        for (url, says) in [
            ("etcds://h", "tls_ca"),
            ("etcds://h?tls_ca=/nowhere/ca", "/nowhere/ca"),
            ("etcds://h?tls_ca=/nowhere/ca&tls_cert=/nowhere/cert", "together"),
        ] {
            let text = refusal(url).await;
            assert!(text.contains(says), "{url}: {text}");
        }
    }

    #[tokio::test]
    async fn a_password_file_ends_at_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        std::fs::write(&path, "s3cret \n").unwrap();
        let config =
            Config::from_url(&format!("etcd://u@h,h2:1/p?password_file={}", path.display())).unwrap();
        let settings = Settings::read(&config).await.unwrap();
        let (name, password) = settings.user.unwrap();
        assert_eq!((name.as_str(), password.expose()), ("u", "s3cret "));
        assert_eq!(settings.hosts, ["h:2379", "h2:1"]);
    }
}
