//! The h3 crate's transport traits over the thalweg QUIC transport.
