//! Guests whose connections share one window, at a bottleneck of 10 Mb/s and a round trip of 100 ms
//! (ctrlTCP's figure 3).

use crate::common::{JAIN, TRUNK, USED, again, experiment, experiment_with, group, measure, run};
use uc_experiment::RunRecord;
use uc_sim::Plan;

fn coupled(stack: &str, rest: &str) -> String {
    format!("stack = \"{stack}\"\ncoupling = {{ group = \"trunk\" }}\n{rest}")
}

fn at_test(record: &RunRecord) -> String {
    again(record, "coupling")
}

#[test]
fn coupled_guests_with_four_flows_and_with_one_get_equal_goodput() {
    for (number, stack) in ["reno", "cubic", "old", "walking"].into_iter().enumerate() {
        let groups = [
            group("one", &coupled(stack, "")),
            group("four", &coupled(stack, "flows = 4")),
        ];
        let experiment = experiment(TRUNK, &groups);
        let record = run(&experiment, number as u64);
        let jain = measure(&experiment, &record, JAIN);
        let used = measure(&experiment, &record, USED);
        let again = at_test(&record);
        assert!(jain >= 0.99, "{stack}: Jain {jain}; {again}");
        assert!(used >= 0.95, "{stack}: utilisation {used}; {again}");
    }
}

#[test]
fn an_uncoupled_guest_with_four_flows_gets_four_times_as_much() {
    let groups = [
        group("one", "stack = \"reno\""),
        group("four", "stack = \"reno\"\nflows = 4"),
    ];
    let experiment = experiment(TRUNK, &groups);
    let record = run(&experiment, 1);
    let jain = measure(&experiment, &record, JAIN);
    assert!(jain < 0.85, "Jain {jain}; {}", at_test(&record));
}

#[test]
fn shares_are_in_proportion_to_the_guests_weights_whatever_their_flows_number() {
    let weighted = |name: &str, flows: u32, weight: u32| {
        let coupling = format!("coupling = {{ group = \"trunk\", weight = {weight} }}");
        group(
            name,
            &format!("stack = \"reno\"\nflows = {flows}\n{coupling}"),
        )
    };
    let weigh = |groups: [String; 3]| {
        let experiment = experiment(TRUNK, &groups);
        let record = run(&experiment, 4);
        let share = |of: &str| {
            let share = format!("kind = \"share\"\ncase = \"only\"\nof = \"{of}\"\nto = \"a\"");
            measure(&experiment, &record, &share)
        };
        ([share("b"), share("c")], at_test(&record))
    };
    let one_each = [
        weighted("a", 1, 1),
        weighted("b", 1, 2),
        weighted("c", 1, 3),
    ];
    let as_many = [
        weighted("a", 1, 1),
        weighted("b", 2, 2),
        weighted("c", 3, 3),
    ];
    for (groups, expected) in [(one_each, [2.0, 3.0]), (as_many, [1.0, 1.0])] {
        let (shares, again) = weigh(groups);
        for (share, expected) in shares.into_iter().zip(expected) {
            let ratio: f64 = share / expected;
            assert!((0.95..=1.05).contains(&ratio), "{shares:?}; {again}");
        }
    }
}

#[test]
fn capacity_that_a_guest_leaves_goes_to_the_others_at_once() {
    let groups = [
        group("stays", &coupled("reno", "")),
        group("stops", &coupled("reno", "flows = 4\nstop = \"40s\"")),
    ];
    let experiment = experiment(TRUNK, &groups);
    let record = run(&experiment, 5);
    let soon = format!("{USED}\nduring = [\"41s\", \"44s\"]");
    let used = measure(&experiment, &record, &soon);
    assert!(used >= 0.95, "utilisation {used}; {}", at_test(&record));
}

#[test]
fn a_group_of_one_flow_behaves_like_an_uncoupled_tcp() {
    let alone = experiment(TRUNK, &[group("one", "stack = \"reno\"")]);
    let grouped = experiment(TRUNK, &[group("one", &coupled("reno", ""))]);
    let (alone_record, record) = (run(&alone, 6), run(&grouped, 6));
    let cuts = |record: &RunRecord| record.flows[0].drops;
    let ratio = measure(&grouped, &record, USED) / measure(&alone, &alone_record, USED);
    let again = at_test(&record);
    assert!(
        (0.98..=1.02).contains(&ratio),
        "utilisation {ratio}; {again}"
    );
    assert!(
        cuts(&record) <= 2 * cuts(&alone_record) + 10,
        "{} drops, {} alone; {again}",
        cuts(&record),
        cuts(&alone_record)
    );
}

#[test]
fn paths_of_unequal_length_have_equal_rates_where_the_rate_is_shared() {
    let row = TRUNK.replace("\"dumbbell\"", "{ parking-lot = { hops = 3 } }");
    let to = |place: u32| {
        let coupling = "coupling = { group = \"trunk\", guest = \"sender\" }";
        format!("stack = \"reno\"\nto = {place}\n{coupling}")
    };
    let groups = [group("near", &to(1)), group("far", &to(3))];
    let far = "kind = \"share\"\ncase = \"only\"\nof = \"far\"\nto = \"near\"";
    let by = |shares: &str| {
        let keys = format!("coupling = {{ shares = \"{shares}\" }}");
        let experiment = experiment_with(&row, &keys, &groups);
        let record = run(&experiment, 7);
        (measure(&experiment, &record, far), at_test(&record))
    };
    let (by_window, again) = by("window");
    assert!(by_window < 0.7, "by window {by_window}; {again}");
    let (by_rate, again) = by("rate");
    assert!((0.9..=1.1).contains(&by_rate), "by rate {by_rate}; {again}");
}

#[test]
fn the_same_seed_gives_the_same_record_of_coupled_guests() {
    let base = TRUNK.replace("80s", "25s");
    let web = "application = { web = { rate = 3, sizes = \"50kB\" } }";
    let groups = [
        group("long", &coupled("reno", "flows = 2")),
        group("web", &coupled("cubic", web)),
    ];
    let experiment = experiment(&base, &groups);
    let (first, second) = (run(&experiment, 8), run(&experiment, 8));
    assert_eq!(first, second, "{}", at_test(&first));
    let completions = &first.flows[2].completions;
    let done = completions.iter().filter(|one| one.finished_ns.is_some());
    assert!(done.count() > 40, "{}", at_test(&first));
}

/// ctrlTCP's figure 4. Without the room that opens on the long flow's ACKs, the short flow would
/// wait for its own.
#[test]
fn a_short_flow_begins_with_its_share_of_a_long_flows_window() {
    let base = TRUNK.replace("\"reno\"\n[", "\"reno\"\ninitial_window = 3\n[");
    let short = "start = \"25s\"\napplication = { transfer = { size = \"200kB\" } }";
    let fct = "kind = \"fct\"\ncase = \"only\"\nof = \"short\"";
    let complete = |groups: &[String]| {
        let experiment = experiment(&base, groups);
        let record = run(&experiment, 9);
        (measure(&experiment, &record, fct), at_test(&record))
    };
    let (alone, _) = complete(&[
        group("long", "stack = \"reno\""),
        group("short", &format!("stack = \"reno\"\n{short}")),
    ]);
    let (together, again) = complete(&[
        group("long", &coupled("reno", "")),
        group("short", &coupled("reno", short)),
    ]);
    assert!(
        together < alone / 2.0,
        "{together} s, {alone} s alone; {again}"
    );
}

#[test]
fn guests_with_dctcp_or_vegas_are_coupled_at_their_ports_only() {
    for law in ["vegas", "dctcp"] {
        let base = format!("{TRUNK}[stack.other]\ncongestion_control = \"{law}\"\n");
        let own = experiment(&base, &[group("a", &coupled("other", ""))]);
        let refused = Plan::new(&own, &own.cases[0], 1).unwrap_err().to_string();
        for word in ["[stack.other]", law, "guests `a`", "law = \"coupled\""] {
            assert!(refused.contains(word), "no {word} in: {refused}");
        }
        let ports = experiment(&base, &[group("a", &coupled("other", "law = \"coupled\""))]);
        Plan::new(&ports, &ports.cases[0], 1).unwrap();
    }
}
