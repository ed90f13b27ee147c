//! Groups, while everything works.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use coord_api::{Coord, ErrorKind};
use coord_recipes::{Joined, MemberEvent, MemberStream, Membership};
use futures::StreamExt;

use super::{
    lock::entries,
    persistent::{keeper, value},
};
use crate::{CaseResult, Cx, Failure, eventually, sweep::drop_after, within};

cases!("membership", needs Store:
    members_see_each_other_with_their_payloads,
    events_tell_who_joins_changes_and_leaves,
    an_id_belongs_to_one_member,
    waiting_for_an_id_ends_in_time,
    a_member_comes_back_with_its_latest_payload,
    a_join_that_is_given_up_leaves_nothing_behind,
    a_quick_coming_and_going_ends_with_the_truth,
    the_last_member_leaves_and_watchers_see_the_next,
    groups_with_similar_names_are_apart,
    what_is_no_member_is_not_shown,
    bad_ids_and_payloads_are_refused,
);

pub(super) const GROUP: &str = "/groups/workers";

pub(super) async fn join(coord: &Coord, id: &str) -> Result<Joined, Failure> {
    Ok(within("joined", Membership::new(coord, GROUP)?.join(&keeper(coord), id, id.to_owned())).await??)
}

/// A watcher of a group: what it has been told so far.
pub(super) struct Watcher {
    events: MemberStream,
    pub(super) members: BTreeMap<String, Vec<u8>>,
}

impl Watcher {
    pub(super) async fn new(coord: &Coord) -> Result<Self, Failure> {
        Ok(Self { events: Membership::new(coord, GROUP)?.events().await?, members: BTreeMap::new() })
    }

    /// Follows the events until the members are these.
    pub(super) async fn see(&mut self, what: &str, wanted: &[(&str, &str)]) -> CaseResult {
        let wanted: BTreeMap<_, _> =
            wanted.iter().map(|(id, payload)| ((*id).to_owned(), payload.as_bytes().to_vec())).collect();
        within(what, async {
            while self.members != wanted {
                match self.events.next().await {
                    Some(event) => self.apply(event?),
                    None => return Err(Failure("the stream ended".to_owned())),
                }
            }
            Ok(())
        })
        .await?
    }

    fn apply(&mut self, event: MemberEvent) {
        match event {
            MemberEvent::Members(members) => {
                self.members =
                    members.iter().map(|one| (one.id().to_owned(), one.payload().to_vec())).collect();
            }
            MemberEvent::Joined(one) => {
                assert!(!self.members.contains_key(one.id()), "joined twice");
                self.members.insert(one.id().to_owned(), one.payload().to_vec());
            }
            MemberEvent::Updated(one) => {
                assert!(self.members.contains_key(one.id()), "changed before it joined");
                self.members.insert(one.id().to_owned(), one.payload().to_vec());
            }
            MemberEvent::Left(one) => {
                assert!(self.members.remove(one.id()).is_some(), "left before it joined");
            }
            other => panic!("an event that nobody knows: {other:?}"),
        }
    }
}

/// Promise: everybody sees who is there and what each says about itself.
async fn members_see_each_other_with_their_payloads(cx: Arc<Cx>) -> CaseResult {
    let (coord, other) = (cx.coord().await?, cx.coord().await?);
    let a = join(&coord, "a").await?;
    let b = join(&other, "b").await?;
    assert!(a.is_member() && b.is_member() && a.id() == "a");
    let seen = |members: Vec<coord_recipes::Member>| {
        members.iter().map(|one| (one.id().to_owned(), one.payload().to_vec())).collect::<Vec<_>>()
    };
    let all = [("a".to_owned(), b"a".to_vec()), ("b".to_owned(), b"b".to_vec())];
    for group in [a.group(), b.group()] {
        eventually("both are seen", || async { Ok(seen(group.members().await?) == all) }).await?;
    }
    b.update("new").await?;
    eventually("the payload is seen", || async {
        Ok(seen(a.group().members().await?).last().is_some_and(|(_, payload)| payload == b"new"))
    })
    .await?;
    b.leave().await?;
    eventually("one is left", || async { Ok(seen(a.group().members().await?).len() == 1) }).await?;
    drop(a);
    eventually("nobody is left", || async { Ok(entries(&coord, GROUP).await? == 0) }).await
}

/// Promise: a watcher that follows the events knows the group.
async fn events_tell_who_joins_changes_and_leaves(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let a = join(&coord, "a").await?;
    let mut watcher = Watcher::new(&cx.coord().await?).await?;
    watcher.see("who is there", &[("a", "a")]).await?;
    let b = join(&coord, "b").await?;
    watcher.see("who joined", &[("a", "a"), ("b", "b")]).await?;
    b.update("new").await?;
    watcher.see("who changed", &[("a", "a"), ("b", "new")]).await?;
    a.leave().await?;
    watcher.see("who left", &[("b", "new")]).await?;
    b.leave().await?;
    watcher.see("who left last", &[]).await
}

/// Promise: the second of two with one id is told, and the first is not touched.
async fn an_id_belongs_to_one_member(cx: Arc<Cx>) -> CaseResult {
    let (coord, other) = (cx.coord().await?, cx.coord().await?);
    let a = join(&coord, "a").await?;
    let group = Membership::new(&other, GROUP)?;
    let error = within("refused", group.join(&keeper(&other), "a", "other")).await?.expect_err("taken");
    assert_eq!(error.kind(), ErrorKind::NotHolder, "{error}");
    // The same within one process and session.
    let shared = keeper(&coord);
    let b = group.join(&shared, "b", "").await?;
    let error = group.join(&shared, "b", "other").await.expect_err("taken");
    assert_eq!(error.kind(), ErrorKind::NotHolder, "{error}");
    assert!(a.is_member() && b.is_member());
    assert_eq!(value(&coord, &format!("{GROUP}/a")).await?.as_deref(), Some(&b"a"[..]));
    a.leave().await?;
    within("free", group.join(&keeper(&other), "a", "other")).await??.leave().await?;
    Ok(())
}

/// Promise: a member may wait for its id, and not longer than it says.
async fn waiting_for_an_id_ends_in_time(cx: Arc<Cx>) -> CaseResult {
    let (coord, other) = (cx.coord().await?, cx.coord().await?);
    let a = join(&coord, "a").await?;
    let (group, keeper) = (Membership::new(&other, GROUP)?, keeper(&other));
    let waiting = group.join_timeout(&keeper, "a", "", Duration::from_millis(300));
    let error = within("it ends", waiting).await?.expect_err("taken");
    assert_eq!(error.kind(), ErrorKind::NotHolder, "{error}");
    let waiting = tokio::spawn({
        let group = group.clone();
        async move { group.join_timeout(&keeper, "a", "second", Duration::from_secs(15)).await }
    });
    a.leave().await?;
    let second = within("its turn", waiting).await?.expect("no panic")?;
    assert_eq!(value(&coord, &format!("{GROUP}/a")).await?.as_deref(), Some(&b"second"[..]));
    second.leave().await?;
    Ok(())
}

/// Promise: a lost session is a leaving and a joining, with the payload of now.
///
/// BB-199 (CURATOR-181): the old data was registered after a reconnect.
async fn a_member_comes_back_with_its_latest_payload(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let kept = keeper(&coord);
    let a = Membership::new(&coord, GROUP)?.join(&kept, "a", "1").await?;
    let mut watcher = Watcher::new(&cx.coord().await?).await?;
    watcher.see("there", &[("a", "1")]).await?;
    a.update("2").await?;
    kept.session().await?.close().await?;
    assert!(!a.is_member());
    watcher.see("back", &[("a", "2")]).await?;
    within("a member again", a.registration().registered()).await??;
    a.leave().await?;
    watcher.see("gone", &[]).await
}

/// Promise: a join that is dropped at any await point leaves no member (G9).
async fn a_join_that_is_given_up_leaves_nothing_behind(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let (group, kept) = (Membership::new(&coord, GROUP)?, keeper(&coord));
    kept.session().await?;
    for polls in 1..6 {
        let id = format!("m{polls}");
        drop(drop_after(group.join(&kept, &id, ""), polls).await);
        eventually("its registration has ended", || async {
            match group.join(&kept, &id, "again").await {
                Ok(joined) => joined.leave().await.map(|()| true).map_err(Failure::from),
                Err(error) if error.kind() == ErrorKind::NotHolder => Ok(false),
                Err(error) => Err(error.into()),
            }
        })
        .await?;
    }
    eventually("nobody is left", || async { Ok(entries(&coord, GROUP).await? == 0) }).await
}

/// Promise: however quickly members come and go, the last state is told.
///
/// BB-226 (the project's second article): up, down and up again; the last change was missed.
async fn a_quick_coming_and_going_ends_with_the_truth(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let (group, kept) = (Membership::new(&coord, GROUP)?, keeper(&coord));
    let mut watcher = Watcher::new(&cx.coord().await?).await?;
    watcher.see("nobody", &[]).await?;
    for round in 0..5 {
        let a = group.join(&kept, "a", format!("{round}")).await?;
        a.leave().await?;
    }
    let a = group.join(&kept, "a", "last").await?;
    watcher.see("the last", &[("a", "last")]).await?;
    a.leave().await?;
    watcher.see("nobody", &[]).await
}

/// Promise: an empty group is a group; whoever watches it sees the next member.
///
/// BB-202 (CURATOR-163): removing the empty node blinded the caches.
async fn the_last_member_leaves_and_watchers_see_the_next(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let mut watcher = Watcher::new(&cx.coord().await?).await?;
    for round in ["1", "2", "3"] {
        let a = Membership::new(&coord, GROUP)?.join(&keeper(&coord), round, "").await?;
        watcher.see("joined", &[(round, "")]).await?;
        a.leave().await?;
        watcher.see("left", &[]).await?;
        // Lets a store that collects empty directories do so.
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    Ok(())
}

/// Promise: a group is its directory and nothing that is called alike.
///
/// BB-218 (nitro-plugins PR 60 and others): `rand` also returned `randpro`.
async fn groups_with_similar_names_are_apart(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let kept = keeper(&coord);
    let mut joined = Vec::new();
    for name in ["/g/a", "/g/ab", "/g/a-b", "/g/b"] {
        joined.push(Membership::new(&coord, name)?.join(&kept, "one", name).await?);
    }
    for one in &joined {
        let members = one.group().members().await?;
        assert_eq!(members.len(), 1);
        assert_eq!(&members[0].payload()[..], one.group().name().as_str().as_bytes());
    }
    Ok(())
}

/// Promise: keys of others in the directory are no members, and an empty payload is one.
///
/// BB-205 (CURATOR-574): an empty payload broke the reader.
async fn what_is_no_member_is_not_shown(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    coord.put(format!("{GROUP}/readme"), "no member").await?;
    coord.put(format!("{GROUP}/deep/er"), "no member").await?;
    let mut watcher = Watcher::new(&cx.coord().await?).await?;
    watcher.see("nobody", &[]).await?;
    let group = Membership::new(&coord, GROUP)?;
    let a = group.join(&keeper(&coord), "a", "").await?;
    watcher.see("one", &[("a", "")]).await?;
    let error = group.join(&keeper(&coord), "readme", "").await.expect_err("it is somebody's");
    assert_eq!(error.kind(), ErrorKind::NotHolder, "{error}");
    assert_eq!(value(&coord, &format!("{GROUP}/readme")).await?.as_deref(), Some(&b"no member"[..]));
    a.leave().await?;
    Ok(())
}

/// Promise: bad input is refused with a typed error, and nothing is left.
async fn bad_ids_and_payloads_are_refused(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let (group, kept) = (Membership::new(&coord, GROUP)?, keeper(&coord));
    for id in ["", "a/b", "..", "a\u{0}b"] {
        let error = group.join(&kept, id, "").await.expect_err("bad");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{id:?}: {error}");
    }
    let error = group.join(&kept, "a", vec![0_u8; 2_000_000]).await.expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    let a = group.join(&kept, "b", "1").await?;
    let error = a.update(vec![0_u8; 2_000_000]).await.expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert_eq!(value(&coord, &format!("{GROUP}/b")).await?.as_deref(), Some(&b"1"[..]));
    assert_eq!(Membership::new(&coord, "/").expect_err("bad").kind(), ErrorKind::InvalidArgument);
    a.leave().await?;
    assert_eq!(entries(&coord, GROUP).await?, 0);
    Ok(())
}
