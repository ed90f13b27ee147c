//! HTTP/2: a request is the first HEADERS frame of a stream, its reply the first frame of content
//! the server sends on that stream. Only the nine-byte frame headers matter here.

use super::{
    Key, Replies, Requests,
    scan::{Piece, Scan},
};

const HEAD: usize = 9;
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0x0;
const HEADERS: u8 = 0x1;
const RST_STREAM: u8 = 0x3;

struct Frame {
    length: u64,
    kind: u8,
    stream: u32,
}

fn parse([l0, l1, l2, kind, _flags, s0, s1, s2, s3]: [u8; HEAD]) -> Frame {
    Frame {
        length: u64::from(u32::from_be_bytes([0, l0, l1, l2])),
        kind,
        // The highest bit is reserved.
        stream: u32::from_be_bytes([s0, s1, s2, s3]) & 0x7fff_ffff,
    }
}

#[derive(Default)]
pub(super) struct ClientFrames {
    scan: Scan<HEAD>,
    /// How much of the preface has been seen.
    preface: usize,
    /// The newest stream: numbers only grow, so a HEADERS frame on a larger one opens it, and
    /// one on an older is a trailer.
    newest: u32,
}

impl Requests for ClientFrames {
    fn feed(&mut self, mut bytes: &[u8], seen: &mut dyn FnMut(Option<Key>)) {
        if self.preface < PREFACE.len() {
            let take = (PREFACE.len() - self.preface).min(bytes.len());
            let (now, rest) = bytes.split_at(take);
            if now != &PREFACE[self.preface..self.preface + take] {
                // HTTP/1, or something else: nothing to find.
                self.scan.give_up();
            }
            self.preface += take;
            bytes = rest;
        }
        loop {
            match self.scan.next(&mut bytes) {
                Piece::End => return,
                Piece::Body(_) => {}
                Piece::Head(head) => {
                    let frame = parse(head);
                    self.scan.body(frame.length);
                    if frame.kind == HEADERS && frame.stream > self.newest {
                        self.newest = frame.stream;
                        seen(Some(u64::from(frame.stream)));
                    }
                }
            }
        }
    }
}

#[derive(Default)]
pub(super) struct ServerFrames {
    scan: Scan<HEAD>,
}

impl Replies for ServerFrames {
    fn feed(&mut self, mut bytes: &[u8], out: &mut Vec<u8>, stop: &mut dyn FnMut(Key) -> bool) -> bool {
        loop {
            match self.scan.next(&mut bytes) {
                Piece::End => return false,
                Piece::Body(body) => out.extend_from_slice(body),
                Piece::Head(head) => {
                    let frame = parse(head);
                    // A window update on the stream comes before the request has been worked on,
                    // so it is no sign of a reply.
                    let content = matches!(frame.kind, DATA | HEADERS | RST_STREAM);
                    if content && stop(u64::from(frame.stream)) {
                        return true;
                    }
                    self.scan.body(frame.length);
                    out.extend_from_slice(&head);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            Framing,
            testing::{replies, requests},
        },
        PREFACE,
    };

    const SETTINGS: u8 = 4;
    const PING: u8 = 6;
    const WINDOW_UPDATE: u8 = 8;

    fn frame(kind: u8, stream: u32, body: usize) -> Vec<u8> {
        let length = u32::try_from(body).unwrap().to_be_bytes();
        let mut frame = length[1..].to_vec();
        frame.extend([kind, 0x2d]);
        frame.extend(stream.to_be_bytes());
        frame.extend(vec![1; body]);
        frame
    }

    #[test]
    fn a_stream_is_one_request() {
        let stream = [
            PREFACE.to_vec(),
            frame(SETTINGS, 0, 18),
            frame(WINDOW_UPDATE, 0, 4),
            frame(1, 1, 60),
            frame(0, 1, 20),
            frame(PING, 0, 8),
            frame(1, 3, 60),
            frame(1, 1, 5), // a trailer of the first
            frame(0, 3, 20_000),
            frame(1, 0x8000_0005, 3),
        ]
        .concat();
        assert_eq!(requests(Framing::Http2, &stream), [Some(1), Some(3), Some(5)]);
    }

    #[test]
    fn only_the_reply_on_the_stream_is_lost() {
        let before = [
            frame(SETTINGS, 0, 6),
            frame(WINDOW_UPDATE, 3, 4),
            frame(1, 1, 40),
            frame(0, 1, 12),
            frame(1, 1, 4),
        ]
        .concat();
        for kind in [0, 1, 3] {
            let stream = [before.clone(), frame(kind, 3, 4), frame(1, 5, 4)].concat();
            assert_eq!(replies(Framing::Http2, &stream, Some(3)), (before.clone(), true));
            assert_eq!(replies(Framing::Http2, &stream, Some(7)), (stream, false));
        }
    }

    #[test]
    fn http1_passes() {
        assert_eq!(requests(Framing::Http2, b"GET /health HTTP/1.0\r\n\r\nand more bytes than that"), []);
        let text = b"HTTP/1.0 200 OK\r\n\r\n{\"health\":\"true\"}".to_vec();
        assert_eq!(replies(Framing::Http2, &text, None), (text, false));
    }
}
