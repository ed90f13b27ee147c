//! Namespaces of the config centre that are exported and imported.

use std::sync::Arc;

use coord_api::{Coord, ErrorKind};
use coord_config_centre::{
    Bundle, ConfigCentre, Content, Edit, Expected, Format, GrayContent, Identity, Import, ImportOutcome,
    OnConflict, Percent, Rule,
};

use crate::{CaseResult, Cx, Failure};

cases!("config_transfer", needs Store:
    what_is_exported_and_imported_is_the_same_byte_for_byte,
    a_rollback_brings_back_all_that_a_release_had,
    what_is_there_already_is_left_or_overwritten_as_asked,
    a_bad_bundle_changes_nothing,
    a_dry_run_writes_nothing_and_says_what_would_be,
);

/// A centre with items and a document, each with a gray rule, by several authors.
async fn filled(coord: &Coord, root: &str) -> Result<ConfigCentre, Failure> {
    let centre = ConfigCentre::new(coord, root)?;
    let (ann, ben) = (Edit::by("ann").note("the first\n"), Edit::by("ben").note("gray"));
    let items = centre.namespace("billing/eu")?;
    items.publish(Content::items([("rate", ""), ("zone", "eu\u{0}")]), &ann).await?.done()?;
    let rule = Rule::new("canary").with_label("track", "canary").with_network("10.0.0.0/8".parse()?);
    items.set_gray(rule, GrayContent::set([("rate", "2")]).remove("zone"), &ben).await?.done()?;
    let document = centre.namespace("routes")?;
    let text = |text: &str| Content::document(Format::Yaml, text);
    document.publish(text("a: 1 # kept\r\n"), &ann).await?.done()?;
    for (id, priority) in [("half", 2), ("few", 1)] {
        let percent = Percent::new(if id == "half" { 50.0 } else { 1.0 })?;
        let rule = Rule::new(id).with_priority(priority).with_percent(percent);
        document.set_gray(rule, GrayContent::whole(text(&format!("a: {priority}"))), &ben).await?.done()?;
    }
    Ok(centre)
}

const NAMES: [&str; 2] = ["billing/eu", "routes"];

/// BB-238 (<https://github.com/alibaba/nacos/issues/13230>, #13171): an export lost tags, and a full dump forgot gray
/// releases.
async fn what_is_exported_and_imported_is_the_same_byte_for_byte(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let here = filled(&coord, "/here").await?;
    let there = ConfigCentre::new(&coord, "/there")?;
    let archive = here.export(NAMES).await?.to_archive()?;
    let imported = there.import(&Bundle::from_archive(&archive[..])?, Import::by("eve")).await?;
    assert!(imported.iter().all(|one| one.outcome == ImportOutcome::Created), "{imported:?}");
    assert_eq!(there.export(NAMES).await?.to_archive()?, archive);

    let dir = tempfile::tempdir().expect("a directory");
    there.export(NAMES).await?.to_dir(dir.path())?;
    let third = ConfigCentre::new(&coord, "/third")?;
    third.import(&Bundle::from_dir(dir.path())?, Import::by("eve")).await?;
    assert_eq!(third.export(NAMES).await?.to_archive()?, archive);
    for i in 0..20 {
        let instance =
            Identity::new(format!("i-{i}")).with_ip([10, 0, 0, i].into()).with_label("track", "canary");
        for name in NAMES {
            let (one, other) = (here.namespace(name)?, third.namespace(name)?);
            assert_eq!(one.content_for(&instance).await?, other.content_for(&instance).await?);
        }
    }
    let head = third.namespace("routes")?.head().await?.expect("imported");
    assert_eq!(
        (head.made.by.as_str(), head.generation.get()),
        ("eve", 1),
        "one generation, made by who imported"
    );
    assert_eq!(third.namespace("routes")?.verify().await?.broken, None);
    Ok(())
}

/// BB-238 (<https://github.com/alibaba/nacos/issues/12371>): a rollback lost type and description.
async fn a_rollback_brings_back_all_that_a_release_had(cx: Arc<Cx>) -> CaseResult {
    let centre = ConfigCentre::new(&cx.coord().await?, "/config")?;
    let billing = centre.namespace("billing")?;
    let first = Content::document(Format::Toml, "rate = 1 # kept");
    billing.publish(first, &Edit::by("ann").note("why")).await?.done()?;
    let before = centre.export(["billing"]).await?.to_archive()?;
    billing.publish(Content::items([("rate", "2")]), &Edit::by("ben")).await?.done()?;
    let head = billing.head().await?.expect("published");
    let to = coord_config_centre::ReleaseVersion::FIRST;
    billing.rollback(to, &Edit::by("eve").expecting(head.generation)).await?.done()?;
    assert_eq!(centre.export(["billing"]).await?.to_archive()?, before);
    Ok(())
}

/// Promise: an import aborts, skips or overwrites, as asked; what it finds unchanged it does not write.
async fn what_is_there_already_is_left_or_overwritten_as_asked(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let bundle = filled(&coord, "/here").await?.export(NAMES).await?;
    let there = ConfigCentre::new(&coord, "/there")?;
    let routes = there.namespace("routes")?;
    let other = Content::document(Format::Yaml, "a: other");
    let generation = routes.publish(other.clone(), &Edit::by("ann")).await?.done()?.generation;

    let error = there.import(&bundle, Import::by("eve")).await.expect_err("something else is there");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("namespaces=routes"), "{error}");
    assert!(there.namespace("billing/eu")?.head().await?.is_none(), "nothing was imported");

    let outcomes = async |import| {
        let imported = there.import(&bundle, import).await?;
        Ok::<_, Failure>(imported.iter().map(|one| one.outcome.as_str()).collect::<Vec<_>>())
    };
    let skip = Import::by("eve").on_conflict(OnConflict::Skip);
    assert_eq!(outcomes(skip.clone()).await?, ["created", "skipped"]);
    assert_eq!(routes.current().await?.expect("there").content(), &other);
    assert_eq!(outcomes(skip).await?, ["unchanged", "skipped"]);
    let overwrite = Import::by("eve").on_conflict(OnConflict::Overwrite);
    assert_eq!(outcomes(overwrite.clone()).await?, ["unchanged", "overwritten"]);
    assert_eq!(there.export(NAMES).await?, bundle);
    let head = routes.head().await?.expect("there");
    assert_eq!(head.generation, generation.next());
    assert_eq!(outcomes(overwrite).await?, ["unchanged", "unchanged"]);
    Ok(())
}

/// Promise: what cannot be published is refused before anything is written, with the namespace.
async fn a_bad_bundle_changes_nothing(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let centre = ConfigCentre::new(&coord, "/config")?.with_release_max(2_000);
    let large = format!("{{\"a\": \"{}\"}}", "x".repeat(3_000));
    for (file, text, kind) in [
        ("zz/document.json", "{\"a\": ", ErrorKind::InvalidArgument),
        ("zz/items.json", large.as_str(), ErrorKind::LimitExceeded),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        for (path, text) in [("aa/items.json", "{}"), (file, text)] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        let bundle = Bundle::from_dir(dir.path())?;
        let error = centre.import(&bundle, Import::by("eve")).await.expect_err("bad");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains("namespace=zz"), "{error}");
        assert!(centre.namespaces().await?.is_empty(), "nothing was imported");
    }
    let missing = centre.export(["none"]).await.expect_err("nothing was published");
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    Ok(())
}

/// Promise: a dry run tells what an import would do, and does not do it.
async fn a_dry_run_writes_nothing_and_says_what_would_be(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let bundle = filled(&coord, "/here").await?.export(NAMES).await?;
    let there = ConfigCentre::new(&coord, "/there")?;
    let edit = Edit::by("ann").expecting(Expected::Nothing);
    let routes = there.namespace("routes")?;
    let generation = routes.publish(Content::items([("a", "b")]), &edit).await?.done()?.generation;
    let dry = Import::by("eve").on_conflict(OnConflict::Overwrite).dry_run();
    let told = there.import(&bundle, dry).await?;
    let told: Vec<_> = told.iter().map(|one| (one.namespace.as_str(), one.outcome, one.before)).collect();
    let expected = [
        ("billing/eu", ImportOutcome::Created, None),
        ("routes", ImportOutcome::Overwritten, Some(generation)),
    ];
    assert_eq!(told, expected);
    assert_eq!(there.namespaces().await?, ["routes"]);
    assert_eq!(routes.head().await?.expect("there").generation, generation);
    Ok(())
}
