//! The server's side of RESP.

use super::{
    super::{Key, Replies},
    Line, number,
};

/// Counts whole replies.
#[derive(Default)]
pub(crate) struct RespReplies {
    state: State,
    line: Line,
    /// The aggregates around the value being read, outermost first.
    around: Vec<Aggregate>,
    /// The place of the reply being read.
    current: Key,
    /// What is being read is a push message, which takes no place in the line of replies.
    push: bool,
}

#[derive(Default)]
enum State {
    /// Before the first byte of a reply.
    #[default]
    Start,
    /// Before the type byte of a value inside a reply.
    Inside,
    /// In the first line of a value of this type.
    Head(u8),
    /// In a string and its `\r\n`: so many bytes left.
    Text(u64),
    /// Not RESP.
    Lost,
}

struct Aggregate {
    missing: u64,
    /// Attributes come before a value and are not one themselves.
    attribute: bool,
}

/// Deeper nesting than any server sends; guards the memory of the proxy.
const DEPTH: usize = 64;

impl Replies for RespReplies {
    fn feed(&mut self, mut bytes: &[u8], out: &mut Vec<u8>, stop: &mut dyn FnMut(Key) -> bool) -> bool {
        while let Some((&byte, rest)) = bytes.split_first() {
            match &mut self.state {
                State::Lost => {
                    out.extend_from_slice(bytes);
                    return false;
                }
                State::Text(left) => {
                    let take = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    *left -= take as u64;
                    let done = *left == 0;
                    out.extend_from_slice(&bytes[..take]);
                    bytes = &bytes[take..];
                    if done {
                        self.value_done();
                    }
                    continue;
                }
                State::Start => {
                    self.push = byte == b'>';
                    if !self.push && stop(self.current) {
                        return true;
                    }
                    self.state = State::Head(byte);
                }
                State::Inside => self.state = State::Head(byte),
                State::Head(kind) => {
                    let kind = *kind;
                    if let Some(line) = self.line.push(byte) {
                        self.head_done(kind, &line);
                    }
                }
            }
            out.push(byte);
            bytes = rest;
        }
        false
    }
}

impl RespReplies {
    fn head_done(&mut self, kind: u8, line: &[u8]) {
        match kind {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => self.value_done(),
            b'$' | b'!' | b'=' => match number(line) {
                Some(-1) => self.value_done(),
                Some(length @ 0..) => self.state = State::Text(length.unsigned_abs().saturating_add(2)),
                _ => self.state = State::Lost,
            },
            b'*' | b'~' | b'>' | b'%' | b'|' => match number(line) {
                Some(-1) => self.value_done(),
                Some(count @ 0..) if self.around.len() < DEPTH => {
                    let pairs = matches!(kind, b'%' | b'|');
                    let missing = count.unsigned_abs().saturating_mul(if pairs { 2 } else { 1 });
                    self.around.push(Aggregate { missing, attribute: kind == b'|' });
                    self.close_full();
                }
                _ => self.state = State::Lost,
            },
            _ => self.state = State::Lost,
        }
    }

    fn value_done(&mut self) {
        if let Some(parent) = self.around.last_mut() {
            parent.missing -= 1;
            self.close_full();
        } else {
            self.reply_done();
        }
    }

    /// Leaves every aggregate that is complete.
    fn close_full(&mut self) {
        while self.around.last().is_some_and(|inner| inner.missing == 0) {
            let attribute = self.around.pop().is_some_and(|inner| inner.attribute);
            if attribute {
                // The value it belongs to is still to come, at this same place.
                break;
            }
            match self.around.last_mut() {
                Some(parent) => parent.missing -= 1,
                None => return self.reply_done(),
            }
        }
        self.state = State::Inside;
    }

    fn reply_done(&mut self) {
        if !self.push {
            self.current += 1;
        }
        self.state = State::Start;
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Framing, testing::replies};

    /// One reply of each shape.
    const REPLIES: [&[u8]; 17] = [
        b"+OK\r\n",
        b"-ERR with a rather long text, longer than any header line can ever be\r\n",
        b":-42\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"$0\r\n\r\n",
        b"$11\r\n+OK\r\n*1\r\n:1\r\n",
        b"*0\r\n",
        b"*3\r\n*2\r\n$1\r\na\r\n*-1\r\n$-1\r\n*1\r\n*1\r\n*0\r\n",
        b"_\r\n",
        b"#t\r\n",
        b",3.25\r\n",
        b"(3492890328409238509324850943850943825024385\r\n",
        b"%2\r\n+a\r\n*2\r\n:1\r\n:2\r\n+b\r\n%0\r\n",
        b"~2\r\n+a\r\n+b\r\n",
        b"=7\r\ntxt:abc\r\n",
        b"|1\r\n+ttl\r\n*1\r\n:3\r\n*2\r\n|1\r\n+k\r\n+v\r\n:1\r\n:2\r\n",
    ];

    #[test]
    fn every_shape_is_one_reply() {
        let stream = REPLIES.concat();
        for lost in 0..REPLIES.len() {
            let before = REPLIES[..lost].concat();
            assert_eq!(
                replies(Framing::Resp, &stream, Some(lost as u64)),
                (before, true),
                "reply {lost} of {:?}",
                String::from_utf8_lossy(REPLIES[lost])
            );
        }
        assert_eq!(replies(Framing::Resp, &stream, Some(REPLIES.len() as u64)), (stream, false));
    }

    #[test]
    fn push_messages_take_no_place() {
        let push = b">3\r\n$7\r\nmessage\r\n$1\r\na\r\n*1\r\n:1\r\n";
        let stream = [&push[..], b"+0\r\n", push, push, b"+1\r\n", b"+2\r\n"].concat();
        let before = [&push[..], b"+0\r\n", push, push].concat();
        assert_eq!(replies(Framing::Resp, &stream, Some(1)), (before, true));
    }

    #[test]
    fn rubbish_passes() {
        for rubbish in [&b"HTTP/1.0 400\r\n+x\r\n+y\r\n"[..], b"*x\r\n+a\r\n", b"$-7\r\n+a\r\n+b\r\n"] {
            assert_eq!(replies(Framing::Resp, rubbish, Some(1)), (rubbish.to_vec(), false));
        }
        let deep = b"*1\r\n".repeat(100);
        assert_eq!(replies(Framing::Resp, &deep, Some(1)), (deep, false));
    }
}
