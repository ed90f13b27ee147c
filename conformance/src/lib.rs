//! The conformance suite: one promise a function, on every backend.
//!
//! A case is a function that gets a [`Cx`] (a store to itself, and faults where the fixture has them) and asserts one
//! promise of the contract or of a recipe. Cases compare revisions and never expect absolute numbers, order events by
//! gates and conditions and never by sleeping, and are never retried. A case that needs what a fixture does not
//! [offer](Fixture::offers) is not run, is counted, and shows in the matrix with the reason.
//!
//! To test a backend of your own (feature `suite`), make a [`UrlFixture`] that opens it and hand it to [`trials`]:
//!
//! ```no_run
//! use std::sync::Arc;
//! use coord_api::{Config, Registry};
//! use coord_conformance::{Fixture, UrlFixture, trials};
//!
//! # use coord_backend_memory::MemoryFactory as MyFactory;
//! let open = |config: Config| -> futures::future::BoxFuture<'static, _> {
//!     Box::pin(async move { Registry::new().with(MyFactory).connect(&config).await })
//! };
//! let runtime = tokio::runtime::Runtime::new()?;
//! let fixture: Arc<dyn Fixture> = Arc::new(UrlFixture::new("mine", "memory:mine", open));
//! let tests = trials(&fixture, runtime.handle());
//! libtest_mimic::run(&libtest_mimic::Arguments::from_args(), tests).exit();
//! # Ok::<(), std::io::Error>(())
//! ```

#[cfg(feature = "suite")]
pub mod cases;
pub mod checkers;
#[cfg(feature = "suite")]
mod cx;
mod fixture;
#[cfg(feature = "suite")]
mod held_calls;
#[cfg(feature = "labs")]
pub mod labs;
#[cfg(feature = "suite")]
mod late_joins;
#[cfg(feature = "suite")]
mod look_counter;
#[cfg(feature = "suite")]
mod meddle;
#[cfg(feature = "suite")]
mod printed;
#[cfg(feature = "suite")]
mod report;
#[cfg(feature = "suite")]
mod run;
#[cfg(feature = "sim")]
pub mod sim;
pub mod sweep;

#[cfg(feature = "suite")]
pub use cx::{Cx, cut_briefly, eventually, within};
pub use fixture::{Client, Failure, Fixture, Lab, Link, Need, Opener, Rig, UrlFixture};
#[cfg(feature = "suite")]
pub use printed::report_printed;
#[cfg(feature = "suite")]
pub use report::{Outcome, Report, Row};
#[cfg(feature = "suite")]
pub use run::{Case, run_all, trials};

/// What a case returns.
pub type CaseResult = Result<(), Failure>;
