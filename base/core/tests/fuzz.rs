//! Replays the corpora of the fuzz targets in `fuzz/`, then tries new inputs for seconds; `make fuzz`
//! does for longer.

use std::path::Path;
use std::process::Command;

#[test]
fn corpora_and_new_inputs_of_the_core_break_no_invariant() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let done = Command::new(root.join("scripts/fuzz"))
        .args(["--seconds", "4", "coupling", "flow", "watch"])
        .output()
        .expect("the script starts");
    let counts = String::from_utf8_lossy(&done.stdout);
    println!("{counts}");
    assert!(
        done.status.success(),
        "{counts}{}",
        String::from_utf8_lossy(&done.stderr)
    );
    // a harness that ends early finds nothing
    for target in ["coupling", "flow", "watch"] {
        let line = format!("fuzz: {target}: ");
        let inputs = counts.lines().find_map(|text| text.strip_prefix(&line));
        let inputs = inputs.and_then(|text| text.split(' ').next()?.parse().ok());
        assert!(
            inputs.is_some_and(|inputs: u64| inputs > 1_000),
            "{target}: {counts}"
        );
    }
}
