//! A real web server in each guest that serves pages: one nginx process each, with a folder of its
//! own. It ends with the run, however the run ends.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::prctl;
use nix::sys::signal::Signal;

use crate::error::LabError;
use crate::need;
use crate::netns::Namespace;
use crate::pages::Pages;
use crate::plan::{Guest, Plan};
use crate::wiring::Wiring;

/// Port of the web servers.
pub(crate) const HTTP_PORT: u16 = 80;
/// Path of the page.
pub(crate) const PAGE: &str = "/page";
/// Time limit for nginx to start listening; it takes some milliseconds.
const READY_DEADLINE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(10);
/// The kernel's congestion controls that any namespace may have as its default, which nginx uses. A control that the
/// run itself loaded may be a default, too.
const UNRESTRICTED: [&str; 2] = ["reno", "cubic"];

/// One running web server. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended_already = self.process.kill();
        let _ended_already = self.process.wait();
    }
}

/// Returns the content of the page: every byte depends on its position.
pub(crate) fn page(pages: &Pages) -> Vec<u8> {
    (0..pages.bytes).map(|at| (at % 251) as u8).collect()
}

/// Starts a server in every guest that has pages.
///
/// # Errors
/// [`LabError::Need`] without nginx, [`LabError::Refused`] when nginx can't use the guest's congestion control,
/// [`LabError::Resource`] when a server does not start.
pub(crate) fn start_all(plan: &Plan, wiring: &Wiring) -> Result<Vec<Server>, LabError> {
    let guests = plan.guests.iter().zip(&wiring.guests);
    let with_pages = guests.filter_map(|(guest, namespace)| Some((guest, namespace, guest.pages?)));
    with_pages
        .map(|(guest, namespace, pages)| {
            start(guest, namespace, wiring.congestion.of_guest(guest), &pages)
        })
        .collect()
}

/// Starts the web server of a guest. `control`: the kernel's name of the guest's congestion control.
fn start(
    guest: &Guest,
    namespace: &Namespace,
    control: &str,
    pages: &Pages,
) -> Result<Server, LabError> {
    let program = need::program("nginx")?;
    let brought = control != guest.stack.congestion_control;
    if !brought && !UNRESTRICTED.contains(&control) {
        return Err(LabError::Refused(format!(
            "{}: nginx uses the default congestion control of its network namespace, and this \
             kernel does not \
             allow {control} as one; give the server reno or cubic, or use a kernel without {control}",
            guest.label
        )));
    }
    namespace.set_sysctls(&[("net.ipv4.tcp_congestion_control", control.into())])?;
    let resource = |source| LabError::Resource {
        action: "start nginx",
        source,
    };
    let folder = tempfile::tempdir().map_err(resource)?;
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes);
    let address = SocketAddr::new(guest.address, HTTP_PORT);
    write("nginx.conf", configuration(address).as_bytes()).map_err(resource)?;
    write(&PAGE[1..], &page(pages)).map_err(resource)?;
    let mut command: Command = namespace.command(program);
    command
        .arg("-p")
        .arg(folder.path())
        .args(["-c", "nginx.conf", "-e", "stderr"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
    unsafe {
        command.pre_exec(|| prctl::set_pdeathsig(Signal::SIGKILL).map_err(io::Error::from));
    }
    let process = command.spawn().map_err(resource)?;
    let mut server = Server {
        process,
        _folder: folder,
    };
    wait_until_ready(&mut server, namespace, address)?;
    Ok(server)
}

/// Formats nginx's configuration: one process that neither forks nor logs.
fn configuration(address: SocketAddr) -> String {
    let listen = match address.ip() {
        IpAddr::V4(ip) => format!("{ip}:{}", address.port()),
        IpAddr::V6(ip) => format!("[{ip}]:{}", address.port()),
    };
    format!(
        "daemon off;\nmaster_process off;\npid nginx.pid;\n\
         events {{ worker_connections 4096; }}\n\
         http {{\n  access_log off;\n  tcp_nodelay on;\n  sendfile on;\n\
         \x20 client_body_temp_path body;\n  proxy_temp_path proxy;\n  fastcgi_temp_path fastcgi;\n\
         \x20 uwsgi_temp_path uwsgi;\n  scgi_temp_path scgi;\n\
         \x20 server {{ listen {listen} backlog=4096; root .; }}\n}}\n"
    )
}

/// Connects from inside the server's namespace until the server accepts, so that nothing crosses the network.
fn wait_until_ready(
    server: &mut Server,
    namespace: &Namespace,
    address: SocketAddr,
) -> Result<(), LabError> {
    let began = Instant::now();
    loop {
        let connected = namespace.enter(|| TcpStream::connect(address).map(drop))?;
        let Err(source) = connected else {
            return Ok(());
        };
        let ended = matches!(server.process.try_wait(), Ok(Some(_)));
        if ended || began.elapsed() > READY_DEADLINE {
            return Err(LabError::Resource {
                action: "start nginx",
                source,
            });
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listen_address_is_valid_in_both_families() {
        for (address, expected) in [
            ("10.77.0.1:80", "listen 10.77.0.1:80 "),
            ("[fd77::1]:80", "listen [fd77::1]:80 "),
        ] {
            let text = configuration(address.parse().unwrap());
            assert!(text.contains(expected), "{text}");
            assert_eq!(text.matches('{').count(), text.matches('}').count());
        }
    }
}
