//! The client's side of RESP.

use super::{
    super::{Key, Requests},
    Line, number,
};

/// Counts commands, and the replies each of them will have.
#[derive(Default)]
pub(crate) struct Commands {
    state: State,
    line: Line,
    /// Strings still to come of the command.
    missing: u64,
    /// The first two strings, shortened: enough to know the command.
    words: Vec<Vec<u8>>,
    /// The place in the line of replies of the next command.
    next: Key,
    /// `HELLO 3` was sent: what subscriptions deliver is marked and is no reply.
    version3: bool,
    /// From here on replies cannot be told from what the server sends on its own.
    untracked: bool,
}

#[derive(Default)]
enum State {
    /// Before the first byte of a command.
    #[default]
    Start,
    /// In `*N\r\n`.
    Count,
    /// In a command that is a line of text.
    Inline,
    /// Before the `$` of a string.
    Dollar,
    /// In `N\r\n` of a string.
    Length,
    /// In a string and the `\r\n` after it: bytes of text left, then of the end.
    Text { text: u64, end: u64 },
    /// Not RESP.
    Lost,
}

/// How much of a word is kept: more than the longest command that matters.
const WORD: usize = 16;

impl Requests for Commands {
    fn feed(&mut self, mut bytes: &[u8], seen: &mut dyn FnMut(Option<Key>)) {
        while let Some((&byte, rest)) = bytes.split_first() {
            if let State::Text { text, end } = &mut self.state {
                let take = usize::try_from(*text).unwrap_or(usize::MAX).min(bytes.len());
                if take > 0 {
                    if let Some(word) = self.words.last_mut() {
                        let room = WORD.saturating_sub(word.len()).min(take);
                        word.extend_from_slice(&bytes[..room]);
                    }
                    *text -= take as u64;
                    bytes = &bytes[take..];
                    continue;
                }
                *end -= 1;
                bytes = rest;
                if *end == 0 {
                    self.missing -= 1;
                    self.state = State::Dollar;
                    if self.missing == 0 {
                        self.finish(seen);
                    }
                }
                continue;
            }
            bytes = rest;
            self.byte(byte, seen);
        }
    }
}

impl Commands {
    fn byte(&mut self, byte: u8, seen: &mut dyn FnMut(Option<Key>)) {
        match self.state {
            State::Start if byte == b'*' => self.state = State::Count,
            State::Start => {
                self.state = State::Inline;
                self.inline(byte, seen);
            }
            State::Inline => self.inline(byte, seen),
            State::Count => {
                if let Some(line) = self.line.push(byte) {
                    self.state = match number(&line) {
                        // An empty command is ignored by the server.
                        Some(..=0) => State::Start,
                        Some(count) => {
                            self.missing = count.unsigned_abs();
                            State::Dollar
                        }
                        None => State::Lost,
                    };
                }
            }
            State::Dollar if byte == b'$' => self.state = State::Length,
            State::Length => {
                if let Some(line) = self.line.push(byte) {
                    self.state = match number(&line).map(u64::try_from) {
                        Some(Ok(text)) => {
                            // The third and later strings overwrite nothing: only two are kept.
                            if self.words.len() < 3 {
                                self.words.push(Vec::new());
                            }
                            State::Text { text, end: 2 }
                        }
                        _ => State::Lost,
                    };
                }
            }
            State::Dollar | State::Text { .. } | State::Lost => self.state = State::Lost,
        }
    }

    fn inline(&mut self, byte: u8, seen: &mut dyn FnMut(Option<Key>)) {
        if let Some(line) = self.line.push(byte) {
            self.words = line.split(|b| *b == b' ').filter(|w| !w.is_empty()).map(<[u8]>::to_vec).collect();
            if self.words.is_empty() {
                self.state = State::Start;
            } else {
                self.finish(seen);
            }
        }
    }

    fn finish(&mut self, seen: &mut dyn FnMut(Option<Key>)) {
        self.state = State::Start;
        let words = std::mem::take(&mut self.words);
        let word = |n: usize| words.get(n).map(|w| w.to_ascii_uppercase()).unwrap_or_default();
        let replies = match word(0).as_slice() {
            // One push message for each channel, and no reply; in version 2 the same messages
            // look like replies, so that none can be found after the first of them.
            b"SUBSCRIBE" | b"UNSUBSCRIBE" | b"PSUBSCRIBE" | b"PUNSUBSCRIBE" | b"SSUBSCRIBE"
            | b"SUNSUBSCRIBE" => {
                self.untracked |= !self.version3;
                false
            }
            b"MONITOR" => {
                self.untracked = true;
                false
            }
            // It turns replies off, for a while or for good.
            b"CLIENT" if word(1) == b"REPLY" => {
                self.untracked = true;
                false
            }
            b"HELLO" => {
                self.version3 = word(1) == b"3" || (self.version3 && word(1) != b"2");
                true
            }
            _ => true,
        };
        if replies && !self.untracked {
            seen(Some(self.next));
            self.next += 1;
        } else {
            seen(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Framing, testing::requests};

    fn command(words: &[&str]) -> Vec<u8> {
        let mut all = format!("*{}\r\n", words.len());
        for word in words {
            all += &format!("${}\r\n{word}\r\n", word.len());
        }
        all.into_bytes()
    }

    #[test]
    fn pipelined_commands_count_in_order() {
        let stream = [
            command(&["SET", "k", "*3\r\n$3\r\nSET\r\n"]),
            command(&["GET", ""]),
            b"*0\r\n\r\nPING\r\n".to_vec(),
            command(&["EVALSHA", &"a".repeat(40), "0", &"x".repeat(5000)]),
        ]
        .concat();
        assert_eq!(requests(Framing::Resp, &stream), [Some(0), Some(1), Some(2), Some(3)]);
    }

    #[test]
    fn subscriptions_have_no_reply_in_version_3() {
        let stream = [
            command(&["hello", "3"]),
            command(&["subscribe", "a", "b"]),
            command(&["incr", "k"]),
            command(&["unsubscribe", "a"]),
        ]
        .concat();
        assert_eq!(requests(Framing::Resp, &stream), [Some(0), None, Some(1), None]);
    }

    #[test]
    fn after_a_subscription_in_version_2_nothing_can_be_matched() {
        let stream = [command(&["GET", "k"]), command(&["SUBSCRIBE", "a"]), command(&["PING"])].concat();
        assert_eq!(requests(Framing::Resp, &stream), [Some(0), None, None]);
        let stream = [command(&["CLIENT", "reply", "off"]), command(&["PING"])].concat();
        assert_eq!(requests(Framing::Resp, &stream), [None, None]);
    }

    #[test]
    fn rubbish_is_not_counted() {
        assert_eq!(requests(Framing::Resp, b"*1\r\n:5\r\n*1\r\n$4\r\nPING\r\n"), []);
        assert_eq!(requests(Framing::Resp, b"*x\r\n*1\r\n$4\r\nPING\r\n"), []);
    }
}
