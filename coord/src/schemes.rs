//! Which backends this build has, and which features bring those it has not.

use coord_api::{Error, Registry};

/// The backends of this build, by scheme. Add your own with [`Registry::with`] and open it by
/// [`connect_through`](crate::connect_through).
#[must_use]
pub fn registry() -> Registry {
    let registry = Registry::new();
    #[cfg(feature = "memory")]
    let registry = registry.with(coord_backend_memory::MemoryFactory);
    #[cfg(feature = "zk")]
    let registry = registry.with(coord_backend_zk::ZkFactory);
    #[cfg(feature = "etcd")]
    let registry = registry.with(coord_backend_etcd::EtcdFactory);
    #[cfg(feature = "redis")]
    let registry = registry.with(coord_backend_redis::RedisFactory);
    #[cfg(feature = "sqlite")]
    let registry = registry.with(coord_backend_sqlite::SqliteFactory);
    registry
}

/// The store of those who name none: the embedded one, where the build has it.
pub(crate) const DEFAULT: Option<&str> = if cfg!(feature = "sqlite") { Some("sqlite:") } else { None };

/// Schemes of this project, each with the feature of its backend and whether it needs `tls` besides.
const SCHEMES: &[(&str, &str, bool)] = &[
    ("memory", "memory", false),
    ("zk", "zk", false),
    ("zks", "zk", true),
    ("etcd", "etcd", false),
    ("etcds", "etcd", true),
    ("redis", "redis", false),
    ("rediss", "redis", true),
    ("sqlite", "sqlite", false),
];

/// The error for a scheme that exists and is not in `registry`; `None` for all others.
pub(crate) fn left_out(registry: &Registry, scheme: &str) -> Option<Error> {
    if registry.schemes().any(|known| known == scheme) {
        return None;
    }
    let (_, feature, tls) = SCHEMES.iter().find(|(name, ..)| *name == scheme)?;
    let (features, flag) = if *tls {
        (format!("features \"{feature}\" and \"tls\""), format!("{feature},tls"))
    } else {
        (format!("feature \"{feature}\""), (*feature).to_owned())
    };
    let known: Vec<_> = registry.schemes().collect();
    Some(
        Error::config(format!(
            "this program was built without the backend of this scheme: build it with the {features} of the crate \
             coord, as in: cargo add coord --features {flag}"
        ))
        .with_context("scheme", scheme)
        .with_context("known", known.join(", ")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_that_was_left_out_names_its_features() {
        let none = Registry::new();
        let text = left_out(&none, "etcd").unwrap().to_string();
        assert!(text.contains("feature \"etcd\"") && text.contains("--features etcd"), "{text}");
        let text = left_out(&none, "rediss").unwrap().to_string();
        assert!(text.contains("features \"redis\" and \"tls\""), "{text}");
        assert!(left_out(&none, "ectd").is_none(), "unknown, not left out");
    }

    #[test]
    fn what_the_build_has_is_in_the_table_and_not_left_out() {
        let registry = registry();
        for scheme in registry.schemes() {
            assert!(left_out(&registry, scheme).is_none());
            assert!(SCHEMES.iter().any(|(name, ..)| *name == scheme), "{scheme} is not in the table");
        }
    }
}
