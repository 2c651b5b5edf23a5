//! Random whole flows: a plan (options, then steps relative to where the flow stands, so that
//! proptest can shrink it) and the walk that plays it as a guest and a peer.
#![allow(
    dead_code,
    missing_docs,
    unused_imports,
    reason = "every test program uses its own part"
)]

pub mod forge;
pub mod group;
pub mod home;
pub mod law;
pub mod plan;
pub mod seeded;
pub mod walk;

pub use home::{Home, Passed};
pub use plan::{Plan, plans};
pub use seeded::for_all;
pub use walk::{Event, walk};

/// The flag bits of the core as the header's byte holds them.
pub mod flag {
    use uc_core::consts;

    pub const FIN: u8 = consts::FIN as u8;
    pub const SYN: u8 = consts::SYN as u8;
    pub const RST: u8 = consts::RST as u8;
    pub const PSH: u8 = consts::PSH as u8;
    pub const ACK: u8 = consts::ACK as u8;
    pub const ECE: u8 = consts::ECE as u8;
    pub const CWR: u8 = consts::CWR as u8;
}

pub const FROM_GUEST: u8 = uc_core::consts::FROM_GUEST as u8;
pub const TO_GUEST: u8 = uc_core::consts::TO_GUEST as u8;

/// The number of cases of a test that long runs by hand repeat more often: `UC_CASES`, or `usual`.
pub fn case_count(usual: u32) -> u32 {
    match std::env::var("UC_CASES") {
        Ok(text) => text.parse().expect("UC_CASES is a decimal number"),
        Err(_) => usual,
    }
}
