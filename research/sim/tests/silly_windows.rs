//! Guests that avoid the silly window syndrome (RFC 9293 §3.8.6.2.1), as BSD, Windows and gVisor do, at the
//! smallest windows: under profile `rfc` they get whole segments.

use crate::common::{again, experiment, group, measure, run};

/// A round trip of 20 ms whose queue marks the second of two packets that arrive together, so that windows
/// stay at two segments.
const MARKS: &str = r#"
name = "sim/silly"
title = "silly"
duration = "6s"
settle = "1s"
[network]
rate = "10Mbit"
access_rate = "100Mbit"
delay = "5ms"
queue = { kind = "threshold", limit = "100kB", mark = "1B" }
[stack.legacy]
congestion_control = "reno"
[stack.native]
congestion_control = "reno"
ecn = true
[stack.server]
congestion_control = "reno"
ecn = true
delayed_ack = "0s"
wscale = 10
"#;

/// Goodput of one such guest, in b/s.
fn goodput(guest: &str) -> f64 {
    let experiment = experiment(MARKS, &[group("guest", guest)]);
    let record = run(&experiment, 1);
    let text = "kind = \"goodput\"\ncase = \"only\"\nof = \"guest\"";
    let goodput = measure(&experiment, &record, text);
    println!(
        "{guest}: {goodput} b/s; {}",
        again(&record, "silly_windows")
    );
    goodput
}

#[test]
fn guest_that_avoids_silly_windows_is_as_fast_as_with_ecn_of_its_own_under_profile_rfc() {
    let native = goodput("stack = \"native\"");
    let under = |profile: &str| {
        goodput(&format!(
            "stack = \"legacy\"\nlaw = \"ecn\"\nprofile = \"{profile}\""
        ))
    };
    let (rfc, linux) = (under("rfc"), under("linux"));
    assert!(rfc >= 0.95 * native, "{rfc} of {native}");
    // Control: a window of parts of segments costs such a guest half of it.
    assert!(linux < 0.8 * native, "{linux} of {native}");
}
