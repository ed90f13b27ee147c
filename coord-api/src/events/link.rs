//! Whether the store answers, as far as a handle can tell.

/// What calls and sessions say about the way to the store.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// The last word of a call, or of a session that was late when it ended.
    unanswered: bool,
    /// Sessions that are late now.
    late: usize,
    told: bool,
}

/// Something that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// A call was answered.
    Answered,
    /// A call ended without an answer.
    Unanswered,
    /// A session is late.
    Late,
    /// A late session was renewed.
    Renewed,
    /// A late session ended. That is no answer.
    EndedLate,
}

impl Link {
    /// Takes a sign; `Some(true)` if the link is suspended by it, `Some(false)` if it is whole again.
    pub(super) fn see(&mut self, sign: Sign) -> Option<bool> {
        match sign {
            Sign::Answered => self.unanswered = false,
            Sign::Unanswered => self.unanswered = true,
            Sign::Late => self.late += 1,
            Sign::Renewed => {
                self.late = self.late.saturating_sub(1);
                self.unanswered = false;
            }
            Sign::EndedLate => {
                self.late = self.late.saturating_sub(1);
                self.unanswered = true;
            }
        }
        let suspended = self.unanswered || self.late > 0;
        (std::mem::replace(&mut self.told, suspended) != suspended).then_some(suspended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_told_once_and_only_an_answer_ends_it() {
        let mut link = Link::default();
        for (sign, told) in [
            (Sign::Answered, None),
            (Sign::Unanswered, Some(true)),
            (Sign::Unanswered, None),
            (Sign::Answered, Some(false)),
            // A call may be answered by a mirror; a late session says more.
            (Sign::Late, Some(true)),
            (Sign::Answered, None),
            (Sign::Late, None),
            (Sign::Renewed, None),
            (Sign::Unanswered, None),
            (Sign::Renewed, Some(false)),
            (Sign::Late, Some(true)),
            (Sign::EndedLate, None),
            (Sign::Answered, Some(false)),
        ] {
            assert_eq!(link.see(sign), told, "{sign:?}");
        }
    }
}
