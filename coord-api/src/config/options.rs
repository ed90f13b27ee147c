//! Options by name, each known or refused.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::{Secret, suggestion};
use crate::{Error, Result};

/// An option that a backend knows.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// Its name, as in a URL or file.
    pub name: &'static str,
    /// One line for people: what it does, its unit and default.
    pub doc: &'static str,
}

/// The origin of options that come from variables.
pub(super) const ENVIRONMENT: &str = "the environment";

/// Option values by name, from the URL, the file and the environment.
///
/// The URL wins over the environment, and that over the file. `Debug` shows names and no values.
#[derive(Clone, Default)]
pub struct Options(BTreeMap<String, (Secret, &'static str)>);

impl Options {
    /// Sets an option unless it is set already; `origin` says where it comes from.
    pub fn set_default(&mut self, name: impl Into<String>, value: Secret, origin: &'static str) {
        self.0.entry(name.into()).or_insert((value, origin));
    }

    /// The text of an option.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|(value, _)| value.expose())
    }

    /// An option as a duration, such as `10s` or `500ms`.
    ///
    /// # Errors
    /// [`Config`](crate::ErrorKind::Config) that names the option.
    pub fn duration(&self, name: &str) -> Result<Option<Duration>> {
        self.parse(name, "a duration with its unit, such as 10s or 500ms", parse_duration)
    }

    /// An option as `true` or `false`.
    ///
    /// # Errors
    /// As [`Options::duration`].
    pub fn flag(&self, name: &str) -> Result<Option<bool>> {
        self.parse(name, "true or false", |text| text.parse().ok())
    }

    /// An option as a whole number.
    ///
    /// # Errors
    /// As [`Options::duration`].
    pub fn number(&self, name: &str) -> Result<Option<u32>> {
        self.parse(name, "a whole number", |text| text.parse().ok())
    }

    fn parse<T>(
        &self,
        name: &str,
        form: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some((value, origin)) = self.0.get(name) else { return Ok(None) };
        parse(value.expose()).map(Some).ok_or_else(|| {
            Error::config(format!("an option is not {form}"))
                .with_context("option", name)
                .with_context("from", origin)
        })
    }

    /// Refuses every option that is not in `known`.
    ///
    /// A variable of the environment may belong to somebody else, so there only a near miss is refused, and others are
    /// warned of.
    ///
    /// # Errors
    /// [`Config`](crate::ErrorKind::Config) that lists the known ones and the nearest.
    pub fn refuse_unknown(&self, known: &[OptionSpec]) -> Result<()> {
        for (name, (_, origin)) in &self.0 {
            if known.iter().any(|spec| spec.name == *name) {
                continue;
            }
            let near = suggestion(name, known.iter().map(|spec| spec.name));
            let variable = (*origin == ENVIRONMENT).then(|| format!("COORD_{}", name.to_ascii_uppercase()));
            if let Some(variable) = variable.as_ref().filter(|_| near.is_empty()) {
                tracing::warn!(variable, "a variable that begins with COORD_ sets no option of this store");
                continue;
            }
            let names: Vec<_> = known.iter().map(|spec| spec.name).collect();
            return Err(Error::config(format!("unknown option{near}"))
                .with_context("option", variable.as_ref().unwrap_or(name))
                .with_context("from", origin)
                .with_context("known", names.join(", ")));
        }
        Ok(())
    }

    /// The names that are set, each with where it comes from.
    pub fn origins(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.0.iter().map(|(name, (_, origin))| (name.as_str(), *origin))
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Reads a duration: a number with `ms`, `s`, `m` or `h`. Bare numbers are refused, since their unit is a guess.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(coord_api::parse_duration("1.5s"), Some(Duration::from_millis(1500)));
/// assert_eq!(coord_api::parse_duration("10"), None);
/// ```
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let plain = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number: f64 = number.parse().ok().filter(|_| plain)?;
    Duration::try_from_secs_f64(number * seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_and_do_not_overflow() {
        for (text, ms) in
            [("0ms", 0), ("1ms", 1), ("999ms", 999), ("2s", 2000), ("0.5m", 30_000), ("1h", 3_600_000)]
        {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for bad in [
            "",
            "1",
            "s",
            "-1s",
            "1e9s",
            "infs",
            "nans",
            "1d",
            "1 s",
            "1s ",
            "+1s",
            "1.2.3s",
            "999999999999999999999999h",
        ] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_variable_of_somebody_else_is_ignored_and_a_slip_is_not() {
        let known = [OptionSpec { name: "password", doc: "" }];
        let mut options = Options::default();
        options.set_default("release_date", Secret::new("x"), ENVIRONMENT);
        assert!(options.refuse_unknown(&known).is_ok());
        options.set_default("pasword", Secret::new("x"), ENVIRONMENT);
        let e = options.refuse_unknown(&known).unwrap_err().to_string();
        assert!(e.contains("COORD_PASWORD") && e.contains("did you mean \"password\"?"), "{e}");
    }

    #[test]
    fn an_unknown_option_is_refused_with_the_nearest() {
        let mut options = Options::default();
        options.set_default("conect_timeout", Secret::new("1s"), "coord.toml");
        let known =
            [OptionSpec { name: "connect_timeout", doc: "" }, OptionSpec { name: "namespace", doc: "" }];
        let e = options.refuse_unknown(&known).unwrap_err().to_string();
        assert!(
            e.contains("did you mean \"connect_timeout\"?")
                && e.contains("namespace")
                && e.contains("coord.toml"),
            "{e}"
        );
    }
}
