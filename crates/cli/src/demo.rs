pub use crate::run::Run as Demo;
