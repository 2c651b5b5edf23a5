//! The policy file: refusals, documentation, and the plan for a port.

mod documented;
mod faults;
mod own;
mod planned;
mod size;
mod techniques;
mod written;
