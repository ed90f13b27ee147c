use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use super::*;

fn url(text: &str) -> DubboUrl {
    text.parse().unwrap()
}

/// The node that a provider of Dubbo 3.2 makes.
const NODE: &str = "dubbo%3A%2F%2F172.17.0.4%3A20880%2Forg.apache.dubbo.demo.DemoService%3Fanyhost%3Dtrue%26\
    application%3Ddemo-provider%26background%3Dfalse%26deprecated%3Dfalse%26dubbo%3D2.0.2%26dynamic%3Dtrue%26\
    generic%3Dfalse%26interface%3Dorg.apache.dubbo.demo.DemoService%26methods%3DsayHello%2CsayHelloAsync%26\
    release%3D3.2.0%26service-name-mapping%3Dtrue%26side%3Dprovider%26timestamp%3D1666666666666";

#[test]
fn a_provider_of_dubbo_is_read_and_written_as_it_was() {
    let read = DubboUrl::from_node(NODE).unwrap();
    assert_eq!((read.protocol(), read.host(), read.port()), ("dubbo", "172.17.0.4", Some(20880)));
    assert_eq!(read.path(), "org.apache.dubbo.demo.DemoService");
    assert_eq!(read.parameter("methods"), Some("sayHello,sayHelloAsync"));
    assert!(read.flag("anyhost", false) && !read.flag("generic", true) && read.flag("absent", true));
    assert_eq!(read.to_node().unwrap(), NODE);
}

#[test]
fn what_is_absent_or_strange_is_read_as_dubbo_reads_it() {
    let bare = url("override://0.0.0.0");
    assert_eq!((bare.host(), bare.port(), bare.path()), ("0.0.0.0", None, ""));
    assert_eq!(url("consumer://[::1]/a").host(), "::1");
    assert_eq!((url("dubbo://::1:20880/a").host(), url("dubbo://::1:20880/a").port()), ("::1", Some(20880)));
    let strange = url("dubbo://h:1/a?x=1;y=2&&=3&z&e=&b=c=d");
    assert_eq!((strange.parameter("x"), strange.parameter("y")), (Some("1"), Some("2")));
    assert_eq!((strange.parameter("z"), strange.parameter("e")), (None, None));
    assert_eq!(strange.parameter("b"), Some("c=d"));
    let old = url("dubbo://h:1/a?default.weight=3&default.timeout=5&timeout=6");
    assert_eq!((old.parameter("weight"), old.parameter("timeout")), (Some("3"), Some("6")));
    for broken in ["", "dubbo", "://h", "dubbo://h:port/a", "dubbo://h:99999/a", "10.0.0.1"] {
        assert_eq!(broken.parse::<DubboUrl>().unwrap_err().kind(), ErrorKind::Malformed, "{broken}");
    }
}

#[test]
fn a_password_is_kept_and_not_shown() {
    let secret = url("dubbo://me:hush@h:1/a?b=c");
    assert_eq!(DubboUrl::from_node(&secret.to_node().unwrap()).unwrap(), secret);
    assert_eq!(format!("{secret:?}"), "dubbo://h:1/a?b=c");
}

#[test]
fn what_would_be_read_as_something_else_is_refused() {
    let plain = DubboUrl::new("dubbo", "h", Some(1), "a");
    for broken in [
        plain.clone().with("a", "b&c=d"),
        plain.clone().with("a", "b;c"),
        plain.clone().with("a=b", "c"),
        plain.clone().with("", "c"),
        DubboUrl::new("dubbo", "h/x", Some(1), "a"),
        DubboUrl::new("", "h", Some(1), "a"),
        DubboUrl::new("dubbo", "h", None, "a?b=c"),
    ] {
        assert_eq!(broken.to_node().unwrap_err().kind(), ErrorKind::InvalidArgument, "{broken:?}");
    }
    assert_eq!(plain.with("a", "b=c").to_node().unwrap(), "dubbo%3A%2F%2Fh%3A1%2Fa%3Fa%3Db%3Dc");
}

/// Whatever a URL is made of: it is refused, or comes back from its node.
#[test]
fn a_url_comes_back_or_is_refused() {
    let mut rng = StdRng::seed_from_u64(11);
    let alphabet: Vec<char> = "ab1 .:/?&=;@[]%+é漢\u{1f512}\n".chars().collect();
    let text = |rng: &mut StdRng, most| -> String {
        (0..rng.random_range(0..most)).filter_map(|_| alphabet.choose(rng)).collect()
    };
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let port = rng.random_bool(0.5).then(|| rng.random());
        let mut url = DubboUrl::new(text(&mut rng, 4), text(&mut rng, 5), port, text(&mut rng, 5));
        for _ in 0..rng.random_range(0..3) {
            url.set(&text(&mut rng, 4), text(&mut rng, 6));
        }
        match url.to_node() {
            Ok(node) => {
                assert_eq!(DubboUrl::from_node(&node).unwrap(), url);
                accepted += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidArgument);
                refused += 1;
            }
        }
    }
    assert!(accepted > 500 && refused > 500, "{accepted} accepted, {refused} refused");
}
