//! Service registry and discovery, written once over the contract of `coord-api`.

mod instance;
pub mod layout;

pub use instance::{
    Instance, Kind, LABEL_NAME_MAX, LABEL_VALUE_MAX, LABELS_MAX, PAYLOAD_MAX, Status, TEXT_MAX,
    WEIGHT_DEFAULT, WEIGHT_MAX,
};
pub use layout::{Layout, NativeLayout};
