//! Opening the store by URL.

use std::sync::Arc;

use async_trait::async_trait;
use coord_api::{Backend, BackendFactory, Config, Error, OptionSpec, Result};

use crate::{SCHEME, TemplateBackend};

/// Opens `template:name`.
#[derive(Clone, Copy, Debug, Default)]
pub struct TemplateFactory;

#[async_trait]
impl BackendFactory for TemplateFactory {
    fn schemes(&self) -> &'static [&'static str] {
        &[SCHEME]
    }

    /// What is not here is refused, with the nearest match. The common options (`namespace`, `connect_timeout` and so
    /// on) are known already.
    fn options(&self) -> &'static [OptionSpec] {
        &[OptionSpec { name: "renewals", doc: "how many renewals there are in a ttl, from 2 to 20 (3)" }]
    }

    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(TemplateBackend::connect(config).await?))
    }
}

/// The options, checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) renewals: u32,
}

impl Settings {
    pub(crate) fn new(config: &Config) -> Result<Self> {
        if !config.url().hosts().is_empty() {
            return Err(Error::config("this store has a name and no hosts: template:name"));
        }
        let renewals = config.options().number("renewals")?.unwrap_or(3);
        if !(2..=20).contains(&renewals) {
            return Err(Error::config("an option is not from 2 to 20").with_context("option", "renewals"));
        }
        Ok(Self { renewals })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coord_api::{ErrorKind, Registry};

    #[tokio::test]
    async fn what_is_wrong_is_refused_and_named() {
        let registry = Registry::new().with(TemplateFactory);
        for (url, named) in [
            ("template:a?renewal=3", "did you mean \"renewals\"?"),
            ("template:a?renewals=1", "from 2 to 20"),
            ("template:a?renewals=x", "a whole number"),
            ("template://host/a", "no hosts"),
        ] {
            let error = registry.connect(&Config::from_url(url).unwrap()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{url}");
            assert!(error.to_string().contains(named), "{url}: {error}");
        }
    }
}
