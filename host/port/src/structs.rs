//! Structs in maps and files that another build of uc has written, with a layout of its own.

pub(crate) mod conversion;
mod description;
pub(crate) mod shape;
