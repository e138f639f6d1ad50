//! What others may do to a server, and to a client.
