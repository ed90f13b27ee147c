//! RESP, versions 2 and 3: commands are arrays of strings, replies come in their order.

mod commands;
mod values;

pub(super) use commands::Commands;
pub(super) use values::RespReplies;

/// Reads a decimal number that ends a line; `None` if it is none.
fn number(line: &[u8]) -> Option<i64> {
    std::str::from_utf8(line).ok()?.parse().ok()
}

/// A line that is being read. No header line is longer than this; a text one only has its end
/// looked for.
const LINE: usize = 32;

/// Collects a line up to its `\r\n`.
#[derive(Default)]
struct Line {
    /// Its beginning.
    text: Vec<u8>,
    /// Whether the last byte was `\r`.
    almost: bool,
}

impl Line {
    /// Takes one byte; gives the line without its end when it is whole.
    fn push(&mut self, byte: u8) -> Option<Vec<u8>> {
        if byte == b'\n' && self.almost {
            self.almost = false;
            return Some(std::mem::take(&mut self.text));
        }
        self.almost = byte == b'\r';
        if !self.almost && self.text.len() < LINE {
            self.text.push(byte);
        }
        None
    }
}
