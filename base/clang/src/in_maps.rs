//! The Rust types of structs that lie in maps.

use bindgen::callbacks::{DeriveInfo, DeriveTrait, ImplementsTrait, ParseCallbacks};

/// Tells bindgen that our structs can be read from bytes, and some of them written as bytes.
///
/// A struct in a map has integers only, alone or in arrays and structs, so every pattern of bytes is a value. A struct
/// that user space writes has no padding, whose bytes would be undefined. zerocopy checks both when the types are
/// compiled.
#[derive(Debug)]
pub struct InMaps {
    /// Names of the C structs that user space writes into maps.
    pub written: &'static [&'static str],
}

impl ParseCallbacks for InMaps {
    fn add_derives(&self, info: &DeriveInfo<'_>) -> Vec<String> {
        if !info.name.starts_with("uc_") && info.name != "bpf_spin_lock" {
            return Vec::new();
        }
        let mut derives = vec!["zerocopy::FromBytes".to_owned()];
        if self.written.contains(&info.name) {
            derives.extend(["zerocopy::IntoBytes", "zerocopy::Immutable"].map(str::to_owned));
        }
        derives
    }

    /// Returns the traits that the core's own types implement: bindgen does not generate these types here,
    /// because every crate takes them from `uc_core`.
    fn blocklisted_type_implements_trait(
        &self,
        _name: &str,
        derive: DeriveTrait,
    ) -> Option<ImplementsTrait> {
        match derive {
            DeriveTrait::Hash => Some(ImplementsTrait::No),
            _ => Some(ImplementsTrait::Yes),
        }
    }
}
