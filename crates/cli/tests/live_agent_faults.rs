//! What goes wrong beside an agent, or with one port of many: it does what can be done, and says what
//! can't.

mod common;

use common::agent::{Installation, ip};
use common::live_with;
use common::uc::{outcome, refusal, success};
use uc_lab::netns::Namespace;

const TOOLS: [&str; 4] = ["unshare", "nsenter", "mount", "ip"];

/// Ports v* are acme's.
const POLICY: &str = "[[tenant]]\nname = \"acme\"\nports = [\"v*\"]\n\n[[rule]]\ntenant = \"acme\"\n\
     law = \"ecn\"\n";

fn installation(policy: &str) -> (Namespace, Installation) {
    let namespace = Namespace::new("the tests").unwrap();
    let installation = Installation::new(&namespace, policy, "");
    (namespace, installation)
}

fn pair(namespace: &Namespace, name: &str) {
    ip(
        namespace,
        &format!("link add {name} type veth peer name x{name}"),
    );
}

#[test]
fn live_what_a_version_with_other_maps_left_goes_with_a_detach_or_a_policy_that_names_nothing() {
    if !live_with(&TOOLS) {
        return;
    }
    let (namespace, here) = installation(POLICY);
    pair(&namespace, "v1");
    for by_hand in [true, false] {
        here.write_policy(POLICY);
        success(here.agent(&["--once"]));
        here.sandbox.relay();
        refusal(
            here.uc(&["detach", "v1"]),
            &["another version's", "uc detach --all"],
        );
        if by_hand {
            let told = success(here.uc(&["detach", "--all"]));
            assert_eq!(told, "v1: detached\n");
        } else {
            here.write_policy(&POLICY.replace("v*", "nothing*"));
            let done = outcome(here.agent(&["--once"]));
            assert_eq!(done.status, Some(0), "{done:?}");
        }
        assert!(here.sandbox.is_clean(), "{:?}", here.sandbox.pins());
    }
    let told = success(here.uc(&["detach", "--all"]));
    assert_eq!(told, "nothing is attached\n");
}
