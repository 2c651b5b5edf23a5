//! The programs that change the host's packet filter and routes: nft(8) and ip(8).

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::error::SplitError;

/// Finds a program on PATH, in /usr/sbin or in /sbin, which users' PATH lacks on Debian.
pub fn find(program: &'static str, package: &'static str) -> Result<PathBuf, SplitError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| {
            SplitError::Refused(format!(
                "`{program}` is not on PATH, /usr/sbin or /sbin: install the package {package}"
            ))
        })
}

/// Runs ip(8). The inner result is its output, or the first line of its error message if its status is not 0. The
/// outer error: it can't be run.
pub fn ip(arguments: &[&str]) -> Result<Result<String, String>, SplitError> {
    run(&find("ip", "iproute2")?, arguments, "")
}

/// Runs nft(8) with this text on its standard input: all of it takes effect, or nothing. The result is as that of
/// [`ip`].
pub fn nft(text: &str) -> Result<Result<String, String>, SplitError> {
    run(&find("nft", "nftables")?, &["-f", "-"], text)
}

/// Has nft(8) and the kernel check the text, without changing anything. The result is as that of [`ip`].
pub fn nft_check(text: &str) -> Result<Result<String, String>, SplitError> {
    run(&find("nft", "nftables")?, &["--check", "-f", "-"], text)
}

fn run(path: &Path, arguments: &[&str], input: &str) -> Result<Result<String, String>, SplitError> {
    let output = output(path, arguments, input)
        .map_err(|error| SplitError::failed(&path.display().to_string(), &error.to_string()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    Ok(match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(one_line(&text(&output.stderr))),
    })
}

fn output(path: &Path, arguments: &[&str], input: &str) -> std::io::Result<Output> {
    let mut child = Command::new(path)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends without reading says why itself.
        let _unread = stdin.write_all(input.as_bytes());
    }
    child.wait_with_output()
}

/// Returns the first line of an error message, without nft's pointer into its input.
fn one_line(text: &str) -> String {
    let first = text.lines().next().unwrap_or("it gives no reason");
    let after = first
        .split_once("Error: ")
        .map_or(first, |(_, after)| after);
    after.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_one_line_without_the_place_in_the_input() {
        let nft = "/dev/stdin:9:3-24: Error: Could not process rule: No such file or directory\n  tproxy\n  ^^";
        assert_eq!(
            one_line(nft),
            "Could not process rule: No such file or directory"
        );
        assert_eq!(one_line(""), "it gives no reason");
    }

    #[test]
    fn a_missing_program_is_refused_with_its_package() {
        let error = find("uc-no-such-program", "nothing")
            .unwrap_err()
            .to_string();
        assert!(error.contains("install the package nothing"), "{error}");
    }

    #[test]
    fn a_program_gets_its_input_and_its_failure_is_its_complaint() {
        let said = |script: &str| run(Path::new("/bin/sh"), &["-c", script], "text").unwrap();
        assert_eq!(said("cat"), Ok("text".into()));
        assert_eq!(said("echo no >&2; exit 3"), Err("no".into()));
    }
}
