//! Keys and values of maps as the bytes that system calls take.

use crate::layout::{
    uc_group, uc_group_guest, uc_hand, uc_member, uc_page, uc_page_key, uc_port_coupling,
    uc_port_state, uc_slot,
};

/// What bindgen made of structs of plain integers: every bit pattern is a value.
pub(crate) trait Plain {}

impl Plain for uc_group {}
impl Plain for uc_group_guest {}
impl Plain for uc_member {}
impl Plain for uc_slot {}
impl Plain for uc_hand {}
impl Plain for uc_page {}
impl Plain for uc_page_key {}
impl Plain for uc_port_state {}
impl Plain for uc_port_coupling {}

// bindgen doesn't know that the core's types can be copied
impl Clone for uc_page {
    fn clone(&self) -> uc_page {
        *self
    }
}
impl Copy for uc_page {}

/// What is written has no padding, either, whose bytes would be nobody's.
pub(crate) trait Packed: Plain {}

impl Packed for uc_hand {}
impl Packed for uc_page {}
impl Packed for uc_page_key {}
impl Packed for uc_port_state {}

const _: () = {
    use crate::layout::UC_PAGE_RULES;
    use uc_core::Policy;
    use uc_core::rule::CompiledRule;
    assert!(size_of::<uc_hand>() == 16);
    assert!(size_of::<uc_page_key>() == 8);
    assert!(size_of::<uc_port_state>() == 12);
    assert!(size_of::<Policy>() == 20);
    assert!(size_of::<CompiledRule>() == 80 + size_of::<Policy>() + 4);
    assert!(size_of::<uc_page>() == 16 + UC_PAGE_RULES as usize * size_of::<CompiledRule>());
};

pub(crate) fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: T is plain integers and the length was checked; no alignment is asked of the buffer.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

pub(crate) fn bytes_of<T: Packed>(value: &T) -> &[u8] {
    // SAFETY: T is plain integers without padding, so each of its bytes is one; the slice borrows
    // the value.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// A key that is an interface's index, or any other number.
pub(crate) fn number(key: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(key.try_into().ok()?))
}
