//! What a URL and its options ask for.

use std::{
    env,
    path::{Path, PathBuf},
    time::Duration,
};

use coord_api::{Config, Error, OptionSpec, Result};

/// The options of `sqlite` beside the common ones.
pub(crate) const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "synchronous",
        doc: "what a commit waits for: full (the disk, the default), normal or off (a power cut takes the last commits)",
    },
    OptionSpec { name: "log_max", doc: "how many changes the file keeps for watches that resume (10000)" },
    OptionSpec { name: "poll", doc: "how often a watcher looks for changes that nobody told it of (100ms)" },
];

/// What a commit waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Synchronous {
    /// The disk.
    #[default]
    Full,
    /// The kernel; the disk is waited for at checkpoints, so that the file stays whole.
    Normal,
    /// Nothing: a power cut can damage the file.
    Off,
}

impl Synchronous {
    fn parse(text: &str) -> Result<Self> {
        match text {
            "full" => Ok(Self::Full),
            "normal" => Ok(Self::Normal),
            "off" => Ok(Self::Off),
            _ => {
                Err(Error::config("synchronous is full, normal or off").with_context("option", "synchronous"))
            }
        }
    }

    /// As SQLite calls it.
    pub(crate) const fn pragma(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::Normal => "NORMAL",
            Self::Off => "OFF",
        }
    }

    /// What is risky, for people.
    pub(crate) const fn warning(self) -> Option<&'static str> {
        match self {
            Self::Full => None,
            Self::Normal => Some(
                "synchronous=normal: a power cut takes the last commits, although they were acknowledged",
            ),
            Self::Off => Some(
                "synchronous=off: a power cut takes the last commits, although they were acknowledged, and can damage \
                 the file",
            ),
        }
    }
}

/// Which file, and how it is used.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// As asked for: it may be relative.
    pub(crate) path: PathBuf,
    /// The file of this user, whose directory is made if it is missing.
    pub(crate) own: bool,
    pub(crate) synchronous: Synchronous,
    /// Changes that the log keeps.
    pub(crate) log_max: u32,
    /// How often a watcher looks by itself.
    pub(crate) poll: Duration,
}

impl Settings {
    /// Reads a configuration.
    ///
    /// # Errors
    /// [`Config`](coord_api::ErrorKind::Config) that names the option, or says what is wrong with the path.
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let (url, options) = (config.url(), config.options());
        if !url.hosts().is_empty() {
            return Err(Error::config(
                "a SQLite URL names a file and no host: sqlite:/path/to/coord.db, sqlite:coord.db, or sqlite: alone",
            ));
        }
        if config.username().is_some() || config.password()?.is_some() {
            return Err(Error::config(
                "the embedded store knows no users: the file's permissions say who may use it",
            ));
        }
        let named = url.file().filter(|file| !file.is_empty());
        if named.is_some_and(|file| file.starts_with("~/") || file.ends_with('/')) {
            return Err(Error::config("the path of the URL is a file, and ~ is not replaced in it"));
        }
        let log_max = options.number("log_max")?.unwrap_or(10_000);
        if log_max == 0 {
            return Err(Error::config("the log keeps at least one change").with_context("option", "log_max"));
        }
        let poll = options.duration("poll")?.unwrap_or(Duration::from_millis(100));
        if !(Duration::from_millis(1)..=Duration::from_secs(60)).contains(&poll) {
            return Err(Error::config("poll is from 1ms to 1m").with_context("option", "poll"));
        }
        Ok(Self {
            path: match named {
                Some(file) => file.into(),
                None => default_path(variable("XDG_STATE_HOME"), variable("HOME"))?,
            },
            own: named.is_none(),
            synchronous: options.get("synchronous").map(Synchronous::parse).transpose()?.unwrap_or_default(),
            log_max,
            poll,
        })
    }
}

fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The file of this user: where programs keep what should outlive a restart and is no document.
fn default_path(state: Option<PathBuf>, home: Option<PathBuf>) -> Result<PathBuf> {
    // What is relative there is to be ignored, says the XDG specification.
    let state = state.filter(|path| path.is_absolute()).or_else(|| Some(home?.join(".local/state")));
    match state.filter(|path| path.is_absolute()) {
        Some(state) => Ok(state.join(Path::new("coord/coord.db"))),
        None => Err(Error::config(
            "neither XDG_STATE_HOME nor HOME says where the file could be: name it, as in sqlite:/path/to/coord.db",
        )),
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
    fn the_file_is_named_as_in_the_file_system() {
        for (url, path) in [
            ("sqlite:/var/lib/a.db", "/var/lib/a.db"),
            ("sqlite:///var/lib/a.db", "/var/lib/a.db"),
            ("sqlite:a.db", "a.db"),
            ("sqlite:./a.db", "./a.db"),
            ("sqlite:../up/a.db", "../up/a.db"),
            ("sqlite:a%20b%3F.db", "a b?.db"),
        ] {
            let found = settings(url).unwrap();
            assert_eq!((found.path.as_path(), found.own), (Path::new(path), false), "{url}");
        }
        assert!(settings("sqlite:").unwrap().own);
    }

    #[test]
    fn options_are_read_and_durable_is_the_default() {
        assert_eq!(settings("sqlite:a.db").unwrap().synchronous, Synchronous::Full);
        let found = settings("sqlite:a.db?synchronous=off&log_max=5&poll=1s").unwrap();
        assert_eq!(
            (found.synchronous, found.log_max, found.poll),
            (Synchronous::Off, 5, Duration::from_secs(1))
        );
        assert!(found.synchronous.warning().is_some());
    }

    #[test]
    fn the_default_is_in_the_state_directory_of_the_user() {
        let path = |state: Option<&str>, home: Option<&str>| {
            default_path(state.map(PathBuf::from), home.map(PathBuf::from))
        };
        let home = Path::new("/home/u/.local/state/coord/coord.db");
        assert_eq!(path(Some("/s"), Some("/home/u")).unwrap(), Path::new("/s/coord/coord.db"));
        assert_eq!(path(None, Some("/home/u")).unwrap(), home);
        assert_eq!(path(Some("relative"), Some("/home/u")).unwrap(), home);
        assert_eq!(path(None, None).unwrap_err().kind(), ErrorKind::Config);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for bad in [
            "sqlite://host/a.db",
            "sqlite://a.db",
            "sqlite:~/a.db",
            "sqlite:/var/lib/",
            "sqlite:a.db?synchronous=maybe",
            "sqlite:a.db?log_max=0",
            "sqlite:a.db?poll=0ms",
            "sqlite:a.db?poll=2h",
            "sqlite:a.db?username=u",
        ] {
            assert_eq!(settings(bad).map(|_| ()).unwrap_err().kind(), ErrorKind::Config, "{bad}");
        }
    }
}
