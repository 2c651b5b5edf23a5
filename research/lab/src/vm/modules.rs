//! Kernel modules by name, with their dependencies: what modprobe does, without its index files. A
//! module's section .modinfo holds strings `key=value`, each closed by a zero; `depends` lists the
//! names that must be loaded before it. A name without a file is built into the kernel.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::vm::error::VmError;

/// Maximum depth of dependencies; a deeper chain is a cycle.
const DEPTH_MAX: usize = 16;

/// Loads module `name` of `folder` into the running kernel, after its dependencies. Does nothing if
/// it is loaded or built in.
///
/// # Errors
/// The module that the kernel refused.
pub fn load(folder: &Path, name: &str) -> Result<(), VmError> {
    let mut order = Vec::new();
    collect(folder, name, 0, &mut order)?;
    for name in &order {
        insert(&file_of(folder, name), name)?;
    }
    Ok(())
}

/// Collects `name` and its dependencies, each after its own dependencies.
fn collect(
    folder: &Path,
    name: &str,
    depth: usize,
    order: &mut Vec<String>,
) -> Result<(), VmError> {
    let name = name.replace('-', "_");
    if order.contains(&name) {
        return Ok(());
    }
    let failed = |source: io::Error| {
        VmError::Refused(format!(
            "the guest's module {name}: {source}; fetch the kernel again with scripts/vm-kernels"
        ))
    };
    if depth > DEPTH_MAX {
        return Err(failed(io::Error::other(format!(
            "the chain of modules that it depends on is longer than {DEPTH_MAX}, probably a circle"
        ))));
    }
    let bytes = match fs::read(file_of(folder, &name)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(failed(source)),
    };
    for dependency in depends(&bytes) {
        collect(folder, &dependency, depth + 1, order)?;
    }
    order.push(name);
    Ok(())
}

/// Returns the module's file, whose name may have dashes where the module's has underscores.
fn file_of(folder: &Path, name: &str) -> PathBuf {
    let plain = folder.join(format!("{name}.ko"));
    if plain.exists() {
        return plain;
    }
    let dashed = folder.join(format!("{}.ko", name.replace('_', "-")));
    if dashed.exists() { dashed } else { plain }
}

/// Returns the names in the module's `depends=`.
fn depends(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else {
        return Vec::new();
    };
    let value = module[at + KEY.len()..].split(|byte| *byte == 0).next();
    let value = String::from_utf8_lossy(value.unwrap_or_default());
    let names = value.split(',').filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

fn insert(path: &Path, name: &str) -> Result<(), VmError> {
    let failed = |source: io::Error| {
        VmError::Refused(format!(
            "the guest's module {name}: {source}; fetch the kernel again with scripts/vm-kernels"
        ))
    };
    let file = File::open(path).map_err(failed)?;
    match nix::kmod::finit_module(&file, c"", nix::kmod::ModuleInitFlags::empty()) {
        Ok(()) | Err(nix::Error::EEXIST) => Ok(()),
        Err(errno) => Err(failed(errno.into())),
    }
}

/// Loads the module in a file, whatever its name, with parameters `name=value` separated by spaces.
///
/// # Errors
/// The kernel's error; the kernel log has more.
pub fn insert_with(path: &Path, parameters: &str) -> Result<(), VmError> {
    let failed = |source: io::Error| {
        VmError::Refused(format!(
            "{} cannot be loaded: {source}; see the guest's kernel log",
            path.display()
        ))
    };
    let file = File::open(path).map_err(failed)?;
    let parameters = CString::new(parameters).map_err(|error| failed(error.into()))?;
    nix::kmod::finit_module(&file, &parameters, nix::kmod::ModuleInitFlags::empty())
        .map_err(|errno| failed(errno.into()))
}

/// Unloads an unused module.
pub fn remove(name: &str) -> Result<(), VmError> {
    let failed = |source: io::Error| {
        VmError::Refused(format!(
            "{name} cannot be unloaded: {source}; see the guest's kernel log"
        ))
    };
    let text = CString::new(name).map_err(|error| failed(error.into()))?;
    nix::kmod::delete_module(&text, nix::kmod::DeleteModuleFlags::O_NONBLOCK)
        .map_err(|errno| failed(errno.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_come_first_and_once_and_built_in_modules_not_at_all() {
        let folder = std::env::temp_dir().join(format!("uc-modules-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let module = |file: &str, depends: &str| {
            let text = format!("\x7fELF\0license=GPL\0depends={depends}\0name=x\0");
            fs::write(folder.join(file), text).unwrap();
        };
        module("virtio_net.ko", "net_failover,virtio_ring,builtin");
        module("net-failover.ko", "failover");
        module("failover.ko", "");
        module("virtio_ring.ko", "");
        let mut order = Vec::new();
        collect(&folder, "virtio-net", 0, &mut order).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(
            order,
            ["failover", "net_failover", "virtio_ring", "virtio_net"]
        );
    }

    #[test]
    fn a_file_without_a_modinfo_depends_on_nothing() {
        assert!(depends(b"no module at all").is_empty());
        assert!(depends(b"\0depends=").is_empty());
    }
}
