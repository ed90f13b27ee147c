use std::io;

use coord_api::Outcome;
use redis::{ServerErrorKind, make_extension_error};

use super::*;

fn said(code: &str, detail: &str) -> RedisError {
    let known = |kind: ServerErrorKind| RedisError::from((Driver::Server(kind), "said", detail.to_owned()));
    match code {
        "LOADING" => known(ServerErrorKind::BusyLoading),
        "READONLY" => known(ServerErrorKind::ReadOnly),
        "MASTERDOWN" => known(ServerErrorKind::MasterDown),
        "MOVED" => known(ServerErrorKind::Moved),
        "NOSCRIPT" => known(ServerErrorKind::NoScript),
        "NOPERM" => known(ServerErrorKind::NoPerm),
        "CROSSSLOT" => known(ServerErrorKind::CrossSlot),
        "ERR" => known(ServerErrorKind::ResponseError),
        _ => make_extension_error(code.to_owned(), Some(detail.to_owned())),
    }
}

#[test]
fn every_refusal_of_a_server_has_its_row() {
    use ErrorKind::*;
    let rows = [
        ("LOADING", Unavailable, Retry::Safe, true),
        ("BUSY", Unavailable, Retry::Safe, false),
        ("READONLY", Unavailable, Retry::Safe, true),
        ("UNBLOCKED", Unavailable, Retry::Safe, true),
        ("MASTERDOWN", Unavailable, Retry::Safe, true),
        ("MOVED", Unavailable, Retry::Safe, true),
        ("NOREPLICAS", Unavailable, Retry::Safe, false),
        ("OOM", Unavailable, Retry::Safe, false),
        ("MISCONF", Unavailable, Retry::Safe, false),
        ("NOSCRIPT", Unavailable, Retry::Safe, false),
        ("NOAUTH", Unauthenticated, Retry::Never, false),
        ("WRONGPASS", Unauthenticated, Retry::Never, false),
        ("NOPERM", PermissionDenied, Retry::Never, false),
        ("WRONGTYPE", Malformed, Retry::Never, false),
        ("CROSSSLOT", Unexpected, Retry::Never, false),
        ("WHATEVER", Unexpected, Retry::Ambiguous, false),
    ];
    for (code, kind, retry, reconnect) in rows {
        for during in [During::Write, During::Read, During::Connect { tls: false }] {
            let fault = classify(&said(code, "some text"), during);
            assert_eq!(
                (fault.error.kind(), fault.error.retry(), fault.reconnect),
                (kind, retry, reconnect),
                "{code} {during:?}"
            );
        }
    }
}

#[test]
fn what_our_scripts_say_is_understood_with_and_without_the_place() {
    for place in ["", " script: 0123abc, on @user_script:12."] {
        let ours = |text: &str| classify(&said("COORD", &format!("{text}{place}")), During::Write).error;
        assert_eq!(ours("SESSIONLOST").kind(), ErrorKind::SessionLost);
        assert_eq!(ours("SCHEMA 2").kind(), ErrorKind::Config);
        assert!(is_stateless(&ours("STATELESS")) && ours("STATELESS").retry() == Retry::Safe);
        let malformed = ours("MALFORMED /a b/ script: c");
        assert_eq!(malformed.kind(), ErrorKind::Malformed);
        assert!(malformed.to_string().contains(if place.is_empty() { "/a b/" } else { "/a b/ script: c" }));
    }
}

#[test]
fn denied_inside_of_a_script_is_denied() {
    for text in [
        "ACL failure in script: User app has no permissions to run the 'xadd' command",
        "The user executing the script can't run this command or subcommand script: 12, on @user_script:3.",
    ] {
        assert_eq!(classify(&said("ERR", text), During::Write).error.kind(), ErrorKind::PermissionDenied);
    }
}

#[test]
fn a_lost_reply_is_ambiguous_only_where_it_could_have_written() {
    let lost = [
        io::ErrorKind::TimedOut,
        io::ErrorKind::BrokenPipe,
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::UnexpectedEof,
    ];
    for kind in lost {
        let error = RedisError::from(io::Error::from(kind));
        let outcome = |during| {
            let fault = classify(&error, during);
            assert!(fault.reconnect && fault.error.kind() == ErrorKind::Unavailable, "{kind}");
            fault.error.outcome()
        };
        assert_eq!(outcome(During::Write), Outcome::Unknown, "{kind}");
        assert_eq!(outcome(During::Read), Outcome::NotApplied, "{kind}");
        assert_eq!(outcome(During::Connect { tls: false }), Outcome::NotApplied, "{kind}");
    }
    let refused =
        classify(&RedisError::from(io::Error::from(io::ErrorKind::ConnectionRefused)), During::Write);
    assert_eq!((refused.error.retry(), refused.reconnect), (Retry::Safe, true));
    let parse = classify(&RedisError::from((Driver::Parse, "what")), During::Write);
    assert_eq!((parse.error.retry(), parse.reconnect), (Retry::Ambiguous, true));
}

#[test]
fn a_failed_handshake_is_tls_and_final() {
    let error = RedisError::from(io::Error::new(io::ErrorKind::InvalidData, "invalid peer certificate"));
    let fault = classify(&error, During::Connect { tls: true });
    assert_eq!((fault.error.kind(), fault.error.retry()), (ErrorKind::Tls, Retry::Never));
}

/// `HELLO` and `AUTH` carry the password, and some servers quote the arguments of what they do not know.
#[test]
fn no_text_of_a_server_gets_into_an_error() {
    let quoting = "unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'u' 's3cret'";
    for code in ["ERR", "NOPERM", "WRONGPASS", "WHATEVER"] {
        let error = classify(&said(code, quoting), During::Connect { tls: false }).error;
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
    }
}
