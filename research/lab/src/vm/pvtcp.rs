//! PVTCP in a guest: the module `guest/pvtcp`, built for the guest's kernel and loaded into it.

use std::fs;

use uc_experiment::{Pvtcp, RttFilter};

use crate::vm::error::VmError;
use crate::vm::kernel::Kernel;
use crate::vm::machine::Machine;
use crate::vm::message::Request;

/// Path of the module in the guest.
const INSIDE: &str = "/tmp/uc_pvtcp.ko";

/// Loads the module, with the stack's settings.
///
/// # Errors
/// The command that builds it where it was not built, or the guest's error.
pub fn load(machine: &mut Machine, kernel: &Kernel, pvtcp: &Pvtcp) -> Result<(), VmError> {
    let path = kernel.pvtcp()?;
    let bytes = fs::read(&path).map_err(|source| {
        VmError::Refused(format!(
            "{path} cannot be put into a guest's image: {source}; build it again with \
             scripts/vm-kernels --pvtcp",
            path = path.display()
        ))
    })?;
    machine.order(&Request::Store {
        path: INSIDE.into(),
        bytes,
    })?;
    machine.order(&Request::Insert {
        path: INSIDE.into(),
        parameters: parameters(pvtcp),
    })
}

fn parameters(pvtcp: &Pvtcp) -> String {
    let filter = match pvtcp.rtt {
        RttFilter::Off => "off",
        RttFilter::Srtt => "srtt",
        RttFilter::Skip => "skip",
        RttFilter::Flight => "flight",
    };
    format!("rto={} filter={filter}", u8::from(pvtcp.defer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stacks_settings_become_the_modules_parameters() {
        assert_eq!(parameters(&Pvtcp::default()), "rto=1 filter=srtt");
        let only_samples = Pvtcp {
            defer: false,
            rtt: RttFilter::Flight,
        };
        assert_eq!(parameters(&only_samples), "rto=0 filter=flight");
    }
}
