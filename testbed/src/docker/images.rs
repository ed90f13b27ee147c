//! Which image a kind of server comes from, and whether it can be had.

use std::{
    collections::HashMap,
    env,
    fmt::Display,
    sync::{Mutex, PoisonError},
};

use futures::StreamExt;
use testcontainers::bollard::{Docker, query_parameters::CreateImageOptionsBuilder};

use super::engine;
use crate::Kind;

/// The image, as the environment names it.
pub(super) fn reference(kind: Kind) -> String {
    let named = env::var(kind.image_variable()).ok().filter(|name| !name.is_empty());
    named.unwrap_or_else(|| kind.default_image().to_owned())
}

/// Name and tag of a reference; a digest is left with its name.
pub(super) fn split(reference: &str) -> (&str, &str) {
    match reference.rsplit_once(':') {
        // A colon before a slash belongs to a port.
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (reference, "latest"),
    }
}

/// What to do about an image that cannot be had.
pub(super) fn explain(kind: Kind, error: &dyn Display) -> String {
    format!(
        "{error} (set {} to an image that is here; scripts/build-images.sh builds some)",
        kind.image_variable()
    )
}

/// Whether a container of this kind could be started: the engine answers and has the image, or
/// can get it. If not, the reason.
pub(crate) async fn offers(kind: Kind) -> Result<(), String> {
    // A pull that fails takes a while to do so, and would fail again for each test.
    static KNOWN: Mutex<Option<HashMap<String, Result<(), String>>>> = Mutex::new(None);
    let reference = reference(kind);
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(answer) = known().as_ref().and_then(|known| known.get(&reference)) {
        return answer.clone();
    }
    let answer = look(kind, &reference).await;
    known().get_or_insert_default().insert(reference, answer.clone());
    answer
}

async fn look(kind: Kind, reference: &str) -> Result<(), String> {
    let engine = engine().await.map_err(|error| error.to_string())?;
    engine.ping().await.map_err(|error| format!("no engine answers: {error}"))?;
    if engine.inspect_image(reference).await.is_ok() {
        return Ok(());
    }
    pull(&engine, reference).await.map_err(|error| explain(kind, &error))
}

async fn pull(engine: &Docker, reference: &str) -> Result<(), String> {
    let (name, tag) = split(reference);
    let options = CreateImageOptionsBuilder::new().from_image(name).tag(tag).build();
    let mut progress = Box::pin(engine.create_image(Some(options), None, None));
    while let Some(step) = progress.next().await {
        step.map_err(|error| format!("no image {reference}, and it cannot be pulled: {error}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_split() {
        for (reference, name, tag) in [
            ("redis", "redis", "latest"),
            ("redis:8", "redis", "8"),
            ("host.example:5000/a/etcd", "host.example:5000/a/etcd", "latest"),
            ("host.example:5000/a/etcd:v3", "host.example:5000/a/etcd", "v3"),
            ("redis@sha256:abc", "redis@sha256", "abc"),
        ] {
            assert_eq!(split(reference), (name, tag));
        }
    }
}
