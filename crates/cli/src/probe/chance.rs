//! Random numbers of the system.

use ring::rand::{SecureRandom as _, SystemRandom};

use crate::failure::{Failure, Result};

/// 32 bytes that nobody else knows.
pub(super) fn secret() -> Result<[u8; 32]> {
    let mut secret = [0; 32];
    SystemRandom::new().fill(&mut secret).map_err(|_| Failure::failed("the system gives no random numbers"))?;
    Ok(secret)
}
