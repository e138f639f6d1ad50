//! Transport parameters: what is accepted keeps its meaning when it is written again.

use thalweg_proto::{Side, transport_parameters::TransportParameters};

/// Whether all of it is accepted.
pub fn run(bytes: &[u8]) -> bool {
    let mut is_accepted = false;
    for side in [Side::Client, Side::Server] {
        let Ok(parameters) = TransportParameters::decode(bytes, side) else { continue };
        is_accepted = true;
        // Of more versions than these, some are forgotten.
        if parameters.version_information.as_ref().is_some_and(|info| info.available.len() >= 64) {
            continue;
        }
        let mut again = Vec::new();
        parameters.encode(&mut again, None);
        assert_eq!(TransportParameters::decode(&again, side).as_ref(), Ok(&parameters));
        assert!(parameters.receive_timestamps_exponent <= 20 && parameters.ack_delay_exponent <= 20);
        assert!(parameters.min_ack_delay.is_none_or(|least| least <= parameters.max_ack_delay));
    }
    is_accepted
}
