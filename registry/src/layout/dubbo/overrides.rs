//! Overrides: what an operator wrote about providers, as the consumers of Dubbo apply it.

use coord_api::{Error, ErrorKind, Result};

use super::{provider, url::DubboUrl};
use crate::{Instance, layout::Rule};

const ANY: &str = "*";
const ANY_HOST: &str = "0.0.0.0";

/// Parameters of a rule that say when it applies, and are not set by it.
const CONDITIONS: [&str; 14] = [
    "category",
    "check",
    "dynamic",
    "enabled",
    "group",
    "version",
    "application",
    "side",
    "interface",
    "priority",
    "anyhost",
    "configVersion",
    "compatible_config",
    "providerAddresses",
];

/// One rule: `override://` sets parameters of providers, `absent://` those that they do not set themselves.
#[derive(Clone, Debug)]
pub(super) struct Override {
    url: DubboUrl,
    rank: String,
    /// The application that looks, if it says so.
    application: Option<String>,
}

impl Override {
    /// The rule that a node in `configurators` stands for.
    ///
    /// # Errors
    /// [`Malformed`](ErrorKind::Malformed) if it is of another protocol, or its priority no number.
    pub(super) fn new(url: DubboUrl, application: Option<&str>) -> Result<Self> {
        if !matches!(url.protocol(), "override" | "absent") {
            return Err(
                Error::new(ErrorKind::Malformed, "not an override").with_context("protocol", url.protocol())
            );
        }
        let priority: i32 = url.number("priority")?.unwrap_or(0);
        // Rules for all come before those for one host, which win so, and low priorities before high ones.
        let rank = format!("{} {:010}", url.host(), i64::from(priority) - i64::from(i32::MIN));
        Ok(Self { url, rank, application: application.map(str::to_owned) })
    }

    /// Whether the rule is about this provider, and for us.
    fn is_about(&self, provider: &DubboUrl) -> bool {
        let rule = &self.url;
        let host = rule.host() == ANY_HOST || rule.host() == provider.host();
        let place = match rule.port() {
            Some(port) => host && provider.port() == Some(port),
            // Without port, the host is that of a consumer.
            None => rule.host() == ANY_HOST,
        };
        let same =
            |name| rule.parameter(name) == Some(ANY) || rule.parameter(name) == provider.parameter(name);
        let for_us = |name, ours: Option<&str>| {
            rule.parameter(name).is_none_or(|wanted| wanted == ANY || Some(wanted) == ours)
        };
        let conditions =
            rule.parameters().iter().filter_map(|(name, value)| Some((name.strip_prefix('~')?, value)));
        rule.flag("enabled", true)
            && place
            && self.is_about_address(provider)
            && same("group")
            && same("version")
            && for_us("application", self.application.as_deref())
            && for_us("side", Some("consumer"))
            && conditions
                .into_iter()
                .all(|(name, value)| value == ANY || Some(value.as_str()) == provider.parameter(name))
    }

    /// A list of addresses narrows a rule down.
    fn is_about_address(&self, provider: &DubboUrl) -> bool {
        let Some(addresses) = self.url.parameter("providerAddresses") else { return true };
        let port = provider.port().unwrap_or(0);
        addresses.split(',').any(|address| match address.rsplit_once(':') {
            Some((host, at)) => {
                (host == ANY_HOST || host == provider.host()) && (at == ANY || at == port.to_string())
            }
            None => address == ANY_HOST || address == provider.host(),
        })
    }

    fn changed(&self, instance: &Instance) -> Result<Option<Instance>> {
        let mut provider = provider::to_url(instance)?;
        if !self.is_about(&provider) {
            return Ok(None);
        }
        for (name, value) in self.url.parameters() {
            let condition = CONDITIONS.contains(&name.as_str()) || name.starts_with('~');
            let kept = self.url.protocol() == "absent" && provider.parameter(name).is_some();
            if !condition && !kept {
                provider.set(name, value);
            }
        }
        provider::from_url(instance.name(), provider, instance.kind()).map(Some)
    }
}

impl Rule for Override {
    fn rank(&self) -> &str {
        &self.rank
    }

    fn apply(&self, instance: Instance) -> Instance {
        match self.changed(&instance) {
            Ok(Some(changed)) => changed,
            Ok(None) => instance,
            Err(error) => {
                tracing::warn!(rule = ?self.url, id = instance.id(), %error, "an override cannot be applied");
                instance
            }
        }
    }
}
