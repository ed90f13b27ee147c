//! Calls of the recipes that outlive a session.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use coord_api::Coord;
use coord_recipes::{
    Candidate, Election, Joined, Leadership, Membership, Partition, PersistentEphemeral, RegistrationState,
    RunOnce, SessionKeeper,
};

use super::{LINE, MOMENT, calls, cut, cut_within, give_back, keeper, name_of};
use crate::sim::client::Client;

const GROUP: &str = "/line/group";
const WORK: Duration = Duration::from_millis(20);

fn group(coord: &Coord) -> coord_api::Result<Membership> {
    Membership::new(coord, GROUP)
}

async fn joined(me: &Client, keeper: &SessionKeeper) -> coord_api::Result<Joined> {
    group(me.coord())?.join(keeper, &name_of(me), "").await
}

async fn leading(me: &Client, keeper: &SessionKeeper) -> coord_api::Result<Leadership> {
    Candidate::new(keeper, LINE, name_of(me))?.leadership().await
}

fn registration(me: &Client, keeper: &SessionKeeper) -> coord_api::Result<PersistentEphemeral> {
    PersistentEphemeral::new(keeper, format!("{LINE}-{}", me.id()), "value")
}

async fn term(_: Arc<Leadership>) -> ControlFlow<()> {
    tokio::time::sleep(WORK).await;
    ControlFlow::Break(())
}

async fn job() -> Result<(), ()> {
    tokio::time::sleep(WORK).await;
    Ok(())
}

calls! {
    "keeper.rs::session" => (me, _on) {
        let kept = keeper(&me);
        cut(&me, kept.session()).await?;
        kept.session().await?;
        kept.close().await
    }
    "keeper.rs::close" => (me, _on) {
        let kept = keeper(&me);
        kept.session().await?;
        cut(&me, kept.close()).await.map(drop)
    }
    "persistent.rs::registered" => (me, _on) {
        let kept = keeper(&me);
        let one = registration(&me, &kept)?;
        cut(&me, one.registered()).await?;
        one.close().await?;
        kept.close().await
    }
    "persistent.rs::changed" => (me, _on) {
        let kept = keeper(&me);
        let one = registration(&me, &kept)?;
        cut_within(&me, one.changed(RegistrationState::Pending)).await;
        one.registered().await?;
        one.close().await?;
        kept.close().await
    }
    "persistent.rs::set" => (me, _on) {
        let kept = keeper(&me);
        let one = registration(&me, &kept)?;
        one.registered().await?;
        cut(&me, one.set("other")).await?;
        one.set("last").await?;
        one.close().await?;
        kept.close().await
    }
    "persistent.rs::close" => (me, _on) {
        let kept = keeper(&me);
        let one = registration(&me, &kept)?;
        one.registered().await?;
        cut(&me, one.close()).await?;
        kept.close().await
    }
    "membership.rs::join" => (me, _on) {
        let kept = keeper(&me);
        give_back(&me, cut(&me, group(me.coord())?.join(&kept, &name_of(&me), "")).await?, Joined::leave).await?;
        kept.close().await
    }
    "membership.rs::join_timeout" => (me, _on) {
        let kept = keeper(&me);
        let got = cut(&me, group(me.coord())?.join_timeout(&kept, &name_of(&me), "", MOMENT)).await?;
        give_back(&me, got, Joined::leave).await?;
        kept.close().await
    }
    "membership.rs::members" => (me, _on) {
        let kept = keeper(&me);
        let member = joined(&me, &kept).await?;
        cut(&me, group(me.coord())?.members()).await?;
        member.leave().await?;
        kept.close().await
    }
    "membership.rs::events" => (me, _on) {
        let kept = keeper(&me);
        let member = joined(&me, &kept).await?;
        cut(&me, group(me.coord())?.events()).await?;
        member.leave().await?;
        kept.close().await
    }
    "membership.rs::update" => (me, _on) {
        let kept = keeper(&me);
        let member = joined(&me, &kept).await?;
        cut(&me, member.update("other")).await?;
        member.update("last").await?;
        member.leave().await?;
        kept.close().await
    }
    "membership.rs::leave" => (me, _on) {
        let kept = keeper(&me);
        cut(&me, joined(&me, &kept).await?.leave()).await?;
        kept.close().await
    }
    "partition/mod.rs::new" => (me, _on) {
        let kept = keeper(&me);
        let member = joined(&me, &kept).await?;
        cut(&me, Partition::new(&member)).await?;
        member.leave().await?;
        kept.close().await
    }
    "partition/mod.rs::with_weights" => (me, _on) {
        let kept = keeper(&me);
        let member = joined(&me, &kept).await?;
        cut(&me, Partition::with_weights(&member, |_| 2)).await?;
        member.leave().await?;
        kept.close().await
    }
    "election/candidate.rs::leadership" => (me, _on) {
        let kept = keeper(&me);
        let candidate = Candidate::new(&kept, LINE, name_of(&me))?;
        give_back(&me, cut(&me, candidate.leadership()).await?, Leadership::resign).await?;
        candidate.leadership().await?.resign().await?;
        kept.close().await
    }
    "election/leadership.rs::resign" => (me, _on) {
        let kept = keeper(&me);
        cut(&me, leading(&me, &kept).await?.resign()).await?;
        leading(&me, &kept).await?.resign().await?;
        kept.close().await
    }
    "election/leadership.rs::ending" => (me, _on) {
        let kept = keeper(&me);
        let leadership = leading(&me, &kept).await?;
        cut_within(&me, leadership.ending()).await;
        leadership.resign().await?;
        kept.close().await
    }
    "election/leadership.rs::outranked" => (me, _on) {
        let kept = keeper(&me);
        let leadership = leading(&me, &kept).await?;
        cut_within(&me, leadership.outranked()).await.transpose()?;
        leadership.resign().await?;
        kept.close().await
    }
    "election/leadership.rs::hand_over" => (me, _on) {
        let kept = keeper(&me);
        let leadership = leading(&me, &kept).await?;
        // Whom we name may not stand.
        let done = me.perhaps_cancelled(leadership.hand_over("node-2", MOMENT)).await;
        if !matches!(done, Some(Ok(()))) && leadership.is_valid() {
            leadership.resign().await?;
        }
        leading(&me, &kept).await?.resign().await?;
        kept.close().await
    }
    "election/run.rs::run_while_leader" => (me, _on) {
        let kept = keeper(&me);
        let candidate = Candidate::new(&kept, LINE, name_of(&me))?;
        cut(&me, candidate.run_while_leader(term)).await?;
        candidate.leadership().await?.resign().await?;
        kept.close().await
    }
    "election/mod.rs::participants" => (me, _on) {
        let kept = keeper(&me);
        let leadership = leading(&me, &kept).await?;
        cut(&me, Election::new(me.coord(), LINE)?.participants()).await?;
        leadership.resign().await?;
        kept.close().await
    }
    "election/mod.rs::current_leader" => (me, _on) {
        let kept = keeper(&me);
        let leadership = leading(&me, &kept).await?;
        cut(&me, Election::new(me.coord(), LINE)?.current_leader()).await?;
        leadership.resign().await?;
        kept.close().await
    }
    "run_once.rs::run" => (me, _on) {
        let kept = keeper(&me);
        let (leadership, jobs) = (leading(&me, &kept).await?, RunOnce::new("/kept/jobs")?);
        cut(&me, jobs.run(&leadership, "job", "first", job)).await?;
        let _ = jobs.run(&leadership, "job", "second", job).await?;
        leadership.resign().await?;
        kept.close().await
    }
    "run_once.rs::marker" => (me, _on) {
        let jobs = RunOnce::new("/kept/jobs")?;
        cut(&me, jobs.marker(me.coord(), "job", "first")).await.map(drop)
    }
}
