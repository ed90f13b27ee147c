//! Service registry and discovery, written once over the contract of `coord-api`.
//!
//! | part | gives |
//! |---|---|
//! | [`Instance`] | what an instance says about itself, within limits |
//! | [`Registry`] | services below one directory: register, list, discover |
//! | [`Registration`] | one instance of this process: update, drain, leave |
//! | [`Discovery`] | a live view of a service: list, state, age, changes |
//! | [`Layout`] | how it looks in the store |

mod discovery;
mod instance;
pub mod layout;
mod permanent;
mod registration;
mod registry;

pub use discovery::{Changes, Discovery, DiscoveryEvent, DiscoveryOptions, DiscoveryState, Snapshot};
pub use instance::{
    Instance, Kind, LABEL_NAME_MAX, LABEL_VALUE_MAX, LABELS_MAX, PAYLOAD_MAX, Status, TEXT_MAX,
    WEIGHT_DEFAULT, WEIGHT_MAX,
};
pub use layout::{DubboLayout, DubboRoute, DubboService, DubboUrl, Layout, NativeLayout, Rule, XDiscoveryLayout};
pub use registration::Registration;
pub use registry::{Found, Registry};
