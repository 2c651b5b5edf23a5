//! Runs one packet through one program, without a network: `BPF_PROG_TEST_RUN`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use crate::direction::Direction;
use crate::error::PortError;
use crate::layout::{__sk_buff, UC_PLACES_SWEPT};
use crate::programs::Programs;

/// The packet's context: its port and its segmentation.
#[derive(Clone, Copy, Debug)]
pub struct PacketContext {
    /// Index of the interface; it must exist in this network namespace.
    pub ifindex: u32,
    /// Number of wire segments in a super-segment; 0 or 1 for an ordinary packet.
    pub gso_segs: u32,
    /// Payload of each segment on the wire, in bytes, if the frame is a GSO packet.
    pub gso_size: u32,
    /// Number of runs (for timing; the packet's edits accumulate).
    pub repeat: u32,
}

/// The result of a run of a program on one frame.
#[derive(Clone, Debug)]
pub struct PacketRun {
    /// The frame as the program left it.
    pub packet: Vec<u8>,
    /// Verdict of the program; −1 (`TC_ACT_UNSPEC`): the next program decides.
    pub verdict: i32,
    /// Mean time of one run of the program.
    pub duration: Duration,
}

/// Index of an interface that every network namespace has.
pub(crate) const LOOPBACK: u32 = 1;

/// Room for bytes that a program may add; ours add none.
const SLACK_BYTES: usize = 256;

impl Programs {
    /// Runs `packet` (an Ethernet frame) through the program of `direction`, by [`run_summed`].
    ///
    /// # Errors
    /// The kernel's refusal of the frame; `EBADMSG`: the program changed bytes without changing the packet's
    /// checksum.
    pub fn test_run(
        &self,
        direction: Direction,
        packet: &[u8],
        context: PacketContext,
    ) -> Result<PacketRun, PortError> {
        run_summed(self.program(direction), packet, context)
    }
}

impl Programs {
    /// Runs the program `collect`, so that it checks this number of table entries for stale flows.
    pub(crate) fn run_collect(
        &self,
        collect: BorrowedFd<'_>,
        places: u32,
    ) -> Result<(), PortError> {
        let context = PacketContext {
            ifindex: LOOPBACK,
            gso_segs: 0,
            gso_size: 0,
            repeat: places.div_ceil(UC_PLACES_SWEPT),
        };
        // The packet isn't read, but a run needs one.
        run_packet(collect, &[0; 64], context, 0).map(|_| ())
    }
}

/// Runs `packet` (an Ethernet frame) through any program of a port. On Linux 6.11 and later, and on older
/// series that took the change over, the packet has a checksum over all that follows the Ethernet header,
/// as from a network card (`CHECKSUM_COMPLETE`).
///
/// # Errors
/// The kernel's refusal of the frame; `EBADMSG`: the program changed bytes without changing this checksum.
pub fn run_summed(
    program: BorrowedFd<'_>,
    packet: &[u8],
    context: PacketContext,
) -> Result<PacketRun, PortError> {
    let run = |flags| run_with(program, packet, context, 0, flags);
    // An unknown flag is refused before the program runs.
    let run = match run(libbpf_sys::BPF_F_TEST_SKB_CHECKSUM_COMPLETE) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => run(0),
        run => run,
    };
    run.map_err(refused)
}

/// Runs `packet` (an Ethernet frame), which has this mark, through any program of a port.
///
/// # Errors
/// The kernel's refusal, for instance of a frame that is too short.
pub fn run_packet(
    program: BorrowedFd<'_>,
    packet: &[u8],
    context: PacketContext,
    mark: u32,
) -> Result<PacketRun, PortError> {
    run_with(program, packet, context, mark, 0).map_err(refused)
}

fn refused(source: io::Error) -> PortError {
    PortError::from_kernel("run a packet through a port program", source)
}

fn run_with(
    program: BorrowedFd<'_>,
    packet: &[u8],
    context: PacketContext,
    mark: u32,
    flags: u32,
) -> io::Result<PacketRun> {
    let mut skb = __sk_buff {
        mark,
        ifindex: context.ifindex,
        gso_segs: context.gso_segs,
        gso_size: context.gso_size,
        ..Default::default()
    };
    let mut out = vec![0u8; packet.len() + SLACK_BYTES];
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as u64,
        data_in: packet.as_ptr().cast(),
        data_size_in: packet.len() as u32,
        data_out: out.as_mut_ptr().cast(),
        data_size_out: out.len() as u32,
        ctx_in: (&raw mut skb).cast(),
        ctx_size_in: size_of::<__sk_buff>() as u32,
        repeat: context.repeat.max(1) as i32,
        flags,
        ..Default::default()
    };
    // SAFETY: all buffers outlive the call, and their sizes are as stated.
    let code = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) };
    if code < 0 {
        return Err(io::Error::from_raw_os_error(-code));
    }
    out.truncate(options.data_size_out as usize);
    Ok(PacketRun {
        packet: out,
        verdict: options.retval as i32,
        duration: Duration::from_nanos(u64::from(options.duration)),
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use libbpf_rs::ObjectBuilder;

    use super::*;
    use crate::kernel_error::KernelError;

    /// Writes into IPv6's first word without a change of the packet's checksum.
    const FORGETFUL: &str = r#"
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("tc") int forgetful(struct __sk_buff *skb)
{
	unsigned char *data = (void *)(long)skb->data;

	if (data + 16 <= (unsigned char *)(long)skb->data_end)
		data[15] ^= 0x20;
	return -1;
}

char LICENSE[] SEC("license") = "GPL";
"#;

    /// Otherwise test runs say nothing of the checksum over the whole packet.
    #[test]
    fn live_a_program_that_forgets_the_checksum_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let object = folder.path().join("forgetful.o");
        std::fs::write(folder.path().join("forgetful.bpf.c"), FORGETFUL).unwrap();
        uc_clang::bpf(folder.path(), "forgetful.bpf.c".as_ref(), &object, &[]).unwrap();
        let open = ObjectBuilder::default().open_file(&object).unwrap();
        let Some(object) = uc_live::or_skip(open.load()) else {
            return;
        };
        let program = object.progs().next().unwrap();
        let context = PacketContext {
            ifindex: LOOPBACK,
            gso_segs: 0,
            gso_size: 0,
            repeat: 1,
        };
        // Ethernet's, IPv6's and TCP's headers.
        let mut packet = [0; 74];
        packet[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
        match run_summed(program.as_fd(), &packet, context) {
            Ok(_) => uc_live::skip("test runs that check a packet's checksum (Linux 6.11)"),
            Err(PortError::Kernel(KernelError { source, .. })) => {
                assert_eq!(source.raw_os_error(), Some(libc::EBADMSG), "{source}");
            }
            Err(error) => panic!("{error}"),
        }
    }
}
