//! Initialization of a guest: from an archive in memory to a system that can run programs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};

use crate::vm::error::{VmError, resource};
use crate::vm::image::MODULES;
use crate::vm::modules;
use crate::vm::qemu::CONTROL_PORT;

/// File systems and their mount points, in order.
const MOUNTS: [(&str, &str); 7] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("tmpfs", "/tmp"),
    ("tmpfs", "/run"),
    ("bpf", "/sys/fs/bpf"),
    ("cgroup2", "/sys/fs/cgroup"),
];
/// Drivers of the virtual hardware; some kernels have them built in.
const DRIVERS: [&str; 3] = ["virtio_mmio", "virtio_console", "virtio_net"];
/// Maximum wait for the control port. Drivers normally take milliseconds of CPU time.
const PORT_BOUND: Duration = Duration::from_secs(20);
/// Folder where programs find the host's channels, with udev's names.
const PORTS: &str = "/dev/virtio-ports";

/// Mounts file systems, loads drivers, names the ports, and returns the control channel's path.
pub fn init() -> Result<PathBuf, VmError> {
    for (kind, place) in MOUNTS {
        // Pins belong in a file system that only root can write.
        let data = (kind == "bpf").then_some("mode=700");
        mount(Some(kind), place, Some(kind), MsFlags::empty(), data)
            .map_err(|errno| failed(place, errno.into()))?;
    }
    // SAFETY: this is the VM's first process, and it has no other thread yet.
    unsafe { std::env::set_var("PATH", "/bin") };
    for driver in DRIVERS {
        modules::load(Path::new(MODULES), driver)?;
    }
    fs::create_dir_all(PORTS).map_err(resource("name the guest's ports"))?;
    let start = Instant::now();
    loop {
        name_ports().map_err(resource("name the guest's ports"))?;
        let control = Path::new(PORTS).join(CONTROL_PORT);
        if control.exists() {
            return Ok(control);
        }
        if start.elapsed() > PORT_BOUND {
            return Err(failed(
                PORTS,
                io::Error::other("the virtio port of the control channel did not appear in time"),
            ));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Links each virtio port's device by the port's name: the kernel numbers the devices, and has the names in sysfs.
fn name_ports() -> io::Result<()> {
    let ports = match fs::read_dir("/sys/class/virtio-ports") {
        Ok(ports) => ports,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for port in ports {
        let port = port?;
        let name = fs::read_to_string(port.path().join("name")).unwrap_or_default();
        let (name, device) = (name.trim(), Path::new("/dev").join(port.file_name()));
        let link = Path::new(PORTS).join(name);
        // The name appears shortly after its port, and a link is made once.
        if !name.is_empty() && device.exists() && !link.exists() {
            std::os::unix::fs::symlink(device, link)?;
        }
    }
    Ok(())
}

fn failed(place: &str, source: io::Error) -> VmError {
    VmError::Inside {
        node: "this guest".into(),
        detail: format!("{place}: {source}"),
    }
}
