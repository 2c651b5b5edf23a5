//! The integration tests of this crate in one program, which is compiled and linked once.

mod ends;
mod flows;
mod guest;
#[path = "coupling/home.rs"]
mod home;
#[path = "coupling/model.rs"]
mod model;
#[path = "rules/naive.rs"]
mod naive;
mod peers;
mod sender;
mod steps;
mod swift;
mod watch;
mod window;

mod acceptable;
mod clocks;
mod coupled;
mod coupling;
mod coupling_across;
mod coupling_life;
mod coupling_model;
mod coupling_peers;
mod coupling_segments;
mod coupling_storm;
mod dctcp;
mod delay;
mod delay_guarded;
mod detach;
mod distrust;
mod draining;
mod dupack;
mod echo;
mod fuzz;
mod garbage;
mod guard;
mod guest_ecn;
mod hooks;
mod laws;
mod leaving;
mod long_flows;
mod moved;
mod observe;
mod promised;
mod reference;
mod reno_linux;
mod reno_rfc;
mod reopen;
mod rows;
mod rules;
mod sack;
mod share;
mod share_shadow;
mod sizes;
mod steal;
mod strict;
mod unanswered;
mod undo;
mod watch_first;
mod watch_grants;
mod watch_rounds;
mod watch_sending;
mod watch_strangers;
mod watch_turns;
mod withheld;
