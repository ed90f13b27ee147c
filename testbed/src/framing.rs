//! Finding requests and their replies in a byte stream, for three protocols.
//!
//! A [`Requests`] reads what a client sends and names each request by a key; a [`Replies`] reads
//! what the server answers and finds the reply with a given key. Bytes may come in any cut: both
//! keep what they need of a header until it is whole. A stream they do not understand is passed
//! on untouched, never held up.

mod http2;
mod resp;
mod scan;
mod zookeeper;

/// The protocol on a link, which says where a request or reply begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Framing {
    /// ZooKeeper's: length, then the number of the request.
    ZooKeeper,
    /// Redis' and Valkey's, versions 2 and 3: replies come in the order of the commands.
    Resp,
    /// HTTP/2, as gRPC and so etcd uses it: each request is a stream.
    Http2,
    /// Anything else, such as TLS: bytes pass, requests are not seen.
    Opaque,
}

/// Names a request within its connection.
pub(crate) type Key = u64;

/// Reads a client's bytes.
pub(crate) trait Requests: Send {
    /// Calls `seen` for each request that becomes known with these bytes: with its key, or with
    /// `None` if it has no reply of its own.
    fn feed(&mut self, bytes: &[u8], seen: &mut dyn FnMut(Option<Key>));
}

/// Reads a server's bytes.
pub(crate) trait Replies: Send {
    /// Appends to `out` what may go on to the client. Asks `stop` at the start of each reply;
    /// if it says yes, returns true, and neither that reply nor anything after it is in `out`.
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>, stop: &mut dyn FnMut(Key) -> bool) -> bool;
}

impl Framing {
    pub(crate) fn requests(self) -> Box<dyn Requests> {
        match self {
            Framing::ZooKeeper => Box::new(zookeeper::ZkRequests::default()),
            Framing::Resp => Box::new(resp::Commands::default()),
            Framing::Http2 => Box::new(http2::ClientFrames::default()),
            Framing::Opaque => Box::new(Opaque),
        }
    }

    pub(crate) fn replies(self) -> Box<dyn Replies> {
        match self {
            Framing::ZooKeeper => Box::new(zookeeper::ZkReplies::default()),
            Framing::Resp => Box::new(resp::RespReplies::default()),
            Framing::Http2 => Box::new(http2::ServerFrames::default()),
            Framing::Opaque => Box::new(Opaque),
        }
    }
}

struct Opaque;

impl Requests for Opaque {
    fn feed(&mut self, _: &[u8], _: &mut dyn FnMut(Option<Key>)) {}
}

impl Replies for Opaque {
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>, _: &mut dyn FnMut(Key) -> bool) -> bool {
        out.extend_from_slice(bytes);
        false
    }
}

/// Helpers for the tests of the parsers: every stream is fed whole, byte by byte, and in odd cuts.
#[cfg(test)]
mod testing {
    use super::*;

    const CUTS: [usize; 5] = [usize::MAX, 1, 2, 7, 9];

    /// The keys of the requests in `bytes`.
    pub(super) fn requests(framing: Framing, bytes: &[u8]) -> Vec<Option<Key>> {
        let mut all = CUTS.iter().map(|cut| {
            let (mut parser, mut keys) = (framing.requests(), Vec::new());
            for chunk in bytes.chunks((*cut).min(bytes.len())) {
                parser.feed(chunk, &mut |key| keys.push(key));
            }
            keys
        });
        let first = all.next().unwrap();
        assert!(all.all(|other| other == first), "the cut of the stream changed what was seen");
        first
    }

    /// What reaches the client when the reply `lost` is to be swallowed, and whether it was met.
    pub(super) fn replies(framing: Framing, bytes: &[u8], lost: Option<Key>) -> (Vec<u8>, bool) {
        let mut all = CUTS.iter().map(|cut| {
            let (mut parser, mut out, mut hit) = (framing.replies(), Vec::new(), false);
            for chunk in bytes.chunks((*cut).min(bytes.len())) {
                hit = parser.feed(chunk, &mut out, &mut |key| Some(key) == lost);
                if hit {
                    break;
                }
            }
            (out, hit)
        });
        let first = all.next().unwrap();
        assert!(all.all(|other| other == first), "the cut of the stream changed the result");
        first
    }

    #[test]
    fn opaque_passes_everything() {
        assert_eq!(requests(Framing::Opaque, b"abc"), []);
        assert_eq!(replies(Framing::Opaque, b"abc", Some(0)), (b"abc".to_vec(), false));
    }
}
