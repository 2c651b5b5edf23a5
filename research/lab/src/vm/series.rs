//! Names of guests' kernels, and what depends on the name alone.

/// Series of the kernel with KASAN and lockdep, which `scripts/vm-kasan` builds; for tests only.
pub const CHECKED_SERIES: &str = "6.12-kasan";
/// Suffix of the series and of the release of a kernel with KASAN and lockdep.
const CHECKED: &str = "-kasan";
/// Factor of all timeouts if the kernel has KASAN and lockdep.
const CHECKED_SLOWDOWN: u32 = 5;

/// Returns the factor by which a VM with a kernel of this series or full version may be slower than
/// one with Debian's.
pub fn slowdown(series: &str) -> u32 {
    if is_checked(series) {
        CHECKED_SLOWDOWN
    } else {
        1
    }
}

/// Returns whether the kernel of this series or full version has KASAN and lockdep.
pub(crate) fn is_checked(series: &str) -> bool {
    series.ends_with(CHECKED)
}

/// Returns the command that brings the kernel of a series; `options` are those of
/// `scripts/vm-kernels`, each followed by a space.
pub(crate) fn command(series: &str, options: &str) -> String {
    if is_checked(series) {
        "scripts/vm-kasan".to_owned()
    } else {
        format!("scripts/vm-kernels {options}{series}")
    }
}
