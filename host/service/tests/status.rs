//! The process that has a place, and those who ask it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uc_service::{ServiceError, Task};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Ports {
    ports: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Sent {
    sent: BTreeMap<String, u64>,
    flow: Option<u64>,
}

impl Task for Ports {
    const COMMAND: &'static str = "uc test";
    const PLACE: &'static str = "test-status";
    type Done = Sent;
}

type Status = uc_service::Status<Ports, Sent>;

#[test]
fn live_one_process_has_a_place_answers_questions_and_frees_it_at_its_end() {
    if !nix::unistd::geteuid().is_root() {
        uc_live::skip("root");
        return;
    }
    assert!(matches!(Status::ask(), Err(ServiceError::Nobody { .. })));
    let setup = Ports {
        ports: vec!["tap0".into()],
    };
    let own = move |flow: Option<u64>| {
        let sent = [("tap0".to_owned(), u64::MAX)].into();
        Status::own(setup.clone(), Sent { sent, flow })
    };
    let place = Status::take_place().unwrap();
    let served = Status::serve(place, own.clone()).unwrap();
    assert_eq!(Status::ask().unwrap(), own(None));
    assert_eq!(Status::ask_about(&Some(7)).unwrap(), own(Some(7)));
    // What is no question, or too long for one, gets no answer and does not end the thread.
    for question in ["?".to_owned(), "?".repeat(3 * 4096)] {
        let asked = Status::ask_about(&question);
        assert!(matches!(asked, Err(ServiceError::Silent { .. })));
    }
    assert_eq!(Status::ask().unwrap(), own(None));
    let json = serde_json::to_value(own(None)).unwrap();
    let names: Vec<&String> = json.as_object().unwrap().keys().collect();
    assert_eq!(names, ["flow", "pid", "ports", "sent"]);
    let text = Status::take_place().unwrap_err().to_string();
    let pid = std::process::id();
    assert!(
        text.starts_with(&format!("`uc test` (process {pid}) ")),
        "{text}"
    );
    drop(served);
    assert!(matches!(Status::ask(), Err(ServiceError::Nobody { .. })));
    Status::take_place().unwrap();
}
