//! A page in headless Chromium, controlled by the DevTools protocol over a pair of pipes.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

/// A tab of a running browser.
pub struct Tab {
    child: Child,
    requests: File,
    answers: BufReader<File>,
    attached: Option<String>,
    last: u64,
    /// Texts of the console's errors and warnings, and of exceptions.
    pub complaints: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Tab {
    /// Starts the browser with an empty tab.
    pub fn open() -> Self {
        let profile = tempfile::tempdir().unwrap();
        let (requests_end, requests) = nix::unistd::pipe().unwrap();
        let (answers, answers_end) = nix::unistd::pipe().unwrap();
        let mut command = Command::new("chromium");
        command
            .args(["--headless=new", "--no-sandbox", "--disable-gpu"])
            .args([
                "--no-first-run",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
            ])
            .arg("--remote-debugging-pipe")
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .env("HOME", profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // The browser reads requests from descriptor 3, and writes to 4.
        let ends: [OwnedFd; 2] = [high(&requests_end), high(&answers_end)];
        let numbers = ends.each_ref().map(AsRawFd::as_raw_fd);
        // SAFETY: dup2(2) may be called between fork and exec; both descriptors stay open until then.
        unsafe {
            command.pre_exec(move || {
                for (number, wanted) in numbers.into_iter().zip([3, 4]) {
                    if libc::dup2(number, wanted) < 0 {
                        return Err(std::io::Error::last_os_error());
                    }
                }
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        drop((requests_end, answers_end, ends));
        let mut tab = Self {
            child,
            requests: requests.into(),
            answers: BufReader::new(answers.into()),
            attached: None,
            last: 0,
            complaints: Vec::new(),
            _profile: profile,
        };
        let target = tab.ask("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let answer = tab.ask("Target.attachToTarget", attach);
        tab.attached = answer["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log"] {
            tab.ask(&format!("{domain}.enable"), json!({}));
        }
        tab
    }

    /// Loads a file into a window of this width in pixels; `scheme` is `light` or `dark`.
    pub fn load(&mut self, file: &Path, width: u32, scheme: &str) {
        let metrics =
            json!({"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600});
        self.ask("Emulation.setDeviceMetricsOverride", metrics);
        let scheme = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.ask("Emulation.setEmulatedMedia", scheme);
        let url = format!("file://{}", file.canonicalize().unwrap().display());
        let answer = self.ask("Page.navigate", json!({"url": url}));
        assert!(answer.get("errorText").is_none(), "{answer}");
        while self.read()["method"] != "Page.loadEventFired" {}
    }

    /// Returns the value of an expression in the page.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let answer = self.ask(
            "Runtime.evaluate",
            json!({"expression": expression, "returnByValue": true}),
        );
        assert!(
            answer.get("exceptionDetails").is_none(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].clone()
    }

    /// Presses the key Tab.
    pub fn press_tab(&mut self) {
        self.press(&json!({"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}));
    }

    /// Presses the key Enter.
    pub fn press_enter(&mut self) {
        let key =
            json!({"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"});
        self.press(&key);
    }

    fn press(&mut self, key: &Value) {
        for kind in ["keyDown", "keyUp"] {
            let mut event = key.clone();
            event["type"] = kind.into();
            self.ask("Input.dispatchKeyEvent", event);
        }
    }

    /// Writes a PNG picture of the whole page.
    pub fn picture(&mut self, file: &Path) {
        let whole = json!({"captureBeyondViewport": true, "clip": {
            "x": 0, "y": 0, "scale": 1,
            "width": self.evaluate("document.documentElement.clientWidth"),
            "height": self.evaluate("document.documentElement.scrollHeight"),
        }});
        let data = self.ask("Page.captureScreenshot", whole);
        let text = data["data"].as_str().unwrap();
        let mut decode = Command::new("base64");
        let mut child = decode
            .arg("-d")
            .stdin(Stdio::piped())
            .stdout(File::create(file).unwrap())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        assert!(child.wait().unwrap().success());
    }

    /// Calls a method of the DevTools protocol and returns its result.
    fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut request = json!({"id": self.last, "method": method, "params": parameters});
        if let Some(id) = &self.attached {
            request["sessionId"] = id.as_str().into();
        }
        let mut text = request.to_string().into_bytes();
        text.push(0);
        self.requests.write_all(&text).unwrap();
        loop {
            let message = self.read();
            if message["id"] == self.last {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    /// Reads an answer or an event of the browser, and stores complaints.
    fn read(&mut self) -> Value {
        let mut text = Vec::new();
        self.answers.read_until(0, &mut text).unwrap();
        assert_eq!(text.pop(), Some(0), "the browser ended");
        let message: Value = serde_json::from_slice(&text).unwrap();
        let told = match message["method"].as_str() {
            Some("Runtime.exceptionThrown" | "Log.entryAdded") => true,
            Some("Runtime.consoleAPICalled") => message["params"]["type"] != "log",
            _ => false,
        };
        if told {
            self.complaints.push(message["params"].to_string());
        }
        message
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _waited = self.child.wait();
    }
}

/// Returns a copy of a descriptor, with a number above those that the browser expects to be its pipes.
fn high(end: &OwnedFd) -> OwnedFd {
    use nix::fcntl::{FcntlArg, fcntl};
    use std::os::fd::FromRawFd;
    let copy = fcntl(end, FcntlArg::F_DUPFD_CLOEXEC(10)).unwrap();
    // SAFETY: the descriptor was just made, and nobody else owns it.
    unsafe { OwnedFd::from_raw_fd(copy) }
}
