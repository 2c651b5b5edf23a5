//! The policy file: what is refused, what is documented, what it says of a port.

mod documented;
mod faults;
mod own;
mod planned;
mod written;
