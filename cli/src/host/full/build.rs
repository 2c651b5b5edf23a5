//! `uc law build`: compiles laws, and prints what became of them.

use anyhow::Result;
use uc_core::LawRow;
use uc_outside::{Built, LawError};
use uc_port::{PortError, Programs};

use crate::host::law::Build;

/// Compiles the laws of a folder. Returns false if clang or this kernel refuses them.
///
/// # Errors
/// Whatever prevents an answer.
pub fn law(arguments: Build) -> Result<bool> {
    let out = arguments.out.as_ref().unwrap_or(&arguments.folder);
    match uc_outside::build(&arguments.folder, out) {
        Ok(built) => say(&built),
        // The compiler's words are an answer, on as many lines as they have.
        Err(error @ LawError::Refused { .. }) => {
            errln!("{}", error.to_string().trim_end());
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

fn say(built: &Built) -> Result<bool> {
    built.object.laws().iter().for_each(say_law);
    let (accepted, kernel) = match Programs::load_object(&built.object, 1, 1) {
        Ok(_) => (true, "this kernel accepts its programs".to_owned()),
        Err(PortError::NotPermitted { .. }) => (true, "not loaded: that needs root".to_owned()),
        Err(PortError::Refused { program, said, .. }) => (
            false,
            format!("this kernel's verifier rejects program '{program}' ({said})"),
        ),
        Err(error) => return Err(error.into()),
    };
    let bytes = built.object.bytes().len();
    outln!("{}: {bytes} bytes; {kernel}", built.object_path.display());
    let (path, bytes) = (built.library_path.display(), built.library_bytes);
    outln!("{path}: {bytes} bytes");
    Ok(accepted)
}

fn say_law(law: &LawRow) {
    let traits = match law.trait_names() {
        none if none.is_empty() => "no traits".to_owned(),
        names => names.join(" | "),
    };
    outln!("law {}, number {}: {}", law.name, law.number, law.what);
    outln!("  machine {}, cut {}, {traits}", law.machine, law.cut);
}
