//! Nodes as releases of Dubbo wrote them, and what we make of them.

use super::{
    DUBBO_PROTOCOL, DubboRoute, DubboUrl,
    tests::{provider_in, under},
};
use crate::{Instance, Kind, Status};

/// Nodes of providers, with the release that wrote each.
const PROVIDERS: [(&str, &str); 6] = [
    (
        "2.5.3",
        "dubbo%3A%2F%2F192.168.61.99%3A20891%2Fcom.hcw.api.QSearchService%3Fanyhost%3Dtrue%26application%3Desh-provider%26\
         dubbo%3D2.5.3%26interface%3Dcom.hcw.api.QSearchService%26logger%3Dslf4j%26methods%3DfindStockDoc%26pid%3D18460%26\
         revision%3D0.0.2-SNAPSHOT%26side%3Dprovider%26threads%3D100%26timestamp%3D1572509354829",
    ),
    (
        "2.7.3",
        "dubbo%3A%2F%2F192.168.56.1%3A20880%2Fcom.ximuyi.demo.dubbo.api.IMenuService%3Fanyhost%3Dtrue%26\
         application%3Ddubbo-provider%26application.version%3D1.0.0%26deprecated%3Dfalse%26dubbo%3D2.0.2%26dynamic%3Dtrue%26\
         generic%3Dfalse%26interface%3Dcom.ximuyi.demo.dubbo.api.IMenuService%26methods%3DsayHi%26pid%3D250480%26\
         register%3Dtrue%26release%3D2.7.3%26sayHi.retries%3D1%26sayHi.timeout%3D1000%26side%3Dprovider%26\
         timestamp%3D1564144798682",
    ),
    (
        "3.0.8",
        "dubbo%3A%2F%2F192.168.1.9%3A20880%2Flink.elastic.dubbo.entity.DemoService%3Fanyhost%3Dtrue%26\
         application%3Ddubbo-demo-api-provider%26background%3Dfalse%26deprecated%3Dfalse%26dubbo%3D2.0.2%26dynamic%3Dtrue%26\
         generic%3Dfalse%26interface%3Dlink.elastic.dubbo.entity.DemoService%26methods%3DsayHello%2CsayHelloAsync%26\
         pid%3D29386%26release%3D3.0.8%26service-name-mapping%3Dtrue%26side%3Dprovider%26timestamp%3D1655023329514",
    ),
    (
        "3.2.0-beta.4",
        "tri%3A%2F%2F172.20.10.6%3A50051%2Fcom.bhuang.api.SimpleService%3Fanyhost%3Dtrue%26\
         application%3DBhuang-Dubbo-Provider%26background%3Dfalse%26deprecated%3Dfalse%26dubbo%3D2.0.2%26dynamic%3Dtrue%26\
         executor-management-mode%3Ddefault%26file.cache%3Dtrue%26generic%3Dfalse%26\
         interface%3Dcom.bhuang.api.SimpleService%26ipv6%3D2409%3A895a%3A327c%3Aeaab%3A24c2%3A8407%3A22d4%3A50c3%26\
         methods%3DsayHello%26pid%3D24580%26prefer.serialization%3Dfastjson2%2Chessian2%26release%3D3.2.0-beta.4%26\
         service-name-mapping%3Dtrue%26side%3Dprovider%26timestamp%3D1722955607627",
    ),
    (
        "3.3.0-beta.1",
        "tri%3A%2F%2F10.224.1.29%3A50052%2Forg.apache.dubbo.springboot.demo.DemoService%3F\
         application%3Ddubbo-springboot-demo-provider%26deprecated%3Dfalse%26dubbo%3D2.0.2%26dynamic%3Dtrue%26\
         generic%3Dfalse%26interface%3Dorg.apache.dubbo.springboot.demo.DemoService%26methods%3DsayHello%26\
         prefer.serialization%3Dfastjson2%2Chessian2%26release%3D3.3.0-beta.1%26service-name-mapping%3Dtrue%26\
         side%3Dprovider%26timestamp%3D1706775452118",
    ),
    (
        "Go 3.0.0",
        "tri%3A%2F%2F192.168.0.107%3A20000%2Forg.apache.dubbogo.samples.api.Greeter%3Fanyhost%3Dtrue%26app.version%3D3.0.0%26\
         application%3Ddubbo.io%26bean.name%3DGreeterProvider%26cluster%3Dfailover%26environment%3Ddev%26export%3Dtrue%26\
         interface%3Dorg.apache.dubbogo.samples.api.Greeter%26ip%3D192.168.0.107%26loadbalance%3Drandom%26\
         message_size%3D4%26metadata-type%3Dlocal%26methods%3DSayHello%2CSayHelloStream%26module%3Dsample%26\
         name%3Ddubbo.io%26organization%3Ddubbo-go%26owner%3Ddubbo-go%26pid%3D49960%26registry%3Dzookeeper%26\
         registry.role%3D3%26release%3Ddubbo-golang-3.0.0%26service.filter%3Decho%2Cmetrics%2Ctoken%2Caccesslog%2Ctps%2C\
         generic_service%2Cexecute%2Cpshutdown%2Cpadasvc%26side%3Dprovider%26timestamp%3D1642695938",
    ),
];

/// What a provider of Dubbo for Python wrote (`apache-dubbo` 3.0.0b1, run against ZooKeeper 3.9): it encodes values once
/// more than the others do, and puts parameters in no order.
const PYTHON: &str = "tri%3A%2F%2F10.0.0.9%3A50051%2Fcom.shop.Orders%3Fapplication%3Dpy%2Bshop%26\
     interface%3Dcom.shop.Orders%26methods%3Dpay%252Crefund%26side%3Dprovider%26dynamic%3Dtrue%26category%3Dproviders%26\
     pid%3D42%26timestamp%3D1700000000123";

/// Consumers: Dubbo 2.6.2, and Go 3.0.4, which says what it has no value for.
const CONSUMERS: [&str; 2] = [
    "consumer%3A%2F%2F192.168.99.1%2Fcom.alibaba.dubbo.samples.api.GreetingService%3Fapplication%3Ddemo-consumer%26\
     category%3Dconsumers%26check%3Dfalse%26default.timeout%3D3000%26dubbo%3D2.6.2%26\
     interface%3Dcom.alibaba.dubbo.samples.api.GreetingService%26methods%3DsayHello%26pid%3D82406%26side%3Dconsumer%26\
     timestamp%3D1533274951195",
    "consumer%3A%2F%2F172.22.91.1%2Fcom.apache.dubbo.sample.basic.IGreeter%3Fapp.version%3D%26application%3Ddubbo.io%26\
     async%3Dfalse%26bean.name%3DGreeterClientImpl%26cluster%3Dfailover%26config.tracing%3D%26environment%3D%26generic%3D%26\
     group%3D%26interface%3Dcom.apache.dubbo.sample.basic.IGreeter%26loadbalance%3D%26metadata-type%3Dlocal%26\
     module%3Dsample%26name%3Ddubbo.io%26organization%3Ddubbo-go%26owner%3Ddubbo-go%26protocol%3Dtri%26provided-by%3D%26\
     reference.filter%3Dcshutdown%26registry.role%3D0%26release%3Ddubbo-golang-3.0.4%26retries%3D%26serialization%3D%26\
     side%3Dconsumer%26sticky%3Dfalse%26timestamp%3D1675407574%26version%3D",
];

/// A provider of Alibaba's Dubbo, with an override and a route that the console wrote for it.
const ALIBABA: [&str; 3] = [
    "dubbo%3A%2F%2F192.168.11.206%3A21881%2Fcom.alibaba.dubbo.demo.DemoService%3Fanyhost%3Dtrue%26application%3Dhello%26\
     dubbo%3D2.0.0%26generic%3Dfalse%26group%3Ddemo%26interface%3Dcom.alibaba.dubbo.demo.DemoService%26\
     methods%3DsayWorld%2CsayHello%26pid%3D1575%26revision%3D1.0.0%26side%3Dprovider%26threads%3D10%26\
     timestamp%3D1495535465217%26version%3D1.0.0",
    "override%3A%2F%2F192.168.11.206%3A21881%2Fcom.alibaba.dubbo.demo.DemoService%3Fcategory%3Dconfigurators%26\
     dynamic%3Dfalse%26enabled%3Dtrue%26group%3Ddemo%26version%3D1.0.0%26weight%3D400",
    "route%3A%2F%2F0.0.0.0%2Fcom.alibaba.dubbo.demo.DemoService%3Fcategory%3Drouters%26dynamic%3Dfalse%26enabled%3Dfalse%26\
     force%3Dfalse%26group%3Ddemo%26name%3Dsample%26priority%3D100%26router%3Dcondition%26\
     rule%3Dconsumer.host%2B%253D%2B192.168.11.206%2B%2526%2Bmethod%2B%253D%2BsayHello%2B%253D%253E%2Bprovider.host%2B\
     %2521%253D%2B127.0.0.1%26runtime%3Dfalse%26version%3D1.0.0",
];

fn instance(node: &str) -> Instance {
    let interface = DubboUrl::from_node(node).unwrap().path().to_owned();
    provider_in(&interface, node).unwrap().unwrap()
}

#[test]
fn every_release_wrote_what_we_write() {
    let providers = PROVIDERS.iter().map(|(_, node)| *node);
    for node in providers.chain(CONSUMERS).chain(ALIBABA) {
        assert_eq!(DubboUrl::from_node(node).unwrap().to_node().unwrap(), node);
    }
}

#[test]
fn providers_of_every_release_are_instances() {
    let seen: Vec<_> = PROVIDERS
        .iter()
        .map(|(release, node)| {
            let one = instance(node);
            assert_eq!(
                (one.status(), one.weight(), one.kind()),
                (Status::Up, 100, Kind::Ephemeral),
                "{release}"
            );
            (*release, one.id().to_owned(), one.labels()["application"].clone())
        })
        .collect();
    let wanted = [
        ("2.5.3", "192.168.61.99:20891", "esh-provider"),
        ("2.7.3", "192.168.56.1:20880", "dubbo-provider"),
        ("3.0.8", "192.168.1.9:20880", "dubbo-demo-api-provider"),
        ("3.2.0-beta.4", "tri://172.20.10.6:50051", "Bhuang-Dubbo-Provider"),
        ("3.3.0-beta.1", "tri://10.224.1.29:50052", "dubbo-springboot-demo-provider"),
        ("Go 3.0.0", "tri://192.168.0.107:20000", "dubbo.io"),
    ];
    assert!(seen.iter().map(|(release, id, app)| (*release, &**id, &**app)).eq(wanted), "{seen:?}");
}

#[test]
fn values_of_python_are_shown_as_they_stand() {
    let one = instance(PYTHON);
    assert_eq!((one.id(), &*one.labels()[DUBBO_PROTOCOL]), ("tri://10.0.0.9:50051", "tri"));
    assert_eq!((&*one.labels()["methods"], &*one.labels()["application"]), ("pay%2Crefund", "py+shop"));
    assert_eq!(crate::instance::millis(one.registered_at()), 1_700_000_000_123);
}

#[test]
fn consumers_of_other_releases_are_read() {
    let [java, go] = CONSUMERS.map(|node| DubboUrl::from_node(node).unwrap());
    assert_eq!(
        (java.protocol(), java.host(), java.parameter("timeout")),
        ("consumer", "192.168.99.1", Some("3000"))
    );
    assert_eq!(
        (go.host(), go.parameter("group"), go.parameter("protocol")),
        ("172.22.91.1", None, Some("tri"))
    );
}

#[test]
fn what_dubbos_console_wrote_is_applied_and_read() {
    let [node, rule, route] = ALIBABA;
    let one = instance(node);
    assert_eq!(one.id(), "192.168.11.206:21881?group=demo&version=1.0.0");
    let rule = DubboUrl::from_node(rule).unwrap().to_string();
    let other = one.clone().with_label("version", "2.0.0");
    assert_eq!((under(&[&rule], &one).weight(), under(&[&rule], &other).weight()), (400, 100));
    let route = DubboRoute::new(DubboUrl::from_node(route).unwrap()).unwrap();
    assert_eq!(
        (route.kind(), route.rule(), route.priority()),
        (
            "condition",
            "consumer.host = 192.168.11.206 & method = sayHello => provider.host != 127.0.0.1",
            100
        )
    );
    assert!(!route.is_enabled() && !route.is_forced());
}
