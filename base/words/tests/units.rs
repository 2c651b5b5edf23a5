//! Written units: what parses, what prints, what is refused and how.

use proptest::prelude::*;
use uc_words::{BitsPerSec, Bytes, Nanos};

proptest! {
    #[test]
    fn a_printed_rate_parses_back(bps: u64) {
        prop_assert_eq!(BitsPerSec(bps).to_string().parse::<BitsPerSec>().expect("parses").0, bps);
    }

    #[test]
    fn a_printed_duration_parses_back(ns: u64) {
        prop_assert_eq!(Nanos(ns).to_string().parse::<Nanos>().expect("parses").0, ns);
    }

    #[test]
    fn a_printed_size_parses_back(bytes: u32) {
        prop_assert_eq!(Bytes(bytes).to_string().parse::<Bytes>().expect("parses").0, bytes);
    }

    #[test]
    fn round_quantities_print_with_their_own_unit(n in 1u64..1000, power in 0usize..4) {
        let unit = ["ns", "us", "ms", "s"][power];
        let text = format!("{n}{unit}");
        let printed = text.parse::<Nanos>().expect("parses").to_string();
        prop_assert_eq!(printed, text);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text: String) {
        let _ = text.parse::<Nanos>();
        let _ = text.parse::<Bytes>();
        let _ = text.parse::<BitsPerSec>();
    }
}

#[test]
fn known_spellings_have_known_values() {
    let rates = [
        ("10Mbit", 10_000_000),
        ("1Gbit", 1_000_000_000),
        ("500kbit", 500_000),
    ];
    for (text, bps) in rates {
        assert_eq!(text.parse(), Ok(BitsPerSec(bps)), "{text}");
    }
    let durations = [
        ("37s", 37_000_000_000),
        ("0.25ms", 250_000),
        ("1.000000001s", 1_000_000_001),
    ];
    for (text, ns) in durations {
        assert_eq!(text.parse(), Ok(Nanos(ns)), "{text}");
    }
    let sizes = [
        ("90000B", 90_000),
        ("1MB", 1_000_000),
        ("64KiB", 65_536),
        ("1.5 kB", 1_500),
    ];
    for (text, bytes) in sizes {
        assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
    }
}

#[test]
fn a_wrong_quantity_is_refused_with_its_value_and_a_good_example() {
    let rate = |text: &str| text.parse::<BitsPerSec>().expect_err(text).to_string();
    let duration = |text: &str| text.parse::<Nanos>().expect_err(text).to_string();
    let size = |text: &str| text.parse::<Bytes>().expect_err(text).to_string();
    assert_eq!(
        rate("10"),
        "`10` is not a rate: the unit after the number is missing; write for example \"10Mbit\""
    );
    assert_eq!(
        rate("10Mb"),
        "`10Mb` is not a rate: its unit is not one of bit, kbit, Mbit, Gbit; \
         write for example \"10Mbit\""
    );
    assert_eq!(
        duration("soon"),
        "`soon` is not a duration: its text does not begin with a number; \
         write for example \"250us\""
    );
    assert_eq!(
        duration("0.5ns"),
        "`0.5ns` is not a duration: it is not a whole number of the smallest unit; \
         write for example \"250us\""
    );
    assert_eq!(
        duration("1.2.3s"),
        "`1.2.3s` is not a duration: its number is malformed; \
         write for example \"250us\""
    );
    assert_eq!(
        size("5GB"),
        "`5GB` is not a size: the value is too large; write for example \"1500B\""
    );
}

#[test]
fn times_and_rates_are_shown_in_their_largest_whole_unit() {
    assert_eq!(Nanos::from_micros(250).to_string(), "250us");
    assert_eq!(Nanos::from_millis(2_000).to_string(), "2s");
    assert_eq!(Nanos(1_500_001).to_string(), "1500001ns");
    assert_eq!(Nanos::ZERO.to_string(), "0ns");
    assert_eq!(BitsPerSec::from_mbit(10).to_string(), "10Mbit");
    assert_eq!(BitsPerSec(1_500).to_string(), "1500bit");
}
