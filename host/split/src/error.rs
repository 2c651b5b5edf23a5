//! Errors of split connections.

use std::io;

use uc_service::ServiceError;

/// Why connections can't be split.
#[derive(Debug, thiserror::Error)]
pub enum SplitError {
    /// The process lacks the capability.
    #[error("CAP_NET_ADMIN is missing: run as root, or grant it to the program with setcap")]
    Capability,
    /// A program is missing.
    #[error("`{program}` is not on PATH, /usr/sbin or /sbin: install the package {package}")]
    Program {
        /// Name of the program.
        program: &'static str,
        /// Debian's package that contains it.
        package: &'static str,
    },
    /// A program can't be started, or fails.
    #[error("`{program}` fails: {because}")]
    Failed {
        /// The program and its first arguments.
        program: String,
        /// The program's output in one line, or the kernel's error.
        because: String,
    },
    /// The packet filter refuses the table.
    #[error(
        "nft refuses the table {table}: {because}; the kernel must be Linux 5.9 or newer, with CONFIG_NFT_TPROXY, \
         CONFIG_NFT_SOCKET, CONFIG_NFT_FIB_INET, CONFIG_NFT_CT, CONFIG_NFT_REJECT and \
         CONFIG_NF_CONNTRACK_MARK, as modules or built in"
    )]
    Table {
        /// Name of the table.
        table: &'static str,
        /// The message of nft.
        because: String,
    },
    /// The interface does not exist.
    #[error(
        "interface '{name}' does not exist in this network namespace; list them with `ip link`"
    )]
    Interface {
        /// Name as given.
        name: String,
    },
    /// The packet filter's language can't write the interface's name.
    #[error(
        "interface name '{name}' has a character that nft can't take; rename it with `ip link set`"
    )]
    Name {
        /// Name as given.
        name: String,
    },
    /// The interface belongs to a bridge, so IP does not see its packets.
    #[error(
        "interface '{name}' is a port of bridge '{bridge}', which passes its frames on without routing \
         them: name '{bridge}' if it has the address that is the guests' gateway; otherwise take \
         '{name}' from the bridge and route to it"
    )]
    Bridged {
        /// The interface.
        name: String,
        /// The bridge that it belongs to.
        bridge: String,
    },
    /// The host has no address on the bridge, so it is nobody's gateway there.
    #[error(
        "bridge '{name}' has no address of this host, so its guests have another gateway and IP does not see \
         their packets: make this host the gateway (`ip address add ADDRESS dev {name}`), or take the guests \
         from the bridge and route to them"
    )]
    NoGateway {
        /// The bridge.
        name: String,
    },
    /// The packet filter sees the bridge's packets before IP, where `tproxy` has no effect.
    #[error(
        "the packets of bridge '{name}' pass the packet filter before IP, which then forgets where they are \
         to go: set the sysctl {sysctl} to 0"
    )]
    BridgeFilter {
        /// The bridge.
        name: String,
        /// The setting of the module br_netfilter.
        sysctl: &'static str,
    },
    /// The kernel would take packets with our mark for forged ones.
    #[error(
        "the kernel checks where packets of interface '{name}' come from, and does so with their mark, so it \
         would drop those of split connections: set the sysctls net.ipv4.conf.all.src_valid_mark and \
         net.ipv4.conf.{name}.src_valid_mark to 0, or both rp_filter"
    )]
    SourceMark {
        /// The interface.
        name: String,
    },
    /// The interface is part of something else than a bridge.
    #[error(
        "interface '{name}' belongs to '{master}' ({kind}), which takes its packets: name an interface \
         whose packets this host routes"
    )]
    Enslaved {
        /// The interface.
        name: String,
        /// The interface that it belongs to.
        master: String,
        /// The kernel's word for the relation.
        kind: String,
    },
    /// The kernel has no congestion control of this name.
    #[error(
        "this kernel has no congestion control '{name}'; it has {available}: name one of them, or load \
         its module"
    )]
    CongestionControl {
        /// Name as given.
        name: String,
        /// The available names.
        available: String,
    },
    /// Multipath TCP is turned off.
    #[error("Multipath TCP is turned off here: set the sysctl net.mptcp.enabled to 1")]
    MptcpOff,
    /// The kernel lacks Multipath TCP.
    #[error("this kernel lacks Multipath TCP: it needs CONFIG_MPTCP, since Linux 5.6")]
    MptcpMissing,
    /// A second process can't split in one network namespace.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// A resource of the kernel is missing.
    #[error("could not {action}: {source}")]
    Resource {
        /// The action that failed.
        action: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// Too few descriptors for the number of connections.
    #[error(
        "{wanted} connections need {needed} descriptors, but the limit is {limit}: raise it (ulimit -n, \
         or LimitNOFILE in a unit), or give a smaller --connections-max"
    )]
    Descriptors {
        /// Maximum number of connections, as `--connections-max` gives it.
        wanted: usize,
        /// Number of descriptors that this many connections may need.
        needed: u64,
        /// The limit of this process.
        limit: u64,
    },
}

impl SplitError {
    /// Creates a [`SplitError::Resource`] from the kernel's error.
    pub(crate) fn resource(action: &'static str, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        Self::Resource { action, source }
    }
}
