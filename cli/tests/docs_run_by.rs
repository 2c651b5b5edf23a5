//! Which test runs which command of the documents.

/// The tests that run commands: words of the command, the test's file, and its name. The row with the
/// most words decides.
pub const RUN_BY: &[(&str, &str, &str)] = &[
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
        "pip install --force-reinstall --no-deps \"$out\"/undercurrent-*.whl",
    ),
    ("python3 -m venv", "scripts/wheel", "python3 -m venv"),
    (
        "python",
        "research/python/tests/test_run.py",
        "def test_example_runs_from_data_to_figure",
    ),
    (
        "sbatch",
        "bench/tests/live_examples.rs",
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
        "bench/tests/captures.rs",
        "fn live_tshark_counts_the_packets_drops_and_retransmissions_of_the_record",
    ),
    (
        "uc-bench compare",
        "bench/tests/compare.rs",
        "fn another_law_differs_with_status_1_and_a_page",
    ),
    (
        "uc-bench compare --case",
        "bench/tests/compare.rs",
        "fn two_cases_of_one_result_are_compared_by_their_groups",
    ),
    (
        "uc-bench compare --json",
        "bench/tests/compare.rs",
        "fn kept_records_are_compared_by_path_and_by_name",
    ),
    (
        "uc-bench merge",
        "bench/tests/shards.rs",
        "fn sweep_of_200_points_has_the_same_bytes_from_1_2_and_7_shards",
    ),
    (
        "uc-bench packetdrill",
        "bench/tests/packetdrill.rs",
        "fn scripts_of_a_folder_are_counted_and_pass",
    ),
    (
        "uc-bench packetdrill --on live",
        "research/lab/tests/live_drill.rs",
        "fn live_every_script_passes_on_the_kernel_with_and_without_a_port",
    ),
    (
        "uc-bench packetdrill --on live --shell",
        "research/lab/tests/live_drill.rs",
        "fn live_scripts_for_a_kernel_pass_and_their_commands_need_a_shell",
    ),
    (
        "uc-bench reproduce",
        "bench/tests/reproduce.rs",
        "fn an_accepted_record_is_reproduced_and_stays_as_it_is",
    ),
    (
        "uc-bench reproduce --set --as --on live",
        "bench/tests/reproduce.rs",
        "fn a_variant_has_a_record_of_its_own_that_knows_its_overrides",
    ),
    (
        "uc-bench reproduce --seed",
        "bench/tests/reproduce.rs",
        "fn a_verdict_that_only_the_kept_values_give_does_not_stand_with_other_seeds",
    ),
    (
        "uc-bench reproduce --docs",
        "bench/tests/reproduce.rs",
        "fn quoted_numbers_and_the_page_follow_the_records",
    ),
    (
        "uc-bench reproduce --on live",
        "bench/tests/live_reproduce.rs",
        "fn live_a_record_goes_on_where_it_was_interrupted_and_is_compared",
    ),
    (
        "uc-bench run",
        "bench/tests/live_run.rs",
        "fn live_run_prints_one_object_with_the_promised_keys_and_its_status_is_the_verdict",
    ),
    (
        "uc-bench run --on sim",
        "bench/tests/figures.rs",
        "\"reproduce\", id, \"--on\", \"sim\"",
    ),
    (
        "uc-bench run --on sim --laws",
        "cli/tests/write_a_law.rs",
        "fn page_makes_the_law_work_in_a_folder_of_its_own_and_in_the_tree",
    ),
    (
        "uc-bench run --on sim --pcap",
        "bench/tests/captures.rs",
        "fn a_capture_changes_no_result_and_has_a_file_for_each_run",
    ),
    (
        "uc-bench run --on sim --qlog",
        "bench/tests/captures.rs",
        "fn a_qlog_file_for_each_flow_has_the_numbers_of_its_samples_and_the_events_of_its_law",
    ),
    (
        "uc-bench run --on sim --resume",
        "bench/tests/shards.rs",
        "fn run_killed_at_random_moments_and_resumed_has_the_same_bytes",
    ),
    (
        "uc-bench run --on sim --shard",
        "bench/tests/shards.rs",
        "fn sweep_of_200_points_has_the_same_bytes_from_1_2_and_7_shards",
    ),
    (
        "uc-bench run --on vm",
        "bench/tests/live_vm_run.rs",
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
        "uc-bench verify",
        "bench/tests/verify.rs",
        "fn the_same_seed_gives_the_same_answer_whatever_the_number_of_jobs",
    ),
    (
        "uc-bench verify --guest",
        "research/verify/tests/exact.rs",
        "Guest::EcnStripped",
    ),
    (
        "uc-bench verify --handover",
        "research/verify/tests/exact.rs",
        "fn a_flow_that_moves_to_other_hosts_goes_on_as_the_native_sender_does",
    ),
    (
        "uc-bench verify --lift",
        "research/verify/tests/record.rs",
        "fn drawn_rows_made_again_are_those_of_the_record",
    ),
    (
        "uc-bench verify --replay",
        "bench/tests/verify.rs",
        "fn a_case_is_replayed_from_its_file_line_by_line",
    ),
    (
        "uc-bench verify --smallest",
        "bench/tests/verify.rs",
        "fn the_smallest_case_is_a_replay_file_that_ends_where_the_windows_cross",
    ),
    (
        "uc-bench verify --table",
        "research/verify/tests/record.rs",
        "fn drawn_rows_made_again_are_those_of_the_record",
    ),
    (
        "uc watch --grant",
        "cli/tests/live_watch_granter.rs",
        "fn live_receivers_behind_one_link_lose_less_where_a_granter_paces_both",
    ),
    (
        "uc watch",
        "cli/tests/live_watch_pace.rs",
        "fn live_watch_says_once_for_each_port_that_no_rate_is_known_and_goes_on",
    ),
];
