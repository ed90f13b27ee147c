//! Service registry and discovery, written once over the contract of `coord-api`.
//!
//! | part | gives |
//! |---|---|
//! | [`Instance`] | what an instance says about itself, within limits |
//! | [`Registry`] | services below one directory: register, list, discover |
//! | [`Registration`] | one instance of this process: update, drain, leave |
//! | [`Discovery`] | a live view of a service: list, state, age, changes |
//! | [`Balancer`] | an instance for each request, with what is in flight and what is down |
//! | [`Choose`] | by which rule: in turn, by weight, by key, the least busy, the nearest, … |
//! | [`Failover`] | the next instance when one fails |
//! | [`Probing`] | asking the instances whether they live |
//! | [`Layout`] | how it looks in the store |

mod balance;
mod choose;
mod discovery;
mod down;
mod instance;
pub mod layout;
mod permanent;
mod probe;
mod registration;
mod registry;
mod retry;
#[cfg(feature = "tower")]
pub mod tower;

pub use balance::{Balancer, BalancerOptions, Pick};
pub use choose::{
    Candidate, Candidates, Choose, ConsistentHash, LeastInFlight, Pool, Random, RoundRobin, Sticky, Weighted,
    ZoneFirst,
};
pub use discovery::{Changes, Discovery, DiscoveryEvent, DiscoveryOptions, DiscoveryState, Snapshot};
pub use down::{AllDown, DownPolicy};
pub use instance::{
    Instance, Kind, LABEL_NAME_MAX, LABEL_VALUE_MAX, LABELS_MAX, PAYLOAD_MAX, Status, TEXT_MAX,
    WEIGHT_DEFAULT, WEIGHT_MAX,
};
pub use layout::{
    DubboLayout, DubboRoute, DubboService, DubboUrl, Layout, NativeLayout, Rule, XDiscoveryLayout,
};
pub use probe::{HttpProbe, Probe, Probing, TcpProbe};
pub use registration::Registration;
pub use registry::{Found, Registry};
pub use retry::{Failover, FailoverError, Verdict};
