//! The two numbers of a namespace.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(u64);

        impl $name {
            /// The first one is 1.
            pub const FIRST: Self = Self(1);

            /// The one with this number.
            #[must_use]
            pub const fn new(number: u64) -> Self {
                Self(number)
            }

            /// The number.
            #[must_use]
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The one after it.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }

            /// The one before it; `None` before the first.
            #[must_use]
            pub const fn previous(self) -> Option<Self> {
                if self.0 > 1 { Some(Self(self.0 - 1)) } else { None }
            }

            /// The name of its key: 20 digits, so that names sort as the numbers do.
            pub(crate) fn name(self) -> String {
                format!("{:020}", self.0)
            }

            /// Reads what [`name`](Self::name) wrote.
            pub(crate) fn from_name(name: &str) -> Option<Self> {
                let digits = name.len() == 20 && name.bytes().all(|byte| byte.is_ascii_digit());
                name.parse().ok().filter(|number| digits && *number > 0).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// Counts the changes of a namespace, whatever they change: releases, rollbacks, gray rules. It only grows, by one
    /// each time, so whoever applies what consumers see in the order of generations never goes back.
    Generation
}
number! {
    /// Counts the releases of a namespace. Releases never change; a rollback points at an older one.
    ReleaseVersion
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_sort_as_the_numbers_do() {
        for number in [1, 9, 10, u64::MAX] {
            assert_eq!(Generation::from_name(&Generation::new(number).name()), Some(Generation::new(number)));
        }
        assert!(ReleaseVersion::new(9).name() < ReleaseVersion::new(10).name());
        for bad in [
            "",
            "1",
            "00000000000000000000",
            "0000000000000000000x",
            "99999999999999999999",
            "+0000000000000000001",
        ] {
            assert_eq!(ReleaseVersion::from_name(bad), None, "{bad:?}");
        }
    }
}
