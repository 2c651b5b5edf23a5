//! Sweeps: number of points, content of each point, and points that a backend refuses.

use crate::common::{GOOD, SWEPT};
use proptest::prelude::*;
use uc_experiment::{Arm, Experiment, Sizes};

fn swept() -> Experiment {
    let experiment = Experiment::from_str("t.toml", SWEPT).expect("reads");
    experiment.validate().expect("makes sense");
    experiment
}

/// Builds the small experiment with axes of these lengths; each sets two keys of one stack.
fn with_axes(lengths: &[usize]) -> Experiment {
    let axis = |(number, length): (usize, &usize)| {
        let values: Vec<String> = (0..*length).map(|n| format!("{}", n % 15)).collect();
        let names: Vec<String> = (0..*length).map(|n| format!("\"l{n}\"")).collect();
        let times: Vec<String> = (0..*length).map(|n| format!("\"{}ms\"", n + 1)).collect();
        format!(
            "[stack.s{number}]\n[[sweep]]\nname = \"a{number}\"\nlabels = [{}]\n\
             set = {{ \"stack.s{number}.wscale\" = [{}], \"stack.s{number}.rto_min\" = [{}] }}\n",
            names.join(", "),
            values.join(", "),
            times.join(", ")
        )
    };
    let axes: String = lengths.iter().enumerate().map(axis).collect();
    Experiment::from_str("t.toml", &format!("{GOOD}{axes}")).expect("reads")
}

proptest! {
    #[test]
    fn axes_are_crossed_and_the_lists_of_one_axis_are_not(
        lengths in prop::collection::vec(1usize..5, 0..4),
    ) {
        let experiment = with_axes(&lengths);
        experiment.validate().expect("makes sense");
        let points = experiment.points().expect("apply");
        prop_assert_eq!(points.len(), lengths.iter().product::<usize>());
        let mut seen = std::collections::BTreeSet::new();
        for (number, point) in points.iter().enumerate() {
            prop_assert_eq!(point.number as usize, number);
            prop_assert_eq!(point.labels.len(), lengths.len());
            prop_assert!(seen.insert(point.labels.clone()), "twice: {:?}", point.labels);
            for (axis, label) in &point.labels {
                let setting: usize = label[1..].parse().expect("l0, l1, …");
                let stack = &point.experiment.stacks[&format!("s{}", &axis[1..])];
                prop_assert_eq!(stack.wscale as usize, setting % 15);
                prop_assert_eq!(stack.rto_min.expect("set").0, 1_000_000 * (setting as u64 + 1));
            }
            prop_assert_eq!(point.experiment.points().expect("itself").len(), 1);
        }
    }

    #[test]
    fn a_quantile_of_sizes_is_never_outside_its_points_and_rises(
        mut sizes in prop::collection::btree_set(1u32..1_000_000, 1..8),
        cuts in prop::collection::vec(0.0f64..1.0, 8),
        draws in prop::collection::vec(any::<u32>(), 32),
    ) {
        let last = sizes.pop_last().expect("one or more");
        let mut cuts = cuts[..sizes.len()].to_vec();
        cuts.sort_by(f64::total_cmp);
        let point = |(size, cut): (&u32, &f64)| (uc_experiment::Bytes(*size), *cut);
        let mut points: Vec<_> = sizes.iter().zip(&cuts).map(point).collect();
        points.push((uc_experiment::Bytes(last), 1.0));
        let mut draws = draws;
        draws.sort_unstable();
        let drawn = Sizes::Points(points.clone());
        let found: Vec<_> = draws.iter().map(|draw| drawn.quantile(*draw)).collect();
        for (draw, size) in draws.iter().zip(&found) {
            prop_assert!((points[0].0..=points[points.len() - 1].0).contains(size));
            // A point's size is below the drawn size exactly if its probability is below the draw.
            let q = f64::from(*draw) / 2f64.powi(32);
            for (at, cut) in &points {
                prop_assert!(q > cut + 1e-9 || size <= at, "{size} above {at} at {q}");
                prop_assert!(q < cut - 1e-9 || size >= at, "{size} below {at} at {q}");
            }
        }
        prop_assert!(found.is_sorted());
    }
}

#[test]
fn the_last_axis_varies_fastest_and_a_table_can_be_swept() {
    let points = swept().points().expect("apply");
    let labels = |point: &uc_experiment::Point| {
        let labels: Vec<&str> = point
            .labels
            .iter()
            .map(|(_, label)| label.as_str())
            .collect();
        labels.join(" ")
    };
    let all: Vec<String> = points.iter().map(labels).collect();
    let expected = [
        "1 deep",
        "1 shallow",
        "4 deep",
        "4 shallow",
        "8 deep",
        "8 shallow",
    ];
    assert_eq!(all, expected);
    let counts = |n: usize| {
        let guests = &points[n].experiment.cases[0].guests;
        (guests[0].count, guests[1].count)
    };
    assert_eq!((counts(0), counts(3), counts(5)), ((1, 8), (4, 4), (8, 1)));
    assert_ne!(
        points[0].experiment.network.queue,
        points[1].experiment.network.queue
    );
    assert_eq!(points[5].label("buffer"), Some("shallow"));
    assert_eq!(points[5].label("nothing"), None);
}

#[test]
fn an_experiment_without_axes_is_its_only_point() {
    let experiment = Experiment::from_str("t.toml", GOOD).expect("reads");
    let points = experiment.points().expect("apply");
    assert_eq!(points.len(), 1);
    assert_eq!((points[0].number, &points[0].experiment), (0, &experiment));
    assert!(points[0].labels.is_empty());
}

#[test]
fn too_many_points_are_refused_before_they_are_made() {
    for (lengths, count) in [
        (vec![11, 7, 13], "1001"),
        (vec![100; 12], &usize::MAX.to_string()),
    ] {
        let error = with_axes(&lengths)
            .validate()
            .expect_err("too many")
            .to_string();
        let expected = format!("sweep: {count} points; cross fewer axes, or give at most 1000");
        assert!(error.ends_with(&expected), "{error}");
    }
    assert_eq!(
        with_axes(&[10, 10, 10]).points().expect("apply").len(),
        1000
    );
}

#[test]
fn a_value_of_the_wrong_type_is_refused_at_its_own_place() {
    let text = SWEPT.replacen("[8, 4, 1]", "[8, 4, \"one\"]", 1);
    let experiment = Experiment::from_str("t.toml", &text).expect("reads");
    let error = experiment.validate().expect_err("no number").to_string();
    let place = "t.toml:36:94: case.mixed.guests.short.count: ";
    assert!(error.starts_with(place), "{error}");
    assert!(
        error.ends_with("invalid type: string \"one\", expected a whole number"),
        "{error}"
    );
}

#[test]
fn an_override_of_a_swept_key_is_refused_and_one_of_the_axis_is_not() {
    let mut experiment = swept();
    experiment
        .apply_set("case.mixed.guests.long.count=3")
        .expect("applies");
    let error = experiment.validate().expect_err("swept").to_string();
    assert_eq!(
        error,
        "--set case.mixed.guests.long.count=3: case.0.guests.0.count: an axis of the sweep sets it \
         at every point; change the axis, sweep.NAME.set.\"KEY\"=[…]"
    );
    let mut experiment = swept();
    let set = "sweep.long.set.\"case.mixed.guests.long.count\"=[1, 2, 8]";
    experiment.apply_set(set).expect("applies");
    experiment.apply_set("network.rate=1Gbit").expect("applies");
    let middle = &experiment.points().expect("apply")[2];
    assert_eq!(middle.label("long"), Some("2"));
    assert_eq!(middle.experiment.cases[0].guests[0].count, 2);
    assert_eq!(middle.experiment.network.rate.0, 1_000_000_000);
    assert_eq!(experiment.overrides().count(), 2);
    assert_eq!(middle.experiment.overrides().count(), 2);
}

#[test]
fn removing_a_case_removes_its_swept_keys_and_keeps_the_labels() {
    let other = "[[case]]\nname = \"other\"\n[[case.guests]]\nname = \"long\"\nstack = \"dc\"\n\
                 [[sweep]]\nname = \"both\"\nset = { \"case.0.guests.long.flows\" = [1, 2], \
                 \"case.1.guests.0.flows\" = [3, 4] }\n\n[[expect]]";
    let text = SWEPT.replacen("[[expect]]", other, 1);
    let mut experiment = Experiment::from_str("t.toml", &text).expect("reads");
    experiment.validate().expect("makes sense");
    experiment
        .keep_cases(&["other".to_owned()])
        .expect("is there");
    experiment.validate().expect("makes sense");
    assert!(experiment.expects.is_empty());
    let points = experiment.points().expect("apply");
    let labels: Vec<_> = points
        .iter()
        .map(|p| (p.label("buffer"), p.label("both")))
        .collect();
    let (deep, shallow) = (Some("deep"), Some("shallow"));
    let (one, two) = (Some("1"), Some("2"));
    assert_eq!(
        labels,
        [(deep, one), (deep, two), (shallow, one), (shallow, two)]
    );
    let flows = |n: usize| points[n].experiment.cases[0].guests[0].flows;
    assert_eq!((flows(0), flows(1)), (3, 4));
    assert_eq!(points[0].label("long"), None);
}

#[test]
fn web_on_real_kernels_needs_one_receiver_and_one_path_for_all_connections_of_a_flow() {
    let web = "count = 3\napplication = { web = { rate = 5, sizes = \"1kB\" } }\n";
    let rate = "rate = \"10Mbit\"";
    let spread = format!("topology = {{ leaf-spine = {{ leaves = 2, spines = 2 }} }}\n{rate}");
    let switch = format!("topology = {{ switch = {{ hosts = 3 }} }}\n{rate}");
    let other = GOOD
        .find("[[case.guests]]\nname = \"legacy\"")
        .expect("a second group");
    let alone = &GOOD[..other];
    for (network, guests, what) in [
        (
            spread,
            format!("{web}from = 0\nto = 1"),
            "application: the application web in a leaf-spine",
        ),
        (
            switch,
            format!("{web}pattern = \"random\""),
            "pattern: the application web with a pattern",
        ),
    ] {
        let text = alone
            .replacen(rate, &network, 1)
            .replacen("count = 9", &guests, 1);
        let read = Experiment::from_str("t.toml", &text).expect("reads");
        read.validate().expect("makes sense");
        read.suits(Arm::Sim).expect("suits");
        let error = read
            .suits(Arm::Live)
            .expect_err("does not suit")
            .to_string();
        assert!(error.contains(what), "{error}");
    }
}

/// A second group of guests; the next constants are coupled groups.
const SECOND: &str = "name = \"legacy\"\nstack";
const ONE_COUPLED: &str = "coupling = { group = \"one\" }";
const TWO_COUPLED: &str = "name = \"legacy\"\ncoupling = { group = \"two\" }\nstack";

fn unsuited(arm: Arm, from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from:?} is not in the file");
    let read = Experiment::from_str("t.toml", &GOOD.replacen(from, to, 1)).expect("reads");
    read.validate().unwrap_or_else(|error| panic!("{error}"));
    read.suits(arm).expect_err("does not suit").to_string()
}

#[test]
fn a_backend_refuses_keys_that_only_others_support() {
    let rate = "rate = \"10Mbit\"";
    let offload = "offload = true\nrate = \"10Mbit\"";
    let cases = [
        (
            Arm::Live,
            rate,
            "processing = \"1us\"\nrate = \"10Mbit\"",
            "8:14: network.processing: processing",
        ),
        (
            Arm::Live,
            "sack = false",
            "nagle = false",
            "25:9: stack.legacy.nagle: nagle",
        ),
        (
            Arm::Live,
            "count = 9",
            "law = \"coupled\"\ncoupling = { group = \"g\", priority = 2 }\n\
             application = { web = { rate = 5, sizes = \"1kB\" } }",
            "34:15: case.0.guests.0.application: the application web with a priority",
        ),
        (
            Arm::Live,
            "count = 9",
            "count = 1000",
            "30:1: case.0.guests: a case of more than 1000 guests and receivers, here 1002,",
        ),
        (
            Arm::Sim,
            rate,
            offload,
            "8:11: network.offload: segmentation offload",
        ),
        (
            Arm::Sim,
            "sack = false",
            "congestion_control = \"bbr\"",
            "25:22: stack.legacy.congestion_control: `bbr` (sim has reno, cubic, dctcp, \
             highspeed, vegas, illinois, reno_by_acks)",
        ),
    ];
    for (arm, from, to, what) in cases {
        let (others, on) = match arm {
            Arm::Sim => ("live and vm", "live|vm"),
            _ => ("sim", "sim"),
        };
        let expected = format!("t.toml:{what} is for {others} only; run it with --on {on}");
        assert_eq!(unsuited(arm, from, to), expected);
    }
    for arm in [Arm::Sim, Arm::Vm] {
        assert_eq!(
            unsuited(arm, rate, "mtu = \"9kB\"\nrate = \"10Mbit\""),
            "t.toml:8:7: network.mtu: an MTU other than Ethernet's 1500 bytes is for live only; \
             run it with --on live"
        );
    }
    let coupled = GOOD
        .replace("count = 9", ONE_COUPLED)
        .replace(SECOND, TWO_COUPLED);
    let coupled = Experiment::from_str("t.toml", &coupled).expect("reads");
    coupled.suits(Arm::Sim).expect("suits");
    let error = coupled
        .suits(Arm::Live)
        .expect_err("has two groups")
        .to_string();
    let group = "case.0.guests.1.coupling.group: a second coupled group beside `one`";
    assert!(error.contains(group), "{error}");
    let small = Experiment::from_str("t.toml", GOOD).expect("reads");
    for arm in Arm::ALL {
        small.suits(arm).expect("suits every arm");
    }
    let refused = swept().suits(Arm::Live).expect_err("for sim").to_string();
    assert_eq!(
        refused,
        "t.toml:3:8: arms: the file's `arms` exclude backend live; run the experiment with --on sim"
    );
    swept().suits(Arm::Sim).expect("suits");
}

/// Checks that `topology` suits the live backend, and that with `to` for `from` it does not; returns
/// why.
fn unsuited_live(topology: &str, from: &str, to: &str) -> String {
    let shaped = GOOD.replacen("[network]", &format!("[network]\ntopology = {topology}"), 1);
    let read = |text: &str| {
        let read = Experiment::from_str("t.toml", text).expect("reads");
        read.validate().unwrap_or_else(|error| panic!("{error}"));
        read
    };
    read(&shaped).suits(Arm::Live).expect("suits");
    let told = read(&shaped).suits(Arm::Vm).expect_err("is not a star");
    let part = "is for sim and live only; run it with --on sim|live";
    assert!(told.to_string().ends_with(part), "{told}");
    let error = read(&shaped.replacen(from, to, 1)).suits(Arm::Live);
    error.expect_err("does not suit").to_string()
}

#[test]
fn the_live_backend_refuses_what_several_receivers_do_not_allow() {
    let row = "{ parking-lot = { hops = 3 } }";
    let stalls = "name = \"mixed\"
receiver_hypervisor = { vms = 2, slice = \"10ms\" }";
    let told = unsuited_live(row, "name = \"mixed\"", stalls);
    let part = "case.0.receiver_hypervisor: receiver_hypervisor in a topology with several receivers is \
         for sim only";
    assert!(told.contains(part), "{told}");
    let told = unsuited_live(
        "{ leaf-spine = { leaves = 2, spines = 2 } }",
        "count = 9",
        "count = 500",
    );
    let part = "a case of more than 1000 guests and receivers, here 1002, is for sim only";
    assert!(told.contains(part), "{told}");
}

#[test]
fn live_backend_refuses_messages_at_fixed_times_to_random_hosts() {
    let switch = "[network]\ntopology = { switch = { hosts = 12 } }";
    let text = GOOD.replacen("[network]", switch, 1);
    let suits = |every: &str| {
        let messages = format!(
            "count = 9\npattern = \"random\"\napplication = {{ messages = {{ sizes = \"1kB\"{every} }} }}"
        );
        let text = text.replacen("count = 9", &messages, 1);
        let experiment = Experiment::from_str("t.toml", &text).expect("reads");
        experiment.suits(Arm::Live)
    };
    suits("").expect("each when the one before it has arrived");
    let told = suits(", every = \"1ms\"").expect_err("at fixed times");
    let part =
        "messages at fixed times to random hosts (without `every` they can be) is for sim only";
    assert!(told.to_string().contains(part), "{told}");
}

#[test]
fn keys_for_vms_are_refused_elsewhere_and_too_many_vms_too() {
    let kernel = "sack = false\nkernel = \"6.12\"";
    for arm in [Arm::Sim, Arm::Live] {
        let told = unsuited(arm, "sack = false", kernel);
        assert_eq!(
            told,
            "t.toml:26:10: stack.legacy.kernel: a stack with a kernel of its own (`kernel`) is \
             for vm only; run \
             it with --on vm"
        );
    }
    let text = GOOD.replacen("sack = false", kernel, 1);
    let read = Experiment::from_str("t.toml", &text).expect("reads");
    read.suits(Arm::Vm).expect("suits machines");
    let told = unsuited(Arm::Vm, "count = 9", "count = 16");
    assert!(told.contains("more than 16 guests, here 17,"), "{told}");
    assert!(told.ends_with("run it with --on sim|live"), "{told}");
    let told = unsuited(Arm::Vm, "count = 9", "start = \"1s\"");
    let part = "start: start is for sim and live only; run it with --on sim|live";
    assert!(told.contains(part), "{told}");
    let told = unsuited(
        Arm::Vm,
        "[stack.legacy]",
        "[stack.server]\nkernel = \"6.1\"\n[stack.legacy]",
    );
    assert!(
        told.contains("stack.server.kernel: receivers run on the host's own kernel"),
        "{told}"
    );
}

#[test]
fn a_backend_can_refuse_a_single_point() {
    let axis = "[[sweep]]\nname = \"t\"\nset = { \"network.topology\" = [\"star\", \"dumbbell\"] }";
    let text = format!("{GOOD}{axis}");
    let experiment = Experiment::from_str("t.toml", &text).expect("reads");
    experiment.validate().expect("makes sense");
    let error = experiment
        .suits(Arm::Vm)
        .expect_err("one is a dumbbell")
        .to_string();
    assert_eq!(
        error,
        "t.toml:45:39: network.topology: a dumbbell is for sim and live only; run it with --on sim|live"
    );
}

#[test]
fn a_load_fills_its_part_of_a_hosts_link_or_of_the_bottleneck() {
    let web = "web = { rate = 50, sizes = [[\"1kB\", 0.5], [\"1MB\", 1.0]] }";
    assert!(SWEPT.contains(web));
    let with = |topology: &str, application: &str, more: &str| {
        let text = SWEPT
            .replace("{ leaf-spine = { leaves = 3, spines = 2 } }", topology)
            .replacen(web, application, 1)
            .replacen("[[sweep]]", more, 1);
        let read = Experiment::from_str("t.toml", &text).expect("reads");
        read.cases[0].guests[1].arrivals_per_s(&read.network)
    };
    let load = "web = { load = 0.4, sizes = \"10kB\" }";
    // 40 % of 10 Gb/s in 80,000 bits each.
    assert_eq!(with("\"dumbbell\"", load, "[[sweep]]"), Some(50_000.0));
    let (eight, switch) = (
        "count = 4\nflows = 2\n[[sweep]]",
        "{ switch = { hosts = 4 } }",
    );
    assert_eq!(with("\"dumbbell\"", load, eight), Some(6_250.0));
    assert_eq!(with(switch, load, eight), Some(25_000.0));
    assert_eq!(with(switch, web, eight), Some(50.0));
    assert_eq!(with(switch, "transfer = { size = \"1MB\" }", eight), None);
}
