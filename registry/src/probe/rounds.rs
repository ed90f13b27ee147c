//! Asking all of them, round after round.

use std::{collections::BTreeMap, sync::Weak};

use coord_api::kit::Runtime;
use futures::{StreamExt, stream};
use tokio::time::sleep;

use super::Probing;
use crate::{
    Candidate, Pool,
    balance::Inner,
    down::{Downs, Turn},
};

/// Asks until the balancer is gone.
pub(crate) async fn rounds(balancer: Weak<Inner>, probing: Probing, runtime: Runtime) {
    // By id.
    let mut failures: BTreeMap<String, u32> = BTreeMap::new();
    let mut pause = probing.every.mul_f64(runtime.unit());
    loop {
        sleep(pause).await;
        pause = probing.every.mul_f64(0.8 + 0.4 * runtime.unit());
        let Some(pool) = balancer.upgrade().map(|balancer| balancer.pool()) else { return };
        failures.retain(|id, _| pool.find(id).is_some());
        round(&balancer, &probing, &pool, &mut failures).await;
    }
}

async fn round(balancer: &Weak<Inner>, probing: &Probing, pool: &Pool, failures: &mut BTreeMap<String, u32>) {
    let all: Vec<Candidate> = pool.candidates().iter().cloned().collect();
    let asked = stream::iter(all).map(|candidate| async move {
        let answer = probing.ask(candidate.instance()).await;
        (candidate, answer)
    });
    let mut answers = asked.buffer_unordered(probing.at_once);
    while let Some((candidate, answer)) = answers.next().await {
        let instance = candidate.instance();
        let dead = match answer {
            Ok(()) => {
                failures.remove(instance.id());
                false
            }
            Err(error) => {
                let failed = failures.entry(instance.id().to_owned()).or_default();
                *failed = failed.saturating_add(1);
                tracing::debug!(%error, failed = *failed, "a probe failed");
                if *failed < probing.failures {
                    continue;
                }
                true
            }
        };
        let report: fn(&mut Downs, &str, _) -> Option<Turn> =
            if dead { Downs::probes_failed } else { Downs::probe_passed };
        let Some(balancer) = balancer.upgrade() else { return };
        balancer.report(instance, candidate.counter(), report);
    }
}
