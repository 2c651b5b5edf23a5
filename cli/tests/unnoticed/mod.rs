//! Measures whether connections through a port are affected by what is done to the agent.

pub mod network;
pub mod pauses;
pub mod shadows;
