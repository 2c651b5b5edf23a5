//! The integration tests of this crate in one program, which is compiled and linked once.

mod common;

mod applications;
mod captures;
mod coupling;
mod coupling_host;
mod holds;
mod law_events;
mod loss_buffer;
mod packet_rtt;
mod places;
mod runs;
mod share;
mod shares;
mod silly_windows;
mod stall_repair;
mod stalls;
mod switch;
mod tenant_port;
mod unfinished;
mod virtual_dctcp;
mod watch;
mod watch_grants;
mod watch_theorems;
mod watch_times;
