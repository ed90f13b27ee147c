//! Starts, stops, pauses and cuts off real servers for tests.
