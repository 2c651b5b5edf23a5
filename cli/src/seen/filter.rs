//! Selects the flows that are shown: `--filter 'law=dctcp port=vnet* remote=10.0.0.0/8'`.

use std::net::SocketAddr;
use std::str::FromStr;

use uc_core::rule::{Prefix, PrefixError};
use uc_words::wording::suggest;

use super::flow::{FlowRow, Limit};

/// Conditions, all of which a flow must meet.
#[derive(Clone, Debug, Default)]
pub struct Filter(Vec<Condition>);

#[derive(Clone, Debug)]
enum Condition {
    Law(String),
    Port(String),
    Stage(String),
    Limit(Limit),
    Guest(End),
    Remote(End),
}

/// Condition on an end of a connection: a prefix of addresses, a TCP port, or both.
#[derive(Clone, Copy, Debug)]
struct End {
    prefix: Prefix,
    tcp_port: Option<u16>,
}

const KEYS: [&str; 6] = ["law", "port", "stage", "limit", "guest", "remote"];
const STAGES: [&str; 3] = ["syn-sent", "syn-received", "translating"];

fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    format!("no {what} '{name}'; {}", suggest(name, known))
}

fn one_of(what: &str, name: &str, known: &[&str]) -> Result<String, String> {
    let is_known = known.contains(&name);
    is_known
        .then(|| name.to_owned())
        .ok_or_else(|| unknown(what, name, known))
}

impl FromStr for End {
    type Err = String;

    fn from_str(text: &str) -> Result<End, String> {
        if let Ok(socket) = SocketAddr::from_str(text) {
            return Ok(End {
                prefix: Prefix::host(socket.ip()),
                tcp_port: Some(socket.port()),
            });
        }
        if let Some(port) = text.strip_prefix(':') {
            let tcp_port = port
                .parse()
                .map_err(|_| format!("'{port}' is not a TCP port; write 1 to 65535"))?;
            return Ok(End {
                prefix: Prefix::ANY,
                tcp_port: Some(tcp_port),
            });
        }
        let prefix = text.parse().map_err(|error| match error {
            PrefixError::Malformed => {
                format!(
                    "'{text}' is not an address, prefix (10.0.0.0/8), end (10.0.0.1:80) or :port"
                )
            }
            other => format!("'{text}' {other}"),
        })?;
        Ok(End {
            prefix,
            tcp_port: None,
        })
    }
}

impl End {
    fn is(&self, end: SocketAddr) -> bool {
        self.prefix.contains(Prefix::host(end.ip()))
            && self.tcp_port.is_none_or(|port| port == end.port())
    }
}

/// Returns whether a name matches a pattern in which `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        let Some((key, value)) = text.split_once('=') else {
            return Err(format!("'{text}' is not a condition; write KEY=VALUE"));
        };
        Ok(match key {
            "law" => {
                let law = uc_port::law_named(value).map_err(|error| error.to_string())?;
                Condition::Law(law.name().to_owned())
            }
            "port" => Condition::Port(value.to_owned()),
            "stage" => Condition::Stage(one_of("stage", value, &STAGES)?),
            "limit" => {
                let found = Limit::ALL.iter().find(|limit| limit.label() == value);
                let labels = Limit::ALL.map(Limit::label);
                Condition::Limit(*found.ok_or_else(|| unknown("limit", value, &labels))?)
            }
            "guest" => Condition::Guest(value.parse()?),
            "remote" => Condition::Remote(value.parse()?),
            _ => return Err(unknown("key", key, &KEYS)),
        })
    }
}

impl FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Filter, String> {
        let conditions = text.split_whitespace().map(str::parse);
        Ok(Filter(conditions.collect::<Result<_, _>>()?))
    }
}

impl Condition {
    fn is_met(&self, flow: &FlowRow) -> bool {
        match self {
            Condition::Law(law) => flow.law == *law,
            Condition::Port(pattern) => matches(pattern, &flow.port),
            Condition::Stage(stage) => flow.stage == *stage,
            Condition::Limit(limit) => flow.limit == *limit,
            Condition::Guest(end) => end.is(flow.guest),
            Condition::Remote(end) => end.is(flow.remote),
        }
    }
}

impl Filter {
    /// Returns whether the flow meets all conditions, so that it is shown.
    pub fn shows(&self, flow: &FlowRow) -> bool {
        self.0.iter().all(|condition| condition.is_met(flow))
    }

    /// Returns a filter that shows the flows that both filters show.
    #[must_use]
    pub fn and(mut self, other: Filter) -> Filter {
        self.0.extend(other.0);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uc_core::{FlowState, Policy, consts};

    fn row(port: &str, guest: &str, remote: &str) -> FlowRow {
        let view = uc_port::FlowView::of(
            7,
            guest.parse().unwrap(),
            remote.parse().unwrap(),
            FlowState {
                stage: consts::TRANSLATING as u8,
                policy: Policy::new(consts::LAW_DCTCP, consts::PROFILE_LINUX),
                ..FlowState::default()
            }
            .into(),
        );
        FlowRow::new(&view, port.to_owned(), None)
    }

    fn shows(filter: &str, flow: &FlowRow) -> bool {
        filter.parse::<Filter>().unwrap().shows(flow)
    }

    #[test]
    fn a_flow_is_shown_if_it_meets_every_condition() {
        let flow = row("vnet3", "10.1.0.1:40000", "10.2.0.9:80");
        for yes in [
            "",
            "law=dctcp port=vnet3 remote=10.0.0.0/8",
            "port=vnet* remote=:80",
            "port=*3 guest=10.1.0.1",
            "remote=10.2.0.9:80 stage=translating",
        ] {
            assert!(shows(yes, &flow), "{yes}");
        }
        for no in [
            "law=ecn",
            "law=dctcp port=vnet33",
            "port=net*",
            "remote=10.2.0.9:8080",
            "guest=10.2.0.0/16",
            "stage=syn-sent",
        ] {
            assert!(!shows(no, &flow), "{no}");
        }
    }

    #[test]
    fn ipv6_prefixes_and_ends_are_accepted() {
        let flow = row("tap0", "[fd00::1]:40000", "[fd00:1::2]:443");
        assert!(shows("remote=fd00::/16 guest=[fd00::1]:40000", &flow));
        assert!(!shows("remote=10.0.0.0/8", &flow));
    }

    #[test]
    fn an_unknown_name_is_refused_with_a_suggestion() {
        let refused = |text: &str| text.parse::<Filter>().unwrap_err();
        assert!(refused("lwa=ecn").contains("did you mean `law`"));
        assert!(refused("law=dctpc").contains("did you mean `dctcp`"));
        assert!(refused("limit=recv").contains("known here: handshake"));
        assert!(refused("remote=10.0.0.1/8").contains("10.0.0.0/8"));
        assert!(refused("vnet3").contains("KEY=VALUE"));
    }
}
