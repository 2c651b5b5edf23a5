//! How it shows whether connections through a port notice what is done to the agent.

pub mod network;
pub mod pauses;
pub mod shadows;
