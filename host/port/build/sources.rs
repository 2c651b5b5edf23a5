//! Puts the C sources of the port programs and of the native core into the program, which compiles laws with them.

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Folders with the sources, of the repository's root.
const FOLDERS: [&str; 4] = ["bpf", "bpf/port", "core", "base/core/src"];

/// Writes the list of the sources below `root`, with their texts.
pub fn write(root: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        println!("cargo:rerun-if-changed={}", root.join(folder).display());
        find(&root.join(folder), folder == "core", &mut files)?;
    }
    files.sort();
    let mut list = String::from("const SOURCES: &[(&str, &str)] = &[\n");
    for file in &files {
        let name = file.strip_prefix(root)?;
        writeln!(list, "    ({name:?}, include_str!({file:?})),")?;
    }
    list += "];\n";
    std::fs::write(out.join("sources.rs"), list)?;
    Ok(())
}

/// Finds the headers and sources of a folder, with those of the folders in it if `deep`.
fn find(folder: &Path, deep: bool, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        if path.is_dir() && deep {
            find(&path, deep, files)?;
        } else if matches!(ending, Some("h" | "c")) {
            files.push(path);
        }
    }
    Ok(())
}
