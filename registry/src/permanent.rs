//! Permanent instances: plain keys, which nobody's session ends and nothing rewrites by itself.

use bytes::Bytes;
use coord_api::{Check, Coord, Entry, Key, Lifetime, Result, Txn, kit::insist};

use crate::{Instance, Registry, registry::not_holder};

/// Writes a permanent instance, unless it is there and says the same.
pub(crate) async fn register(
    registry: &Registry,
    key: &Key,
    value: Bytes,
    instance: &Instance,
) -> Result<()> {
    let coord = registry.latest();
    // Sent again after a lost reply: what the first try wrote says the same, and is found.
    insist(
        || Some(coord.runtime()),
        |_| async {
            loop {
                if coord.create(key, value.clone(), Lifetime::Persistent).await?.is_some() {
                    return Ok(());
                }
                let Some(entry) = coord.get(key).await? else { continue };
                return if is_this(registry, &entry, instance) {
                    Ok(())
                } else {
                    Err(not_holder(key, "the id is taken by an instance that says something else")
                        .with_operation("register"))
                };
            }
        },
    )
    .await
}

/// Replaces a permanent instance by what it says now, at the key that says so.
pub(crate) async fn update(registry: &Registry, old: &Key, key: &Key, value: Bytes) -> Result<()> {
    let (coord, value) = (registry.latest(), &value);
    let call = |lost| {
        let coord = &coord;
        async move {
            loop {
                match try_update(coord, old, key, value).await? {
                    Some(true) => return Ok(()),
                    Some(false) => {} // it changed while we looked
                    // A lost reply was a success: it is at its new key.
                    None if lost && coord.get(key).await?.is_some_and(|entry| entry.value == *value) => {
                        return Ok(());
                    }
                    None => {
                        return Err(not_holder(old, "the permanent instance is not there any more")
                            .with_operation("update"));
                    }
                }
            }
        }
    };
    insist(|| Some(coord.runtime()), call).await
}

/// Empties a key that should be a directory: what others left there means nothing.
pub(crate) async fn clear(registry: &Registry, key: &Key) -> Result<()> {
    let coord = registry.latest();
    insist(
        || Some(coord.runtime()),
        |_| async {
            let entry =
                coord.get(key).await?.filter(|entry| entry.meta.owner.is_none() && !entry.value.is_empty());
            let Some(entry) = entry else { return Ok(()) };
            // Refused: it changed, or became a directory.
            coord.compare_and_set(key, entry.meta.version, Bytes::new()).await.map(drop)
        },
    )
    .await
}

/// Whether it was written; `None` if there is no permanent instance at `old`.
async fn try_update(coord: &Coord, old: &Key, key: &Key, value: &Bytes) -> Result<Option<bool>> {
    let entry = coord.get(old).await?.filter(|entry| entry.meta.owner.is_none());
    let Some(entry) = entry else { return Ok(None) };
    let txn = Txn::new().check(Check::Version(old.clone(), entry.meta.version));
    let txn = if key == old {
        txn.update(key, value.clone())
    } else {
        txn.delete(old).create(key, value.clone(), Lifetime::Persistent)
    };
    let written = coord.commit(txn).await?.is_committed();
    if !written && key != old && coord.get(key).await?.is_some() {
        return Err(
            not_holder(key, "somebody else has the key that the update leads to").with_operation("update")
        );
    }
    Ok(Some(written))
}

/// Deletes a permanent instance; `false` if there is none.
pub(crate) async fn unregister(registry: &Registry, key: &Key) -> Result<bool> {
    let coord = registry.latest();
    loop {
        let entry = coord.get(key).await?.filter(|entry| entry.meta.owner.is_none());
        let Some(entry) = entry else { return Ok(false) };
        if coord.delete_version(key, entry.meta.version).await? {
            return Ok(true);
        }
    }
}

fn is_this(registry: &Registry, entry: &Entry, instance: &Instance) -> bool {
    let decoded = registry.layout().decode(registry.root(), instance.name(), entry);
    entry.meta.owner.is_none() && matches!(decoded, Ok(Some(there)) if there.says_the_same(instance))
}
