//! What guards that hold one place alone have in common.

/// Makes a guard around one [`Hold`](crate::Hold): its type, its end, and the way to what it holds.
macro_rules! guard {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// Ends by `release`, or in the background when it is dropped; both work without a runtime around them. Note
        /// that a guard bound to `_` is dropped at once. What it can do while it holds is in [`Hold`](crate::Hold).
        #[derive(Debug)]
        #[must_use = "dropping the guard gives up what it holds: bind it to a name (`let guard`); `let _` drops it at once"]
        pub struct $name {
            hold: $crate::Hold,
        }

        impl $name {
            pub(crate) const fn new(hold: $crate::Hold) -> Self {
                Self { hold }
            }

            /// Gives back what it holds, and reports.
            ///
            /// Tries until the store confirms or the session is over, also if the future is dropped.
            ///
            /// # Errors
            /// [`SessionLost`](coord_api::ErrorKind::SessionLost) and the like if the store did not confirm before the
            /// session ended; it is free then, or will be when the store ends the session.
            ///
            /// # Cancel safety
            /// Safe: the release goes on in the background.
            pub async fn release(self) -> coord_api::Result<()> {
                self.hold.release().await
            }
        }

        impl std::ops::Deref for $name {
            type Target = $crate::Hold;

            fn deref(&self) -> &$crate::Hold {
                &self.hold
            }
        }
    };
}

pub(crate) use guard;
