//! A file server and client: HTTP/3 over QUIC, HTTPS over TCP beside it.
