//! Rival QUIC stacks as hosts of the lab's simulator, so that a scenario can put them on the same link as ours.
//!
//! | stack | what it is | same seed, same run |
//! |---|---|---|
//! | `quinn` | quinn-proto, CUBIC, flow-control windows raised to our own limits | to the bit |
//! | `quinn-shipped` | the same with every setting as the crate ships it | to the bit |
//! | `quinn-bbr` | `quinn` with its experimental BBR | no: it draws its cycle from the system |
//! | `noq`, `noq-shipped`, `noq-bbr` | noq-proto likewise; its BBR is version 3 | to the bit, except `noq-bbr` |
//! | `quiche`, `quiche-bbr` | quiche with feature `quiche`: CUBIC or its BBR 2, windows likewise | to the bit |
//! | `…-to-thalweg`, such as `quinn-to-thalweg` | the server is one of these, the client ours | as the server |
//!
//! [`register`] adds them to a simulator's registry. What each is run with (version, windows, MTU, ACKs) is part of
//! every flow's result.
//!
//! TLS is real and not seeded: its randomness changes no size and no time, and nothing else of a datagram's content
//! counts.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod clock;
mod mixed;
mod model;
mod noq;
#[cfg(feature = "quiche")]
mod quiche;
mod quinn;
mod settings;
mod tls;
#[cfg(feature = "quiche")]
mod virtual_world;

pub use settings::{Controller, Settings, Variant};
use thalweg_sim::{Registry, StackFactory};

/// The simulator's own stacks and those of this crate.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    register(&mut registry);
    registry
}

/// Names and versions of the stacks, for what must be told apart by them.
pub fn versions() -> String {
    let packages = ["quinn-proto", "noq-proto", "quiche"];
    let built = if cfg!(feature = "quiche") { &packages[..] } else { &packages[..2] };
    let named: Vec<String> = built.iter().map(|name| format!("{name} {}", settings::version(name))).collect();
    named.join(", ")
}

/// Adds every stack of this crate, and each again with our client.
pub fn register(registry: &mut Registry) {
    for variant in Variant::ALL {
        both(registry, || Box::new(quinn::Quinn(variant)));
        both(registry, || Box::new(noq::Noq(variant)));
        #[cfg(feature = "quiche")]
        if variant != Variant::Shipped {
            both(registry, || Box::new(quiche::Quiche(variant)));
        }
    }
}

fn both(registry: &mut Registry, make: impl Fn() -> Box<dyn StackFactory>) {
    registry.add(make());
    registry.add(Box::new(mixed::ToThalweg(make())));
}
