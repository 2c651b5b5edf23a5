//! Counters of a namespace's TCP: `/proc/net/snmp` and `/proc/net/netstat`.

use std::collections::BTreeMap;
use std::io;

/// Name of the counter of expired retransmission timers, those of SYNs included.
pub const TIMEOUTS: &str = "TcpExt_TCPTimeouts";

/// Reads the counters of the calling thread's namespace, named by section, such as
/// `Tcp_RetransSegs`. Omits negative values, which mean no limit.
///
/// # Errors
/// The file that can't be read, with the kernel's reason.
pub fn read() -> io::Result<BTreeMap<String, u64>> {
    let mut all = BTreeMap::new();
    // /proc/net is that of the process' first thread.
    for path in [
        "/proc/thread-self/net/snmp",
        "/proc/thread-self/net/netstat",
    ] {
        let text = std::fs::read_to_string(path)
            .map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))?;
        all.extend(parse(&text));
    }
    Ok(all)
}

/// Parses pairs of lines: `Section: name name`, then `Section: number number`.
fn parse(text: &str) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let lines: Vec<_> = text.lines().collect();
    for pair in lines.chunks_exact(2) {
        let (names, values) = (pair[0].split_whitespace(), pair[1].split_whitespace());
        let section = pair[0].split(':').next().unwrap_or_default();
        for (name, value) in names.zip(values).skip(1) {
            if let Ok(value) = value.parse() {
                found.insert(format!("{section}_{name}"), value);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_section_and_name() {
        let text = "Tcp: RtoMin MaxConn RetransSegs\nTcp: 200 -1 7\n\
                    TcpExt: TCPTimeouts\nTcpExt: 3\n";
        let found = parse(text);
        assert_eq!(found["Tcp_RetransSegs"], 7);
        assert_eq!(found[TIMEOUTS], 3);
        assert!(!found.contains_key("Tcp_MaxConn"));
        let here = read().unwrap();
        assert!(here.contains_key(TIMEOUTS), "{here:?}");
    }
}
