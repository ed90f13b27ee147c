//! Optional decorators for coord backends: timeout, retry, tracing, chaos.
