//! The configuration of one store, from a URL, a file and the environment.

use std::{env, fmt, path::Path};

use super::{Options, Secret, StoreUrl, options::ENVIRONMENT};
use crate::{Error, Result};

/// The one line that every configuration file has.
const URL: &str = "url";
/// The variable that names the store.
const URL_VARIABLE: &str = "COORD_URL";
/// Beginnings of variables that are no options: those of coord's tools and tests, those that `coord lock` sets for its
/// command, and those that Kubernetes sets in every pod beside a Service named `coord`.
const NOT_OPTIONS: &[&str] = &[
    URL_VARIABLE,
    "COORD_CONFIG",
    "COORD_TEST_",
    "COORD_LOCK_",
    "COORD_FENCING_",
    "COORD_SESSION",
    "COORD_SERVERS",
    "COORD_LOG",
    "COORD_PORT",
    "COORD_SERVICE_",
];

/// Which store, and how to reach it.
///
/// ```toml
/// # coord.toml: to change the store, change this line.
/// url = "zk://127.0.0.1:2181/app"
///
/// connect_timeout = "2s"
/// namespace = "orders"
/// username = "orders"
/// password_file = "/run/secrets/zk"
/// ```
///
/// Every option may also be given behind the URL (`?connect_timeout=2s`) or in the environment
/// (`COORD_CONNECT_TIMEOUT=2s`). The URL's wins, then the environment's, then the file's.
#[derive(Clone)]
pub struct Config {
    url: StoreUrl,
    options: Options,
}

impl Config {
    /// The configuration that a URL alone gives.
    ///
    /// # Errors
    /// As [`StoreUrl::parse`].
    pub fn from_url(url: &str) -> Result<Self> {
        let url = StoreUrl::parse(url)?;
        let mut options = Options::default();
        for (name, value) in url.options() {
            options.set_default(name, value.clone(), "the URL");
        }
        Ok(Self { url, options })
    }

    /// Reads a TOML file: `url` and options, one a line.
    ///
    /// # Errors
    /// [`Config`](crate::ErrorKind::Config) with the file, and the line where there is one.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let about = |e: Error| e.with_context("file", path.display());
        let text = std::fs::read_to_string(path)
            .map_err(|e| about(Error::config("cannot read the configuration file").with_source(e)))?;
        Self::from_toml(&text).map_err(about)
    }

    /// Reads the text of such a file.
    ///
    /// # Errors
    /// As [`Config::from_file`].
    pub fn from_toml(text: &str) -> Result<Self> {
        let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
            // Not the error's own text: it quotes the line, which may hold a password.
            let line =
                e.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            Error::config(format!("not TOML: {}", e.message())).with_context("line", line)
        })?;
        let url = match table.get(URL) {
            Some(toml::Value::String(url)) => url,
            Some(_) => return Err(Error::config("url is not a text")),
            None => {
                // The other way round than for options: what is there that was meant to be `url`?
                let near = table.keys().find(|name| strsim::damerau_levenshtein(name, URL) <= 1);
                let near = near.map_or_else(String::new, |name| format!("; \"{name}\" stands there instead"));
                return Err(Error::config(format!(
                    "the file has no url = \"scheme://host:port/path\"{near}"
                )));
            }
        };
        let mut config = Self::from_url(url)?;
        for (name, value) in table.iter().filter(|(name, _)| *name != URL) {
            let value = match value {
                toml::Value::String(text) => text.clone(),
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Boolean(flag) => flag.to_string(),
                _ => {
                    return Err(Error::config(
                        "options stand at the top level: a text, a whole number, true or false",
                    )
                    .with_context("option", name));
                }
            };
            config.options.set_default(name, Secret::new(value), "the configuration file");
        }
        Ok(config)
    }

    /// The configuration that the environment alone gives: `COORD_URL`, and options in other variables.
    ///
    /// # Errors
    /// [`Config`](crate::ErrorKind::Config) if `COORD_URL` is not set; else as [`StoreUrl::parse`].
    pub fn from_environment() -> Result<Self> {
        let missing = "COORD_URL is not set: set it to the store, as in redis://127.0.0.1:6379/app";
        Self::from_environment_or(None)?.ok_or_else(|| Error::config(missing))
    }

    /// The same with a URL for those who set none; `None` if there is none either.
    ///
    /// # Errors
    /// As [`StoreUrl::parse`], and [`Config`](crate::ErrorKind::Config) if `COORD_URL` is not UTF-8.
    pub fn from_environment_or(default: Option<&str>) -> Result<Option<Self>> {
        let url = match env::var(URL_VARIABLE) {
            Ok(url) => Some(url),
            Err(env::VarError::NotPresent) => default.map(str::to_owned),
            Err(env::VarError::NotUnicode(_)) => return Err(Error::config("COORD_URL is not UTF-8")),
        };
        url.map(|url| Self::from_url(&url).map(Self::with_environment)).transpose()
    }

    /// Adds the options of the environment: `COORD_NAMESPACE` sets `namespace`, and so on.
    ///
    /// They win over the file's and lose against the URL's. A variable that sets no option is ignored with a warning when the
    /// store is opened, and refused if it looks like a slip for one that does.
    #[must_use]
    pub fn with_environment(self) -> Self {
        self.with_variables(env::vars())
    }

    fn with_variables(self, variables: impl Iterator<Item = (String, String)>) -> Self {
        let mut options = Options::default();
        for (name, value) in self.url.options() {
            options.set_default(name, value.clone(), "the URL");
        }
        for (name, value) in variables {
            let other = NOT_OPTIONS.iter().any(|prefix| name.starts_with(prefix));
            if let Some(option) = name.strip_prefix("COORD_").filter(|_| !other) {
                options.set_default(option.to_ascii_lowercase(), Secret::new(value), ENVIRONMENT);
            }
        }
        for (name, origin) in self.options.origins() {
            if let Some(value) = self.options.get(name) {
                options.set_default(name, Secret::new(value), origin);
            }
        }
        Self { options, ..self }
    }

    /// Sets an option unless it is set already.
    #[must_use]
    pub fn with_default(mut self, name: &str, value: &str) -> Self {
        self.options.set_default(name, Secret::new(value), "the program");
        self
    }

    /// The address.
    #[must_use]
    pub const fn url(&self) -> &StoreUrl {
        &self.url
    }

    /// The options.
    #[must_use]
    pub const fn options(&self) -> &Options {
        &self.options
    }

    /// The user name: the URL's, or the option `username`.
    #[must_use]
    pub fn username(&self) -> Option<&str> {
        self.url.username().or_else(|| self.options.get("username"))
    }

    /// The password: the URL's, the option `password`, or the content of `password_file` without its last newline.
    ///
    /// # Errors
    /// [`Config`](crate::ErrorKind::Config) if the file cannot be read.
    pub fn password(&self) -> Result<Option<Secret>> {
        if let Some(password) = self.url.password() {
            return Ok(Some(password.clone()));
        }
        if let Some(password) = self.options.get("password") {
            return Ok(Some(Secret::new(password)));
        }
        let Some(path) = self.options.get("password_file") else { return Ok(None) };
        let text = std::fs::read_to_string(path).map_err(|e| {
            Error::config("cannot read the password file").with_context("file", path).with_source(e)
        })?;
        Ok(Some(Secret::new(text.strip_suffix('\n').unwrap_or(&text))))
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("url", &self.url).field("options", &self.options).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> impl Iterator<Item = (String, String)> {
        pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect::<Vec<_>>().into_iter()
    }

    #[test]
    fn the_url_wins_over_the_environment_and_that_over_the_file() {
        let config =
            Config::from_toml("url = \"zk://h?a=url\"\na = \"file\"\nb = \"file\"\nc = 3\n").unwrap();
        let config = config.with_variables(variables(&[
            ("COORD_A", "env"),
            ("COORD_B", "env"),
            ("COORD_URL", "x"),
            ("HOME", "y"),
        ]));
        let options = config.options();
        assert_eq!(
            (options.get("a"), options.get("b"), options.get("c"), options.get("url")),
            (Some("url"), Some("env"), Some("3"), None)
        );
    }

    #[test]
    fn a_broken_file_is_named_by_line_and_not_quoted() {
        let e = Config::from_toml("url = \"zk://h\"\npassword = \"s3cret\nx = 1").unwrap_err().to_string();
        assert!(e.contains("line=2") && !e.contains("s3cret"), "{e}");
        let e = Config::from_toml("ulr = \"zk://h\"").unwrap_err().to_string();
        assert!(e.contains("\"ulr\" stands there"), "{e}");
    }
}
