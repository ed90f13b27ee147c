//! ZooKeeper: each frame is a length and a body; both directions begin with a greeting, after
//! which a body starts with the xid, the number of the request.

use super::{
    Key, Replies, Requests,
    scan::{Piece, Scan},
};

/// Length and xid. The greetings are longer than four bytes, so they fit the same header.
const HEAD: usize = 8;

/// The xid, and how much of the frame follows it; `None` if this cannot be a frame.
fn parse(head: [u8; HEAD]) -> Option<(i32, u64)> {
    let [a, b, c, d, xid @ ..] = head;
    let length = u32::from_be_bytes([a, b, c, d]);
    Some((i32::from_be_bytes(xid), u64::from(length.checked_sub(4)?)))
}

#[derive(Default)]
pub(super) struct ZkRequests {
    scan: Scan<HEAD>,
    greeted: bool,
}

impl Requests for ZkRequests {
    fn feed(&mut self, mut bytes: &[u8], seen: &mut dyn FnMut(Option<Key>)) {
        loop {
            match self.scan.next(&mut bytes) {
                Piece::End => return,
                Piece::Body(_) => {}
                Piece::Head(head) => match parse(head) {
                    None => self.scan.give_up(),
                    Some((xid, rest)) => {
                        self.scan.body(rest);
                        // Negative numbers are the client's upkeep of the connection: ping -2,
                        // authentication -4, renewal of watches -8.
                        if self.greeted
                            && let Ok(xid) = u64::try_from(xid)
                        {
                            seen(Some(xid));
                        }
                        self.greeted = true;
                    }
                },
            }
        }
    }
}

#[derive(Default)]
pub(super) struct ZkReplies {
    scan: Scan<HEAD>,
    greeted: bool,
}

impl Replies for ZkReplies {
    fn feed(&mut self, mut bytes: &[u8], out: &mut Vec<u8>, stop: &mut dyn FnMut(Key) -> bool) -> bool {
        loop {
            match self.scan.next(&mut bytes) {
                Piece::End => return false,
                Piece::Body(body) => out.extend_from_slice(body),
                Piece::Head(head) => {
                    match parse(head) {
                        None => self.scan.give_up(),
                        Some((xid, rest)) => {
                            // Watch events are xid -1: they are in no order with the replies and
                            // never taken for one.
                            if self.greeted && u64::try_from(xid).is_ok_and(&mut *stop) {
                                return true;
                            }
                            self.scan.body(rest);
                            self.greeted = true;
                        }
                    }
                    out.extend_from_slice(&head);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        Framing,
        testing::{replies, requests},
    };

    fn frame(body: &[u8]) -> Vec<u8> {
        let mut frame = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
        frame.extend_from_slice(body);
        frame
    }

    fn numbered(xid: i32, rest: usize) -> Vec<u8> {
        frame(&[&xid.to_be_bytes()[..], &vec![0xab; rest]].concat())
    }

    #[test]
    fn upkeep_and_greeting_are_no_requests() {
        let stream = [
            frame(&[0; 45]),
            numbered(1, 40),
            numbered(-2, 4),
            numbered(2, 0),
            numbered(-8, 200),
            numbered(-4, 30),
            numbered(3, 1),
        ]
        .concat();
        assert_eq!(requests(Framing::ZooKeeper, &stream), [Some(1), Some(2), Some(3)]);
    }

    #[test]
    fn only_the_reply_with_the_number_is_lost() {
        let greeting = frame(&[0; 37]);
        // An event, a ping and an answer to another request come first; none of them is it.
        let before = [greeting, numbered(-1, 30), numbered(-2, 12), numbered(6, 12)].concat();
        let stream = [before.clone(), numbered(7, 12), numbered(8, 12)].concat();
        assert_eq!(replies(Framing::ZooKeeper, &stream, Some(7)), (before, true));
        assert_eq!(replies(Framing::ZooKeeper, &stream, Some(9)), (stream, false));
    }

    #[test]
    fn a_greeting_is_not_a_reply() {
        // Its first field, the protocol version, is 0 and could pass for xid 0.
        let stream = frame(&[0; 37]);
        assert_eq!(replies(Framing::ZooKeeper, &stream, Some(0)), (stream, false));
    }

    #[test]
    fn four_letter_words_and_rubbish_pass() {
        assert_eq!(requests(Framing::ZooKeeper, b"srvr"), []);
        let text = b"Zookeeper version: 3.9.3\nMode: standalone\n".to_vec();
        assert_eq!(replies(Framing::ZooKeeper, &text, Some(1)), (text, false));
        let short = [frame(&[0; 37]), vec![0, 0, 0, 2, 9, 9, 9, 9, 9, 9, 9, 9, 9]].concat();
        assert_eq!(replies(Framing::ZooKeeper, &short, Some(1)), (short, false));
    }
}
