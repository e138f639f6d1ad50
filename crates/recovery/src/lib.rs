//! QUIC loss recovery, RTT estimation, congestion control and pacing as pure state machines.
