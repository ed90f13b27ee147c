//! Services and their instances, while servers stop and come back.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use coord_api::{ErrorKind, SessionOptions};
use coord_recipes::SessionKeeper;
use coord_registry::{Discovery, Instance, Registration};

use super::registry::{ids, instance, registry, see, view};
use crate::{CaseResult, Client, Cx, Failure, Rig, eventually, within};

cases!("registry_restart", needs Server:
    instances_and_views_outlive_a_restart,
    instances_and_views_outlive_a_pause_beyond_the_ttl,
    a_view_equals_the_live_instances_after_flaps,
);

/// How long the store may need to take everybody back, on a busy machine.
const CALM: Duration = Duration::from_secs(60);

fn short(client: &Client) -> SessionKeeper {
    SessionKeeper::new(&client.coord, SessionOptions::new(Cx::SHORT))
}

/// Registers ten instances of each client.
async fn tens(clients: &[&Client]) -> Result<Vec<Registration>, Failure> {
    let mut all = Vec::new();
    for (at, client) in clients.iter().enumerate() {
        let ten = (0..10).map(|n| instance(&format!("c{at}-{n}")));
        let registry = registry(&client.coord)?;
        let registered = within("registered", registry.register_all(&short(client), ten)).await?;
        all.extend(registered.into_iter().collect::<coord_api::Result<Vec<_>>>()?);
    }
    Ok(all)
}

/// Waits until the view shows exactly these.
async fn equals(view: &Discovery, live: &[Registration]) -> CaseResult {
    let wanted: BTreeSet<String> = live.iter().map(|one| one.instance().id().to_owned()).collect();
    let is_it =
        |list: &[Instance]| list.len() == wanted.len() && list.iter().all(|one| wanted.contains(one.id()));
    match tokio::time::timeout(CALM, view.wait_until(|list| is_it(list))).await {
        Ok(seen) => seen.map(drop).map_err(Failure::from),
        Err(_) => Err(Failure(format!("wanted {wanted:?}, shown {:?}", ids(&view.instances())))),
    }
}

/// Promise: after a restart of the store, at once or when all sessions are over, everybody is back and seen.
///
/// BB-214 (<https://github.com/zeromicro/go-zero/issues/4201>): nobody registered again after the store had restarted.
/// BB-215 (<https://github.com/go-kratos/kratos/issues/856>): whoever had tried too often gave up for good.
async fn instances_and_views_outlive_a_restart(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let mut all = tens(&[&a, &b]).await?;
    let view = view(&b.coord).await?;
    equals(&view, &all).await?;
    for away in [Duration::ZERO, Cx::SHORT * 3] {
        rig.kill().await?;
        assert_eq!(view.instances().len(), all.len(), "the last list is shown");
        tokio::time::sleep(away).await;
        rig.restart().await?;
        for one in &all {
            // Seen as lost and registered again, or not lost at all.
            tokio::time::timeout(CALM, one.registered())
                .await
                .map_err(|_| Failure("not back".to_owned()))??;
        }
        let left = within("it leaves", all.swap_remove(0).close()).await?;
        // A session that ended just now takes it along.
        assert!(left.is_ok() || left.is_err_and(|error| error.kind() == ErrorKind::SessionLost));
        equals(&view, &all).await?;
    }
    Ok(())
}

/// Promise: a server that stood still for longer than the ttl costs an absence at most.
async fn instances_and_views_outlive_a_pause_beyond_the_ttl(cx: Arc<Cx>) -> CaseResult {
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let all = tens(&[&a, &b]).await?;
    let view = view(&b.coord).await?;
    equals(&view, &all).await?;
    rig.pause().await?;
    tokio::time::sleep(Cx::SHORT * 2).await;
    assert!(all.iter().all(|one| !one.is_registered()), "they believed beyond the ttl");
    rig.resume().await?;
    for one in &all {
        tokio::time::timeout(CALM, one.registered()).await.map_err(|_| Failure("not back".to_owned()))??;
    }
    equals(&view, &all).await
}

/// Promise: however many come and go while the store stumbles, the view ends with those that live.
async fn a_view_equals_the_live_instances_after_flaps(cx: Arc<Cx>) -> CaseResult {
    const ROUNDS: usize = 10;
    let rig = cx.rig().await?;
    let (a, b) = (cx.client(&rig).await?, cx.client(&rig).await?);
    let view = view(&b.coord).await?;
    let registry = registry(&a.coord)?;
    let keeper = short(&a);
    let mut live = Vec::new();
    for round in 0..ROUNDS {
        // Twenty begin to register; half of those that are there go without waiting for anybody.
        for n in 0..20 {
            let one = instance(&format!("r{round}-{n:02}"));
            live.push(registry.register_in_background(&keeper, one)?);
        }
        let stay = live.len() / 2;
        drop(live.split_off(stay));
        stumble(&*rig, &a, round).await?;
    }
    equals(&view, &live).await?;
    eventually("they know it", || async { Ok(live.iter().all(Registration::is_registered)) }).await?;
    drop(live);
    see(&view, "nobody is left", &[]).await
}

async fn stumble(rig: &dyn Rig, client: &Client, round: usize) -> CaseResult {
    match round % 4 {
        0 => client.link.reset().await?,
        1 => {
            rig.kill().await?;
            rig.restart().await?;
        }
        2 => {
            rig.pause().await?;
            tokio::time::sleep(Duration::from_millis(500)).await;
            rig.resume().await?;
        }
        _ => {
            client.link.blackhole().await;
            tokio::time::sleep(Duration::from_millis(500)).await;
            client.link.heal().await;
        }
    }
    Ok(())
}
