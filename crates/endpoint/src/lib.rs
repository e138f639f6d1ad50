//! An async QUIC transport on tokio whose loss recovery can be seen, swapped and proved.
