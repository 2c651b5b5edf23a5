//! Table, object and page of committed experiments on made-up runs. The pages are left in cargo's
//! temporary folder, for inspection.

mod made_up;

use made_up::{keep, with_report};
use uc_experiment::{Arm, Evaluation, LawEvent, LawEventKind, Outcome, Verdict};
use uc_report::{Meta, Report};

#[test]
fn a_page_names_every_verdict_and_loads_nothing() {
    for (name, runs) in [("fig1", 12), ("fig9", 2), ("fig10", 3), ("fig11", 3)] {
        with_report(name, runs, |report| {
            let page = uc_report::html::html(&report).expect("draws");
            keep(name, &page);
            for verdict in report.verdicts() {
                let escaped = verdict.name.replace('\'', "&#39;");
                assert!(page.contains(&escaped), "{name}: no {:?}", verdict.name);
            }
            for loads in ["http", "src=", "url(", "@import", "<link", "<script"] {
                assert!(!page.contains(loads), "{name}: the page has {loads:?}");
            }
            let panels = page.matches("<svg ").count();
            // Densities need runs, bars need more than one flow.
            let per_case = 4 + usize::from(runs >= 10) - usize::from(name == "fig9");
            assert_eq!(panels, per_case * report.experiment.cases.len(), "{name}");
            assert_eq!(panels, page.matches("</svg>").count(), "{name}");
            assert!(!page.contains("NaN") && !page.contains("inf\""), "{name}");
        });
    }
}

#[test]
fn events_of_a_law_are_signs_on_its_window_and_rows_of_a_table() {
    with_report("fig11", 1, |report| {
        let mut records = report.records.to_vec();
        let event = |at_ns, kind| LawEvent {
            at_ns,
            kind,
            times: 1,
            before_bytes: 40 * 1_448,
            after_bytes: 20 * 1_448,
            ssthresh_bytes: None,
        };
        // Two that are far from each other, and a third beside the second.
        let events = [
            event(5_000_000_000, LawEventKind::Cut),
            event(9_000_000_000, LawEventKind::Timeout),
            event(9_000_000_001, LawEventKind::Timeout),
        ];
        let flows = records.iter_mut().flat_map(|record| &mut record.flows);
        let has_law = |flow: &&mut uc_experiment::FlowRecord| {
            let mut samples = flow.samples.iter();
            samples.any(|sample| sample.shadow_window_bytes.is_some())
        };
        let mut translated = 0;
        for flow in flows.filter(has_law) {
            flow.events = events.to_vec();
            translated += 1;
        }
        assert!(translated > 0);
        let page = uc_report::html::html(&Report {
            records: &records,
            ..report
        });
        let page = page.expect("draws");
        keep("events", &page);
        let tables = page.matches("<details>").count();
        assert!(tables > 0);
        let of = |text: &str| page.matches(text).count();
        // In the legend, too.
        assert_eq!(of("class=\"event cut\""), tables + 1);
        assert_eq!(of("class=\"event timeout\""), tables + 1);
        assert_eq!(of("9.000: 2 timeouts, window 40 → 20</title>"), tables);
        assert_eq!(of("<td>5.000</td><td>1</td><td>40</td><td>20</td>"), tables);
        let without = uc_report::html::html(&report).expect("draws");
        assert!(!without.contains("<details>") && !without.contains("class=\"event"));
    });
}

#[test]
fn texts_of_the_file_are_escaped() {
    with_report("fig9", 2, |report| {
        let mut experiment = report.experiment.clone();
        experiment.title = "<b>&\"'".into();
        experiment.cases[0].title = Some("</figcaption><i>".into());
        let mut evaluation = report.evaluation.clone();
        evaluation.verdicts[0].name = "<u>".into();
        let meta = Meta {
            command: "uc <x>".into(),
            ..report.meta.clone()
        };
        let changed = Report {
            experiment: &experiment,
            points: &experiment.points().expect("spans its points"),
            evaluation: &evaluation,
            meta: &meta,
            records: report.records,
        };
        let page = uc_report::html::html(&changed).expect("draws");
        assert!(page.contains("&lt;b&gt;&amp;&quot;&#39;"));
        for raw in ["<b>", "</figcaption><i>", "<u>", "<x>"] {
            assert!(!page.contains(raw), "{raw} stands in the page");
        }
    });
}

#[test]
fn the_object_has_exactly_its_keys() {
    with_report("fig11", 3, |report| {
        let text = uc_report::json::json(&report).expect("serialises");
        let object: serde_json::Value = serde_json::from_str(&text).expect("parses");
        let keys = |value: &serde_json::Value| {
            let mut keys: Vec<String> = value
                .as_object()
                .expect("an object")
                .keys()
                .cloned()
                .collect();
            keys.sort();
            keys
        };
        let top = [
            "arm",
            "commit",
            "experiment",
            "holds",
            "points",
            "results",
            "runs",
            "seed",
            "unjudged",
        ];
        assert_eq!(keys(&object), top);
        let results = object["results"].as_array().expect("a list");
        let on_live = |expect: &&uc_experiment::Expectation| expect.on != Some(Arm::Sim);
        let judged = report.experiment.expects.iter().filter(on_live).count();
        assert_eq!(results.len(), judged);
        for result in results {
            let mut expects = report.experiment.expects.iter();
            let expect = expects.find(|expect| result["name"] == expect.name.as_str());
            let differs = expect.expect("it is known").differs.as_ref();
            let differs = differs.map(|_| "differs");
            let mut verdicts = report.verdicts().iter();
            let verdict = verdicts.find(|verdict| result["name"] == verdict.name.as_str());
            let reproduced = verdict.expect("it is known").reproduced();
            let word = reproduced.map(uc_experiment::Reproduced::key);
            assert_eq!(result["reproduced"].as_str(), word);
            let reproduced = word.map(|_| "reproduced");
            let others = ["expect", "holds", "interval", "n", "name", "ours", "paper"];
            let all = ["basis"].into_iter().chain(differs).chain(others);
            let all = all.chain(reproduced).chain(["spread", "verdict"]);
            let all: Vec<&str> = all.collect();
            assert_eq!(keys(result), all);
        }
        assert_eq!(object["experiment"], "vcc/fig11");
        assert_eq!(
            object["points"],
            serde_json::json!([{}]),
            "one, which has no labels"
        );
        assert_eq!(object["holds"], report.holds());
        assert_eq!(results[4]["expect"], "0.95–1.05");
        assert_eq!(results[1]["paper"], 0.142);
        assert_eq!(results[0]["paper"], serde_json::Value::Null);
    });
}

/// Returns the text with each line break replaced by a space.
fn joined(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_table_fits_and_is_aligned() {
    with_report("fig9", 2, |report| {
        let mut verdicts: Vec<Verdict> = report.verdicts().to_vec();
        verdicts[1].name = "a name that goes on and on ".repeat(6);
        verdicts[2].name = "x".repeat(150);
        let outcomes = [
            Outcome::Holds,
            Outcome::Undecided,
            Outcome::Differs,
            Outcome::Fails,
            Outcome::Stale,
        ];
        for (verdict, outcome) in verdicts.iter_mut().zip(outcomes) {
            verdict.outcome = outcome;
        }
        verdicts[2].differs = Some("another stack".into());
        let evaluation = Evaluation {
            verdicts: verdicts.clone(),
            unjudged: Vec::new(),
        };
        let report = Report {
            evaluation: &evaluation,
            ..report
        };
        let table = uc_report::table::table(&report);
        for line in table.lines() {
            let columns = line.chars().count();
            assert!(
                columns <= uc_report::table::COLUMNS,
                "{columns} columns: {line}"
            );
        }
        let words = ["holds", "UNDECIDED", "differs", "FAILS", "STALE"];
        let ends: Vec<usize> = table
            .lines()
            .filter(|line| {
                words
                    .iter()
                    .any(|word| line.ends_with(&format!("  {word}")))
            })
            .map(|line| line.chars().count())
            .collect();
        assert_eq!(ends.len(), verdicts.len());
        assert!(ends.iter().all(|end| *end == ends[0]), "{table}");
        let tally =
            "1 of 5 expectations hold, 1 fails, 1 is undecided, 1 differs, 1 is stale\nundecided: ";
        assert!(table.contains(tally), "{table}");
        for remark in [
            ": 2 runs, 95 % interval",
            ": another stack",
            "it holds; remove `differs` from the file",
        ] {
            assert!(joined(&table).contains(remark), "no {remark:?}: {table}");
        }
        let page = uc_report::html::html(&report).expect("draws");
        assert!(
            page.contains(": another stack."),
            "the page gives no reason"
        );
    });
}

#[test]
fn a_single_run_has_no_spread_and_missing_expectations_are_reported() {
    with_report("fig10", 1, |report| {
        let table = uc_report::table::table(&report);
        assert!(table.contains("1 run of every case"), "{table}");
        assert_eq!(
            table.matches('±').count(),
            1,
            "only the header has one: {table}"
        );
        let mut experiment = report.experiment.clone();
        experiment.expects.clear();
        let bare = Report {
            experiment: &experiment,
            evaluation: &Evaluation::default(),
            ..report
        };
        assert!(bare.holds());
        let page = uc_report::html::html(&bare).expect("draws");
        assert!(page.contains("Nothing was expected of 1 run of every case."));
    });
}

#[test]
fn a_report_states_by_how_much_an_emulated_network_was_late() {
    with_report("fig10", 2, |report| {
        let plain = uc_report::table::table(&report);
        assert!(!plain.contains("emulated network"), "{plain}");
        let trip = report.experiment.network.round_trip().0;
        let table_with = |mean_ns: u64| {
            let mut records = report.records.to_vec();
            for (record, factor) in records.iter_mut().zip(1..) {
                for (name, late_ns) in [("mean", mean_ns), ("p99", 90_000), ("max", 2_000_000)] {
                    let late_ns = late_ns / factor;
                    record
                        .counters
                        .insert(format!("wire_late_{name}_ns"), late_ns);
                }
            }
            let records = &records[..];
            joined(&uc_report::table::table(&Report { records, ..report }))
        };
        let said = table_with(trip / 10);
        let part = "90us at the 99th percentile and 2ms at most, which adds up to 20 % to an empty round trip";
        assert!(said.contains(part), "{said}");
        assert!(
            !said.contains("too late") && !said.contains("again"),
            "{said}"
        );
        let said = table_with(trip);
        let part = "200 % to an empty round trip in the mean; runs too late to count even alone: 3 \
                    (`late_max` is 50 %)";
        assert!(said.contains(part), "{said}");
    });
}

#[test]
fn the_object_and_the_table_count_runs_that_were_made_again_or_are_late() {
    with_report("fig10", 2, |report| {
        let trip_ns = report.experiment.network.round_trip().0;
        let mut records = report.records.to_vec();
        for record in &mut records {
            for name in ["mean", "p99", "max"] {
                let name = format!("wire_late_{name}_ns");
                record.counters.insert(name, trip_ns / 10);
            }
        }
        records[0].set_late_repeats(2);
        records[1].set_late_repeats(3);
        let name = "wire_late_mean_ns".to_owned();
        records[1].counters.insert(name, trip_ns / 2);
        let evaluation = uc_experiment::evaluate(report.experiment, &records, Arm::Live).unwrap();
        let report = Report {
            records: &records,
            evaluation: &evaluation,
            ..report
        };
        let case = &records[1].case;
        let depends = |verdict: &&Verdict| verdict.places.iter().any(|(_, of)| of == case);
        let late: Vec<&Verdict> = report.verdicts().iter().filter(depends).collect();
        assert!(!late.is_empty() && !report.holds());
        for verdict in late {
            assert_eq!(verdict.outcome, Outcome::Undecided, "{}", verdict.name);
        }
        let text = uc_report::json::json(&report).expect("serialises");
        let object: serde_json::Value = serde_json::from_str(&text).expect("parses");
        let found = &object["emulation"];
        assert_eq!((&found["repeated"], &found["late"]), (&5.into(), &1.into()));
        assert_eq!(
            (&found["part"], &found["part_max"]),
            (&1.0.into(), &0.5.into())
        );
        let said = joined(&uc_report::table::table(&report));
        for part in [
            "late runs made again with fewer at a time: 5; runs too late to count even alone: 1",
            "1 of its runs too late to count, the first: late frames added 100 % to the empty round trip",
        ] {
            assert!(said.contains(part), "{said}");
        }
    });
}

#[test]
fn records_without_samples_draw_no_figures() {
    with_report("fig10", 1, |report| {
        let mut records = report.records.to_vec();
        for record in &mut records {
            record.queue.clear();
            record
                .flows
                .iter_mut()
                .for_each(|flow| flow.samples.clear());
        }
        let page = uc_report::html::html(&Report {
            records: &records,
            ..report
        })
        .expect("draws");
        assert!(!page.contains("NaN"));
    });
}
