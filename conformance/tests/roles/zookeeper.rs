//! Roles on ZooKeeper: an ACL a node.

use coord_testbed::{Kind, Server, ServerOptions};
use zookeeper_client as zk;

use super::{block, configure, keep_apart, open, register, start, url};

/// Does what zkCli does with these lines.
async fn prepare(server: &Server) {
    let client = zk::Client::connect(&server.addr().to_string()).await.expect("it is up");
    let open = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    for line in block("zkcli") {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["addauth", scheme, auth] => {
                client.auth(scheme, auth.as_bytes()).await.expect("any password will do")
            }
            ["create", path] => drop(client.create(path, b"", &open).await.expect(path)),
            ["setAcl", path, acl] => drop(client.set_acl(path, &acls(acl), None).await.expect(path)),
            _ => panic!("what is {line}?"),
        }
    }
}

/// `scheme:id:permissions,…`, whose ids have colons.
fn acls(text: &str) -> Vec<zk::Acl> {
    let one = |text: &str| {
        let (who, letters) = text.rsplit_once(':')?;
        let (scheme, id) = who.split_once(':')?;
        let permission = letters.chars().fold(zk::Permission::NONE, |all, letter| {
            all | match letter {
                'c' => zk::Permission::CREATE,
                'd' => zk::Permission::DELETE,
                'r' => zk::Permission::READ,
                'w' => zk::Permission::WRITE,
                _ => zk::Permission::ADMIN,
            }
        });
        Some(zk::Acl::new(permission, zk::AuthId::new(scheme, id)))
    };
    text.split(',').map(|text| one(text).expect(text)).collect()
}

#[tokio::test]
async fn roles_on_zookeeper_do_their_work_and_no_more() {
    let server = start(Kind::ZooKeeper, ServerOptions::new()).await;
    prepare(&server).await;
    let publisher = open(&url(&server, "zk", "publisher")).await;
    let reader = open(&url(&server, "zk", "reader")).await;
    let registrar = open(&url(&server, "zk", "registrar")).await;
    configure(&publisher, &reader, true).await;
    register(&registrar).await.expect("registrars register");
    keep_apart(&publisher, &reader, &registrar).await;
    server.stop().await.expect("it stops");
}
