//! A host that is simulated below libc, for tests of processes that work with files and pins: every system
//! call may fail, be cut short, or be the last one before a kill or a power cut, while interfaces come, go
//! and change their names. All that happens follows from a seed.
//!
//! A test program that links this crate calls its functions instead of libc's ([`inside`]); the code above
//! them, Rust's library and libbpf too, is the real one.
//!
//! - `world.rs`: the host and what happens to it; `mishaps.rs`: which call goes wrong; `dice.rs`
//! - `files.rs`, `objects.rs`: files and pins; maps, programs and links
//! - `file_calls.rs`, `bpf_calls.rs`, `netlink.rs`, `interfaces.rs`: system calls by their subject
//! - `calls.rs`, `system.rs`, `names.rs`: the functions of libc

mod bpf_calls;
mod calls;
mod dice;
mod file_calls;
mod files;
mod interfaces;
mod mishaps;
mod names;
mod netlink;
mod objects;
mod system;
mod world;

pub use calls::inside;
pub use dice::Dice;
pub use files::{BPFFS, Files};
pub use mishaps::End;
pub use objects::Bpf;
pub use world::{Interface, World};
