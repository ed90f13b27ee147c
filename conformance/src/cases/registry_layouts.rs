//! Registries in the layouts of others, on every store.

use std::sync::Arc;

use coord_api::{Coord, Dir, ErrorKind};
use coord_registry::{
    Discovery, DubboLayout, DubboService, DubboUrl, Instance, Layout, Registry, Status, XDiscoveryLayout,
};

use super::persistent::keeper;
use crate::{CaseResult, Cx, Failure, within};

cases!("registry_layouts", needs Store:
    a_provider_of_dubbo_is_found_by_the_name_of_its_node,
    a_provider_that_says_something_else_is_never_away,
    overrides_of_dubbo_are_applied_and_lifted,
    consumers_and_routes_of_dubbo_are_read,
    curators_document_is_read_and_what_is_none_is_told,
);

const INTERFACE: &str = "com.shop.Orders";

fn dubbo(coord: &Coord) -> Result<Registry, Failure> {
    Ok(Registry::new(coord, "/dubbo")?.with_layout(DubboLayout::new()))
}

fn provider() -> Instance {
    Instance::new(INTERFACE, "10.0.0.7:20880", "10.0.0.7", 20880)
        .with_label("application", "the shop")
        .with_label("methods", "pay,refund,".repeat(60))
}

async fn shows(
    view: &Discovery,
    what: &str,
    wanted: impl Fn(&[Instance]) -> bool + Send,
) -> Result<Vec<Instance>, Failure> {
    let shown = within(what, view.wait_until(move |list| wanted(list))).await;
    let shown = shown.map_err(|Failure(why)| Failure(format!("{why}: {:?}", view.instances())))??;
    Ok(shown.to_vec())
}

/// Promise: the name of the node is what Dubbo looks for, encoded once, however long it is.
async fn a_provider_of_dubbo_is_found_by_the_name_of_its_node(cx: Arc<Cx>) -> CaseResult {
    let (coord, other) = (cx.coord().await?, cx.coord().await?);
    let me = within("registered", dubbo(&coord)?.register(&keeper(&coord), provider())).await??;
    let children = other.list("/dubbo/com.shop.Orders/providers").await?.children;
    let name = children.first().map(|child| child.key.name().to_owned()).unwrap_or_default();
    assert!(
        name.len() > 700 && name.starts_with("dubbo%3A%2F%2F10.0.0.7%3A20880%2Fcom.shop.Orders%3F"),
        "{name}"
    );
    assert_eq!(DubboUrl::from_node(&name)?.parameter("methods"), Some(&*"pay,refund,".repeat(60)));
    let view = dubbo(&other)?.discover(INTERFACE)?;
    let shown = shows(&view, "it is there", |list| list.len() == 1).await?;
    assert_eq!(shown, [me.instance()]);
    assert_eq!(dubbo(&other)?.services().await?, [INTERFACE]);
    me.close().await?;
    shows(&view, "it is gone", <[_]>::is_empty).await?;
    Ok(())
}

/// Promise: an update leads to a new key, and consumers see the instance before and after, and nothing of the old key.
async fn a_provider_that_says_something_else_is_never_away(cx: Arc<Cx>) -> CaseResult {
    let (coord, other) = (cx.coord().await?, cx.coord().await?);
    let me = within("registered", dubbo(&coord)?.register(&keeper(&coord), provider())).await??;
    let before = me.key();
    let view = dubbo(&other)?.discover(INTERFACE)?;
    shows(&view, "it is there", |list| list.len() == 1).await?;
    within("updated", me.set_weight(7)).await??;
    assert!(me.key() != before && other.get(&before).await?.is_none());
    let shown = shows(&view, "it is changed", |list| list.len() == 1 && list[0].weight() == 7).await?;
    assert_eq!(shown[0].id(), provider().id());
    within("drains", me.set_status(Status::Draining)).await??;
    shows(&view, "it drains", |list| list.len() == 1 && list[0].status() == Status::Draining).await?;
    Ok(())
}

/// Promise: what an operator says about a provider is applied while it is there, and by its priority.
async fn overrides_of_dubbo_are_applied_and_lifted(cx: Arc<Cx>) -> CaseResult {
    let (coord, other) = (cx.coord().await?, cx.coord().await?);
    let orders = DubboService::new(&other, "/dubbo", INTERFACE)?;
    let rule = |weight: &str| {
        DubboUrl::new("override", "10.0.0.7", Some(20880), INTERFACE)
            .with("dynamic", "false")
            .with("weight", weight)
    };
    // There before the provider is.
    assert!(orders.put_override(&rule("5")).await?);
    let _me = within("registered", dubbo(&coord)?.register(&keeper(&coord), provider())).await??;
    let view = dubbo(&coord)?.discover(INTERFACE)?;
    shows(&view, "the rule is applied", |list| list.len() == 1 && list[0].weight() == 5).await?;
    let urgent = rule("9").with("priority", "2");
    assert!(orders.put_override(&urgent).await?);
    shows(&view, "the more urgent rule wins", |list| list[0].weight() == 9).await?;
    assert!(orders.delete_override(&urgent).await? && orders.delete_override(&rule("5")).await?);
    shows(&view, "the rules are lifted", |list| list[0].weight() == provider().weight()).await?;
    assert!(!orders.delete_override(&urgent).await? && orders.overrides().await?.is_empty());
    Ok(())
}

/// Promise: consumers are registered as providers are, and routes are read, also beside what is neither.
async fn consumers_and_routes_of_dubbo_are_read(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let orders = DubboService::new(&coord, "/dubbo", INTERFACE)?;
    let consumer = orders.register_consumer(&keeper(&coord), "10.0.0.8", "web")?;
    within("registered", consumer.registered()).await??;
    let read = orders.consumers().await?;
    assert_eq!((read.len(), read[0].host(), read[0].parameter("application")), (1, "10.0.0.8", Some("web")));
    let routers = Dir::parse("/dubbo/com.shop.Orders/routers")?;
    let route = "condition%3A%2F%2F0.0.0.0%2Fcom.shop.Orders%3Frule%3Dhost%2B%253D%2B10.0.0.1";
    coord.put(routers.key(route)?, "").await?;
    coord.put(routers.key("nonsense")?, "").await?;
    let routes = orders.routes().await?;
    assert_eq!((routes.len(), routes[0].rule()), (1, "host = 10.0.0.1"));
    consumer.close().await?;
    assert!(orders.consumers().await?.is_empty());
    Ok(())
}

/// Promise: what Curator writes is an instance, and what is none is told with its key and hides nobody else.
async fn curators_document_is_read_and_what_is_none_is_told(cx: Arc<Cx>) -> CaseResult {
    let coord = cx.coord().await?;
    let layout = XDiscoveryLayout::new();
    let json = r#"{"name":"billing","id":"a","address":"10.0.0.9","port":8080,"sslPort":null,"payload":{"@class":"x.Y"},
        "registrationTimeUTC":1,"serviceType":"PERMANENT","uriSpec":null,"enabled":true}"#;
    for (id, value) in [("a", json), ("empty", ""), ("other", "<xml/>")] {
        coord.put(layout.directory(&Dir::parse("/services")?, "billing")?.key(id)?, value).await?;
    }
    let registry = Registry::new(&coord, "/services")?.with_layout(layout);
    let found = registry.instances("billing").await?;
    assert_eq!((found.instances.len(), found.instances[0].address()), (1, "10.0.0.9"));
    let mut keys: Vec<_> = Vec::new();
    for problem in &found.problems {
        assert_eq!(problem.kind(), ErrorKind::Malformed);
        keys.extend(problem.context().filter(|(name, _)| *name == "key").map(|(_, key)| key.to_owned()));
    }
    assert_eq!(keys, ["/services/billing/empty", "/services/billing/other"]);
    Ok(())
}
