//! Every command in a block of the documents is one that its program accepts, names files that exist
//! or that the page has named before, and is run by a test, unless the page says why not:
//! `<!-- not run: REASON -->` before the block, which GitHub and the book do not show.

#[path = "common/pages.rs"]
mod pages;

use clap::Parser;
use pages::{Command, commands, documents, read, root};
use uc_cli::Arguments;
use uc_experiment::Experiment;

fn all() -> impl Iterator<Item = Command> {
    documents().into_iter().flat_map(|page| commands(&page))
}

/// The tests that run commands: words of the command, the test's file, and its name. The row with the
/// most words decides.
const RUN_BY: &[(&str, &str, &str)] = &[
    ("cargo test", "scripts/test", "cargo test"),
    (
        "clang",
        "cli/tests/write_a_law.rs",
        "fn page_makes_the_law_work_in_a_folder_of_its_own_and_in_the_tree",
    ),
    ("make deb", "cli/tests/live_package.rs", "scripts/deb"),
    (
        "pip install",
        "scripts/wheel",
        "pip install --force-reinstall --no-deps out/undercurrent-*.whl",
    ),
    ("python3 -m venv", "scripts/wheel", "python3 -m venv"),
    (
        "python",
        "research/python/tests/test_run.py",
        "def test_example_runs_from_data_to_figure",
    ),
    (
        "sbatch",
        "cli/tests/live_examples.rs",
        "fn live_slurm_array_makes_the_shards_and_their_merging_is_the_whole",
    ),
    (
        "scripts/prove",
        "base/core/tests/live_proofs.rs",
        "fn live_quick_proofs_of_the_core_hold",
    ),
    (
        "scripts/prove --faults",
        "base/core/tests/live_proofs.rs",
        "fn live_quick_proofs_refute_the_faults_planted_for_them",
    ),
    (
        "uc attach --laws",
        "cli/tests/write_a_law.rs",
        "fn live_page_attaches_the_law_and_the_kernel_takes_15_percent_on_a_mark",
    ),
    (
        "uc couple",
        "cli/tests/live_couple.rs",
        "fn live_killing_either_end_of_a_coupling_leaves_connections_uncoupled",
    ),
    (
        "uc guest couple",
        "cli/tests/live_couple.rs",
        "fn live_killing_either_end_of_a_coupling_leaves_connections_uncoupled",
    ),
    (
        "uc guest list",
        "cli/tests/live_guest.rs",
        "fn live_a_loaded_congestion_control_stays_until_it_is_unloaded",
    ),
    (
        "uc guest load ctrltcp",
        "cli/tests/live_guest.rs",
        "fn live_coupled_congestion_controls_come_in_pairs_with_groups_and_priorities",
    ),
    (
        "uc guest load dctcp",
        "cli/tests/live_guest.rs",
        "fn live_a_loaded_congestion_control_stays_until_it_is_unloaded",
    ),
    (
        "uc guest load pvtcp",
        "cli/tests/live_vm_pvtcp_bpf.rs",
        "fn live_vm_minimum_rto_by_bpf_is_small_and_grows_beyond_the_stalls",
    ),
    (
        "uc guest priority",
        "cli/tests/live_guest.rs",
        "fn live_coupled_congestion_controls_come_in_pairs_with_groups_and_priorities",
    ),
    (
        "uc guest unload",
        "cli/tests/live_guest.rs",
        "fn live_a_loaded_congestion_control_stays_until_it_is_unloaded",
    ),
    (
        "uc guest unload uc_pvtcp",
        "cli/tests/live_vm_pvtcp_bpf.rs",
        "fn live_vm_unloading_removes_the_minimum_rto_programs",
    ),
    (
        "uc law build",
        "cli/tests/write_a_law.rs",
        "fn page_makes_the_law_work_in_a_folder_of_its_own_and_in_the_tree",
    ),
    (
        "tshark",
        "cli/tests/captures.rs",
        "fn live_tshark_counts_the_packets_drops_and_retransmissions_of_the_record",
    ),
    (
        "uc compare",
        "cli/tests/compare.rs",
        "fn another_law_differs_with_status_1_and_a_page",
    ),
    (
        "uc compare --case",
        "cli/tests/compare.rs",
        "fn two_cases_of_one_result_are_compared_by_their_groups",
    ),
    (
        "uc compare --json",
        "cli/tests/compare.rs",
        "fn kept_records_are_compared_by_path_and_by_name",
    ),
    (
        "uc merge",
        "cli/tests/shards.rs",
        "fn sweep_of_200_points_has_the_same_bytes_from_1_2_and_7_shards",
    ),
    (
        "uc packetdrill",
        "cli/tests/packetdrill.rs",
        "fn scripts_of_a_folder_are_counted_and_pass",
    ),
    (
        "uc packetdrill --on live",
        "research/lab/tests/live_drill.rs",
        "fn live_every_script_passes_on_the_kernel_with_and_without_a_port",
    ),
    (
        "uc reproduce",
        "cli/tests/reproduce.rs",
        "fn an_accepted_record_is_reproduced_and_stays_as_it_is",
    ),
    (
        "uc reproduce --set --as --on live",
        "cli/tests/reproduce.rs",
        "fn a_variant_has_a_record_of_its_own_that_knows_its_overrides",
    ),
    (
        "uc reproduce --docs",
        "cli/tests/reproduce.rs",
        "fn quoted_numbers_and_the_page_follow_the_records",
    ),
    (
        "uc reproduce --on live",
        "cli/tests/live_reproduce.rs",
        "fn live_a_record_goes_on_where_it_was_interrupted_and_is_compared",
    ),
    (
        "uc run",
        "cli/tests/live_run.rs",
        "fn live_run_prints_one_object_with_the_promised_keys_and_its_status_is_the_verdict",
    ),
    (
        "uc run --on sim",
        "cli/tests/figures.rs",
        "\"reproduce\", id, \"--on\", \"sim\"",
    ),
    (
        "uc run --on sim --laws",
        "cli/tests/write_a_law.rs",
        "fn page_makes_the_law_work_in_a_folder_of_its_own_and_in_the_tree",
    ),
    (
        "uc run --on sim --pcap",
        "cli/tests/captures.rs",
        "fn a_capture_changes_no_result_and_has_a_file_for_each_run",
    ),
    (
        "uc run --on sim --qlog",
        "cli/tests/captures.rs",
        "fn a_qlog_file_for_each_flow_has_the_numbers_of_its_samples_and_the_events_of_its_law",
    ),
    (
        "uc run --on sim --resume",
        "cli/tests/shards.rs",
        "fn run_killed_at_random_moments_and_resumed_has_the_same_bytes",
    ),
    (
        "uc run --on sim --shard",
        "cli/tests/shards.rs",
        "fn sweep_of_200_points_has_the_same_bytes_from_1_2_and_7_shards",
    ),
    (
        "uc run --on vm",
        "cli/tests/live_vm_run.rs",
        "fn live_vm_guests_send_through_translated_ports_and_stop_during_stalls",
    ),
    (
        "uc tune",
        "cli/tests/live_tune.rs",
        "fn live_tuned_connections_have_the_settings_and_others_are_untouched",
    ),
    (
        "uc dupack",
        "cli/tests/live_dupack.rs",
        "fn live_lost_windows_are_repaired_by_fast_retransmits_and_without_dupack_by_the_timer",
    ),
    ("uc hold", "cli/tests/live_hold.rs", "fn live_transfers"),
    (
        "uc split",
        "cli/tests/live_split.rs",
        "fn live_only_the_named_tcp_ports_are_split_and_a_drain_waits_for_their_end",
    ),
    (
        "uc split --clean",
        "cli/tests/live_split.rs",
        "fn live_a_kill_resets_split_connections_and_what_it_leaves_is_tidied",
    ),
    (
        "uc split --congestion-control",
        "cli/tests/live_split.rs",
        "fn live_outer_connections_run_the_named_congestion_control_also_one_in_bpf",
    ),
    (
        "uc split --inbound",
        "cli/tests/live_split_inbound.rs",
        "fn live_connections_to_guests_pass_bytes_and_ends_under_loss",
    ),
    (
        "uc split --mptcp",
        "cli/tests/live_split_figures.rs",
        "fn live_plain_guest_uses_two_paths_by_multipath_tcp",
    ),
    (
        "uc split --status --json",
        "cli/tests/common/routed.rs",
        "\"split\", \"--status\", \"--json\"",
    ),
    (
        "uc top",
        "cli/tests/live_seeing.rs",
        "fn live_top_draws_flows_shows_a_history_and_restores_the_terminal",
    ),
    (
        "uc verify",
        "cli/tests/verify.rs",
        "fn the_same_seed_gives_the_same_answer_whatever_the_number_of_jobs",
    ),
    (
        "uc verify --guest",
        "research/verify/tests/exact.rs",
        "Guest::EcnStripped",
    ),
    (
        "uc verify --lift",
        "research/verify/tests/record.rs",
        "fn drawn_rows_made_again_are_those_of_the_record",
    ),
    (
        "uc verify --replay",
        "cli/tests/verify.rs",
        "fn a_case_is_replayed_from_its_file_line_by_line",
    ),
    (
        "uc verify --smallest",
        "cli/tests/verify.rs",
        "fn the_smallest_case_is_a_replay_file_that_ends_where_the_windows_cross",
    ),
    (
        "uc verify --table",
        "research/verify/tests/record.rs",
        "fn drawn_rows_made_again_are_those_of_the_record",
    ),
    (
        "uc watch",
        "cli/tests/live_watch_pace.rs",
        "fn live_watch_says_once_for_each_port_that_no_rate_is_known_and_goes_on",
    ),
];

/// Returns the row of the test that runs a command, if one does.
fn test_of(command: &Command) -> Option<&'static (&'static str, &'static str, &'static str)> {
    let rows = RUN_BY
        .iter()
        .filter(|(pattern, ..)| command.matches(pattern));
    rows.max_by_key(|(pattern, ..)| pattern.split(' ').count())
}

#[test]
fn every_command_in_a_block_is_run_by_a_test_or_gives_the_reason_why_not() {
    let mut broken = Vec::new();
    let (mut run, mut marked) = (0, Vec::new());
    for command in all() {
        let Command { place, text, .. } = &command;
        match (&command.not_run, test_of(&command)) {
            _ if command.is_for_a_host() => run += 1,
            (_, Some((_, file, name))) => {
                run += 1;
                if !read(file).contains(name) {
                    broken.push(format!("{place}: {text}: {file} has no `{name}`"));
                }
            }
            (Some(reason), None) => {
                let block = (command.before.rfind("<!-- not run: "), reason.clone());
                marked.push((place.split(':').next().map(str::to_owned), block));
            }
            (None, None) => broken.push(format!(
                "{place}: no test runs `{text}`: add a row to RUN_BY, or <!-- not run: REASON -->"
            )),
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(
        run >= 100,
        "only {run} commands found: has their form changed?"
    );
    // a reason that no command needs is stale
    marked.dedup();
    let markers: usize = documents()
        .iter()
        .map(|page| read(page).matches("<!-- not run: ").count())
        .sum();
    assert_eq!(marked.len(), markers, "{marked:#?}");
}

#[test]
fn every_row_of_tests_is_of_a_command_in_the_documents() {
    let commands: Vec<Command> = all().collect();
    for row in RUN_BY {
        let is_used = |command: &Command| !command.is_for_a_host() && test_of(command) == Some(row);
        assert!(commands.iter().any(is_used), "{row:?}");
    }
}

/// Returns what is wrong with a command of a program of the repository.
fn refused(command: &Command) -> Option<String> {
    let words: Vec<&str> = command.words.iter().map(String::as_str).collect();
    match words[0] {
        "uc" => Arguments::try_parse_from(words)
            .err()
            .map(|error| error.to_string()),
        "make" => {
            let folder = words.iter().position(|word| *word == "-C");
            let folder = folder.map_or("", |at| words[at + 1]);
            let makefile = format!("{folder}/Makefile");
            let makefile = read(makefile.trim_start_matches('/'));
            let target = words.last().copied().unwrap_or_default();
            let is_there = makefile
                .lines()
                .any(|line| line.starts_with(&format!("{target}:")));
            (!is_there).then(|| format!("no target `{target}`"))
        }
        "cargo" => {
            let test = words.iter().position(|word| *word == "--test")? + 1;
            let package = words.iter().position(|word| *word == "-p")? + 1;
            let name = words[package].trim_start_matches("uc-");
            let folders = ["cli", "base", "host", "research"].map(|wing| match wing {
                "cli" if name == "cli" => "cli".to_owned(),
                wing => format!("{wing}/{name}"),
            });
            let is_there = |folder: &String| {
                let path = root()
                    .join(folder)
                    .join(format!("tests/{}.rs", words[test]));
                path.exists() || words[test].starts_with('$')
            };
            let is_named = folders.iter().any(is_there);
            (!is_named).then(|| format!("no test `{}` of {}", words[test], words[package]))
        }
        script if script.starts_with("scripts/") => {
            let Ok(source) = std::fs::read_to_string(root().join(script)) else {
                return Some("no such script".to_owned());
            };
            let flags = words.iter().filter(|word| word.starts_with("--"));
            let mut unknown = flags.filter(|flag| !source.contains(**flag));
            unknown.next().map(|flag| format!("{script} has no {flag}"))
        }
        _ => None,
    }
}

#[test]
fn programs_of_the_repository_accept_every_command_in_a_block() {
    let refused: Vec<String> = all()
        .filter_map(|command| {
            refused(&command).map(|why| format!("{}: {}: {why}", command.place, command.text))
        })
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

#[test]
fn blocks_without_a_language_contain_no_command() {
    let lost: Vec<String> = documents()
        .iter()
        .flat_map(|page| pages::blocks(page, ""))
        .filter(|block| block.lines().any(|line| line.starts_with("uc ")))
        .collect();
    assert!(lost.is_empty(), "```sh is missing: {lost:#?}");
}

/// Returns the paths that a command names, without options' names and what they set.
fn paths(command: &Command) -> Vec<String> {
    // a key file, or a record, is made by the command that names it
    let makes = |word: &String| ["--as", "--make-key"].contains(&word.as_str());
    let made = command.words.iter().position(makes);
    let made = made.map(|at| at + 1);
    let words = command.words.iter().enumerate().skip(1);
    let words = words.filter(|(at, _)| Some(*at) != made);
    let values = words.map(|(_, word)| {
        word.rsplit_once('=')
            .map_or(word.as_str(), |(_, value)| value)
    });
    let is_path = |word: &&str| {
        let is_file = word.ends_with(".toml") || word.contains('/');
        let first = word.chars().next().unwrap_or('-');
        is_file && (first.is_ascii_alphabetic() || "/.".contains(first)) && !word.contains("://")
    };
    // what is before a pattern or a backend, and without what follows a comma in an option's value
    let beginning = |word: &str| {
        word.split(['*', ',', '@'])
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    values.filter(is_path).map(beginning).collect()
}

/// Returns whether a file exists: in the tree, on every host, or named before on the page, of which a
/// policy may also have the text. What commands make is in `out/`.
fn is_known(path: &str, before: &str) -> bool {
    const HOST: [&str; 4] = ["/dev/", "/proc/", "/run/", "/sys/"];
    const PACKAGE: &str = "/usr/share/doc/undercurrent/";
    const POLICY: &str = "/etc/undercurrent/undercurrent.toml";
    let path = path.trim_start_matches("./");
    let experiment = format!("experiments/{path}.toml");
    root().join(path).exists() && !path.starts_with('/')
        || path.starts_with("out/")
        || root().join(experiment).exists()
        || HOST.iter().any(|folder| path.starts_with(folder))
        || path.strip_prefix(PACKAGE).is_some_and(|name| {
            root().join("packaging").join(name).exists() || root().join("docs").join(name).exists()
        })
        || path == POLICY
        || path.ends_with(".toml") && before.contains("```toml")
        || before.contains(path)
}

#[test]
fn every_file_that_a_command_names_exists_or_is_named_before_on_its_page() {
    let ours = |command: &Command| {
        let program = &command.words[0];
        ["uc", "make"].contains(&program.as_str()) || program.starts_with("scripts/")
    };
    let mut unknown = Vec::new();
    for command in all().filter(ours) {
        for path in paths(&command) {
            if !is_known(&path, &command.before) {
                unknown.push(format!("{}: {}: {path}", command.place, command.text));
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}

#[test]
fn experiments_accept_the_keys_that_commands_set() {
    let mut count = 0;
    // an experiment with laws from outside stands on its page, and `write_a_law.rs` runs it
    let is_kept = |command: &Command| !command.words.iter().any(|word| word == "--laws");
    for command in all().filter(|command| command.matches("uc run") && is_kept(command)) {
        let Command { place, words, .. } = &command;
        let mut experiment = Experiment::load(root().join(&words[2])).unwrap();
        for pair in words.windows(2).filter(|pair| pair[0] == "--set") {
            let set = experiment.apply_set(&pair[1]);
            set.unwrap_or_else(|error| panic!("{place}: {}: {error}", pair[1]));
            count += 1;
        }
        let cases = words.windows(2).filter(|pair| pair[0] == "--case");
        for case in cases.map(|pair| &pair[1]) {
            let is_there = experiment.cases.iter().any(|known| known.name == *case);
            assert!(is_there, "{place}: no case {case}");
        }
        uc_batch::keep_points(&mut experiment, &points(words))
            .unwrap_or_else(|error| panic!("{place}: {error}"));
        experiment.validate().unwrap();
    }
    assert!(count >= 2, "only {count} keys are set");
}

fn points(words: &[String]) -> Vec<String> {
    let pairs = words.windows(2).filter(|pair| pair[0] == "--point");
    pairs.map(|pair| pair[1].clone()).collect()
}
