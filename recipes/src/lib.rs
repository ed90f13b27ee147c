//! Coordination recipes, each written once over the coord contract.
