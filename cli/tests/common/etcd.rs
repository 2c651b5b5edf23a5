//! A real etcd on the loopback interface of a network namespace.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use uc_lab::netns::Namespace;

use super::bench::wait_until;

/// Usual address of the server, in its namespace.
pub const ENDPOINT: &str = "http://127.0.0.1:2379";
/// Address of a server that no agent's policy names, in its namespace.
const ASIDE: &str = "http://127.0.0.1:2377";
/// Address of a server that was started with certificates, in its namespace.
pub const ENDPOINT_TLS: &str = "https://127.0.0.1:2378";
/// Key of the policy.
pub const KEY: &str = "/undercurrent/policy";

/// An etcd server with a single member.
pub struct Etcd {
    namespace: Namespace,
    folder: PathBuf,
    endpoint: &'static str,
    child: Child,
}

impl Etcd {
    /// Starts a server in this namespace, whose loopback is up, with its data in this folder.
    pub fn start(namespace: &Namespace, folder: &Path) -> Self {
        Self::start_with(namespace, folder, ENDPOINT, &[])
    }

    /// Starts a server on an address that no agent's policy names.
    pub fn start_aside(namespace: &Namespace, folder: &Path) -> Self {
        Self::start_with(namespace, folder, ASIDE, &[])
    }

    /// Starts a server that also serves TLS to clients with a certificate of the authority `ca`.
    pub fn start_tls(namespace: &Namespace, folder: &Path, server: &Signed, ca: &Path) -> Self {
        let [certificate, key, ca] =
            [&server.certificate, &server.key, ca].map(|path| path.to_str().unwrap().to_owned());
        let both = format!("{ENDPOINT},{ENDPOINT_TLS}");
        let arguments = [
            ["--listen-client-urls", &both],
            ["--advertise-client-urls", &both],
            ["--cert-file", &certificate],
            ["--key-file", &key],
            ["--trusted-ca-file", &ca],
        ];
        let mut arguments = arguments.concat();
        arguments.push("--client-cert-auth");
        Self::start_with(namespace, folder, ENDPOINT, &arguments)
    }

    fn start_with(
        namespace: &Namespace,
        folder: &Path,
        endpoint: &'static str,
        more: &[&str],
    ) -> Self {
        let log = folder.with_extension("log");
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(log)
            .unwrap();
        let mut command = namespace.command("etcd");
        command
            .args(["--name", "test", "--data-dir"])
            .arg(folder)
            .args(["--listen-client-urls", endpoint])
            .args(["--advertise-client-urls", endpoint])
            .args(["--listen-peer-urls", "http://127.0.0.1:2380"])
            .args(["--initial-advertise-peer-urls", "http://127.0.0.1:2380"])
            .args(["--initial-cluster", "test=http://127.0.0.1:2380"])
            // The disk of a test machine may be slow.
            .args(["--heartbeat-interval", "500", "--election-timeout", "5000"])
            // If an option is given twice the last counts.
            .args(more)
            .env("ETCD_UNSUPPORTED_ARCH", std::env::consts::ARCH);
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let etcd = Self {
            namespace: namespace.clone(),
            folder: folder.to_owned(),
            endpoint,
            child,
        };
        wait_until("etcd answers", || {
            etcd.ask("range", "{\"key\":\"AA==\"}").is_some()
        });
        etcd
    }

    /// Writes the policy's value; returns the revision.
    pub fn put(&self, value: &str) -> i64 {
        self.put_at(KEY, value)
    }

    /// Writes a canary's verdicts on policies, as the canary itself would.
    pub fn put_verdicts(&self, host: &str, verdicts: &str) {
        self.put_at(&format!("{KEY}/canary/{host}"), verdicts);
    }

    /// Returns whether a canary has stored verdicts.
    pub fn has_verdicts(&self, host: &str) -> bool {
        let key = base64(&format!("{KEY}/canary/{host}"));
        let answer = self.ask("range", &format!("{{\"key\":\"{key}\"}}"));
        answer.unwrap().get("kvs").is_some()
    }

    fn put_at(&self, key: &str, value: &str) -> i64 {
        let (key, value) = (base64(key), base64(value));
        let body = format!("{{\"key\":\"{key}\",\"value\":\"{value}\"}}");
        revision(&self.ask("put", &body).unwrap())
    }

    /// Removes the value; returns the revision.
    pub fn delete(&self) -> i64 {
        let body = format!("{{\"key\":\"{}\"}}", base64(KEY));
        revision(&self.ask("deleterange", &body).unwrap())
    }

    /// Compacts everything older than this revision.
    pub fn compact(&self, revision: i64) {
        let body = format!("{{\"revision\":\"{revision}\",\"physical\":true}}");
        self.ask("compaction", &body).unwrap();
    }

    /// Kills the server; its data stay.
    pub fn kill(mut self) -> (Namespace, PathBuf) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        (self.namespace.clone(), self.folder.clone())
    }

    /// Sends one request to etcd's HTTP gateway. Written by hand, so that it shares no code with
    /// the client under test.
    fn ask(&self, method: &str, body: &str) -> Option<serde_json::Value> {
        use std::io::{Read, Write};
        let address = self.endpoint.trim_start_matches("http://");
        let exchange = || {
            let mut stream = std::net::TcpStream::connect(address).ok()?;
            let request = format!(
                "POST /v3/kv/{method} HTTP/1.0\r\nHost: etcd\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(request.as_bytes()).ok()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).ok()?;
            let (head, body) = answer.split_once("\r\n\r\n")?;
            head.contains(" 200 ")
                .then(|| serde_json::from_str(body).ok())?
        };
        self.namespace.enter(exchange).unwrap()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // Killed already, unless a test has failed.
        let _ended_already = self.child.kill();
        let _ended_already = self.child.wait();
    }
}

fn revision(answer: &serde_json::Value) -> i64 {
    answer["header"]["revision"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

/// A certificate and its key, in files.
pub struct Signed {
    /// Path of the certificate, in PEM.
    pub certificate: PathBuf,
    /// Path of the private key, in PEM.
    pub key: PathBuf,
}

/// An authority of this name with a self-signed certificate.
pub fn authority(folder: &Path, name: &str) -> Signed {
    let made = signed(folder, name);
    openssl(&format!(
        "req -x509 -days 2 -subj /CN={name} -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 \
         -nodes -out {} -keyout {}",
        made.certificate.display(),
        made.key.display()
    ));
    made
}

/// Returns a certificate for this machine, signed by the authority.
pub fn sign(folder: &Path, name: &str, authority: &Signed) -> Signed {
    let made = signed(folder, name);
    let (certificate, key) = (made.certificate.display(), made.key.display());
    let (ca, ca_key) = (authority.certificate.display(), authority.key.display());
    openssl(&format!(
        "req -x509 -days 2 -subj /CN={name} -addext subjectAltName=IP:127.0.0.1 -addext \
         basicConstraints=critical,CA:FALSE -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 \
         -nodes -CA {ca} -CAkey {ca_key} -out {certificate} -keyout {key}"
    ));
    made
}

fn signed(folder: &Path, name: &str) -> Signed {
    Signed {
        certificate: folder.join(format!("{name}.pem")),
        key: folder.join(format!("{name}.key")),
    }
}

fn openssl(arguments: &str) {
    let mut command = std::process::Command::new("openssl");
    let done = command.args(arguments.split_whitespace()).output().unwrap();
    assert!(done.status.success(), "openssl {arguments}: {done:?}");
}

/// Encodes in base64 (RFC 4648 §4).
fn base64(text: &str) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let mut bytes = [0; 3];
        bytes[..chunk.len()].copy_from_slice(chunk);
        let word = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]);
        for digit in 0..4 {
            let index = (word >> (18 - 6 * digit)) & 63;
            let given = digit <= chunk.len();
            out.push(if given {
                char::from(DIGITS[index as usize])
            } else {
                '='
            });
        }
    }
    out
}

#[test]
fn base64_encodes_the_examples_of_rfc_4648() {
    for (text, code) in [
        ("", ""),
        ("f", "Zg=="),
        ("fo", "Zm8="),
        ("foobar", "Zm9vYmFy"),
    ] {
        assert_eq!(base64(text), code);
    }
}
