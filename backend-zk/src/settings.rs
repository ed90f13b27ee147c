//! The configuration of one store, read and checked.

use std::{fs, time::Duration};

use coord_api::{Config, Error, Host, OptionSpec, Result, Secret, kit::Runtime};

use crate::{
    driver::{Connector, NodeAcl, TlsFiles},
    paths::Paths,
};

/// The port of plain ZooKeeper; TLS has none of its own, and 2281 by habit.
const PORT: u16 = 2181;
const TLS_PORT: u16 = 2281;
/// How long opening may take, as the registry has it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const OPERATION_TIMEOUT: Duration = Duration::from_secs(5);
const BASE_SESSION_TTL: Duration = Duration::from_secs(10);

pub(crate) const OPTIONS: &[OptionSpec] = &[
    OptionSpec { name: "tls_ca", doc: "zks: a PEM file of the authorities to trust" },
    OptionSpec { name: "tls_cert", doc: "zks: a PEM file of our certificate, if the server asks for one" },
    OptionSpec { name: "tls_key", doc: "zks: a PEM file of the certificate's key" },
    OptionSpec {
        name: "acl",
        doc: "who may use the nodes we make: open, creator, or creator_world_read (open)",
    },
    OptionSpec {
        name: "acl_readers",
        doc: "who may read them beside their creator: scheme:id, several with blanks between",
    },
    OptionSpec { name: "base_session_ttl", doc: "the session of calls that have none of their own (10s)" },
];

/// What a configuration says, checked.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) hosts: Vec<(String, u16)>,
    pub(crate) connector: Connector,
    pub(crate) paths: Paths,
    pub(crate) acl: NodeAcl,
    pub(crate) base_ttl: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) operation_timeout: Duration,
}

impl Settings {
    pub(crate) fn read(config: &Config) -> Result<Self> {
        let url = config.url();
        let secure = url.scheme() == "zks";
        if url.hosts().is_empty() {
            return Err(Error::config("a ZooKeeper URL names its servers: zk://host:2181,host:2181/chroot"));
        }
        let tls = read_tls(config, secure)?;
        let digest = match (config.username(), config.password()?) {
            (None, None) => None,
            (Some(user), Some(_)) if user.contains(':') => {
                return Err(Error::config("a user name for ZooKeeper has no colon"));
            }
            (Some(user), Some(password)) => Some(Secret::new(format!("{user}:{}", password.expose()))),
            (Some(_), None) => return Err(Error::config("a user without a password")),
            (None, Some(_)) => return Err(Error::config("a password without a user")),
        };
        let acl = read_acl(config)?;
        let proves_identity = digest.is_some() || tls.as_ref().is_some_and(|tls| tls.identity.is_some());
        if !acl.is_open() && !proves_identity {
            return Err(Error::config("this acl needs a user and password, or a client certificate")
                .with_context("acl", config.options().get("acl").unwrap_or_default()));
        }
        let port = if secure { TLS_PORT } else { PORT };
        let names: Vec<_> = url.hosts().iter().map(|host| host.authority(port)).collect();
        let options = config.options();
        Ok(Self {
            hosts: url
                .hosts()
                .iter()
                .map(|Host { name, port: own }| (name.clone(), own.unwrap_or(port)))
                .collect(),
            connector: Connector { hosts: names.join(","), digest, tls, runtime: Runtime::library()? },
            paths: Paths::new(url.path()),
            acl,
            base_ttl: options.duration("base_session_ttl")?.unwrap_or(BASE_SESSION_TTL),
            connect_timeout: options.duration("connect_timeout")?.unwrap_or(CONNECT_TIMEOUT),
            operation_timeout: options.duration("operation_timeout")?.unwrap_or(OPERATION_TIMEOUT),
        })
    }
}

fn read_acl(config: &Config) -> Result<NodeAcl> {
    let options = config.options();
    let rule = options.get("acl").unwrap_or("open");
    let readers = options.get("acl_readers");
    match (rule, readers) {
        ("open", None) => Ok(NodeAcl::open()),
        ("creator_world_read", None) => Ok(NodeAcl::creator([("world", "anyone")])),
        ("creator", readers) => {
            let readers = readers.unwrap_or_default().split_whitespace().map(|reader| {
                let named =
                    reader.split_once(':').filter(|(scheme, id)| !scheme.is_empty() && !id.is_empty());
                named.ok_or_else(|| {
                    Error::config("a reader is scheme:id, such as digest:user:hash")
                        .with_context("acl_readers", reader)
                })
            });
            Ok(NodeAcl::creator(readers.collect::<Result<Vec<_>>>()?))
        }
        ("open" | "creator_world_read", Some(_)) => {
            Err(Error::config("acl_readers goes with acl=creator; everybody may read otherwise")
                .with_context("acl", rule))
        }
        (other, _) => {
            Err(Error::config("an acl is open, creator or creator_world_read").with_context("acl", other))
        }
    }
}

fn read_tls(config: &Config, secure: bool) -> Result<Option<TlsFiles>> {
    let options = config.options();
    if !secure {
        return match ["tls_ca", "tls_cert", "tls_key"].into_iter().find(|name| options.get(name).is_some()) {
            // A connection that was meant to be secret must not become a plain one.
            Some(name) => Err(Error::config("a tls option needs the scheme zks; zk is plaintext")
                .with_context("option", name)),
            None => Ok(None),
        };
    }
    if cfg!(not(feature = "tls")) {
        return Err(Error::config(
            "TLS for ZooKeeper is not compiled in: build coord-backend-zk with the feature tls",
        ));
    }
    let read = |name: &'static str| {
        options.get(name).map(|path| {
            fs::read_to_string(path).map_err(|e| {
                Error::config("cannot read a file of an option")
                    .with_context("option", name)
                    .with_context("file", path)
                    .with_source(e)
            })
        })
    };
    let Some(ca) = read("tls_ca").transpose()? else {
        return Err(Error::config("zks needs tls_ca: a PEM file of the authorities to trust"));
    };
    let identity = match (read("tls_cert").transpose()?, read("tls_key").transpose()?) {
        (Some(cert), Some(key)) => Some((cert, Secret::new(key))),
        (None, None) => None,
        _ => return Err(Error::config("tls_cert and tls_key go together")),
    };
    Ok(Some(TlsFiles { ca, identity }))
}

#[cfg(test)]
mod tests {
    use coord_api::ErrorKind;

    use super::*;

    fn refused(url: &str) -> String {
        let error = Settings::read(&Config::from_url(url).unwrap()).expect_err(url);
        assert_eq!(error.kind(), ErrorKind::Config, "{url}");
        error.to_string()
    }

    #[test]
    fn a_plain_scheme_refuses_tls_options() {
        assert!(refused("zk://h?tls_ca=/x").contains("zks"));
        assert!(refused("zk://h?tls_key=/x").contains("tls_key"));
    }

    #[test]
    #[cfg(not(feature = "tls"))]
    fn tls_that_is_not_compiled_in_says_so() {
        assert!(refused("zks://h?tls_ca=/x").contains("feature tls"));
    }

    #[test]
    fn an_acl_that_names_nobody_is_refused() {
        assert!(refused("zk://h?acl=creator").contains("user"));
        assert!(refused("zk://u:p@h?acl=secret").contains("creator_world_read"));
        assert!(refused("zk://u:p@h?acl_readers=digest:bob:hash").contains("acl=creator"));
        assert!(refused("zk://u:p@h?acl=creator&acl_readers=bob").contains("scheme:id"));
        assert!(refused("zk://h?password=s3cret").contains("without a user"));
        assert!(refused("zk://u@h").contains("without a password"));
    }

    #[test]
    fn nothing_shows_the_password() {
        let settings = Settings::read(&Config::from_url("zk://u:s3cret@h/app?acl=creator").unwrap()).unwrap();
        assert!(!format!("{settings:?}").contains("s3cret"));
        assert_eq!(settings.hosts, [("h".to_owned(), 2181)]);
    }
}
