//! The number of a flow's layout names its fields.

/// The number, and what the declarations of a flow and its annex hash to.
const KNOWN: (u32, u64) = (2, 0x5107_0a3b_0c46_0367);

#[test]
fn a_flow_with_other_fields_has_another_number() {
    let now = (uc_core::FLOW_LAYOUT, uc_core::FLOW_DECLARATIONS);
    assert_eq!(
        now, KNOWN,
        "a field of uc_flow or uc_annex has changed: give UC_FLOW_LAYOUT (core/flow.h) the next number, \
         and write both here: ({}, {:#x})",
        now.0, now.1
    );
}
