//! Names of congestion controls and TCP ports that the parts of a run agree on.

/// Name of DCTCP in an experiment and in the kernel.
pub(crate) const DCTCP: &str = "dctcp";

/// Name of the coupled Reno in an experiment; no kernel has it.
pub(crate) const CTRLTCP: &str = "ctrltcp";
/// Name of the coupled CUBIC in an experiment; no kernel has it.
pub(crate) const CTRLCUBIC: &str = "ctrlcubic";

/// Names that the experiment file may give for the congestion control of a guest with `coupling`.
pub(crate) const COUPLED_CONTROLS: [&str; 4] = ["reno", "cubic", CTRLTCP, CTRLCUBIC];

/// TCP port of the server, iperf's.
pub(crate) const SERVER_PORT: u16 = 5001;

/// TCP port of a guest's first flow; further flows have the following ports. They are free, since
/// namespaces are new.
pub(crate) const GUEST_PORT_FIRST: u16 = 40_000;
