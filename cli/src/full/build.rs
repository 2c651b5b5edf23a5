//! `uc law build`: compiles laws, and prints what became of them.

use anyhow::Result;
use uc_core::LawRow;
use uc_port::outside::{Compiled, LawError, compile};
use uc_port::{PortError, Programs};

use crate::law::Build;

/// Compiles the laws of a folder. Returns false if clang or this kernel refuses them.
pub fn law(arguments: Build) -> Result<bool> {
    let out = arguments.out.as_ref().unwrap_or(&arguments.folder);
    match compile(&arguments.folder, out) {
        Ok(compiled) => judge(compiled),
        // The compiler's words are an answer, on as many lines as they have.
        Err(error @ LawError::Refused { .. }) => {
            errln!("{}", error.to_string().trim_end());
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// Has the kernel check the programs where this process may, and keeps them unless it refuses.
fn judge(compiled: Compiled) -> Result<bool> {
    let kernel = match Programs::load_object(&compiled.object, 1, 1) {
        Ok(_) => "this kernel accepts its programs",
        Err(PortError::NotPermitted { .. }) => "not loaded: that needs root",
        Err(PortError::Refused {
            program,
            said,
            place,
            ..
        }) => {
            let place = if place.is_empty() {
                ""
            } else {
                &format!(" at `{place}`")
            };
            errln!(
                "this kernel's verifier rejects program '{program}'{place} ({said}); nothing is written"
            );
            return Ok(false);
        }
        Err(error) => return Err(error.into()),
    };
    let built = compiled.keep()?;
    built.object.laws().iter().for_each(say_law);
    let bytes = built.object.bytes().len();
    outln!("{}: {bytes} bytes; {kernel}", built.object_path.display());
    let (path, bytes) = (built.library_path.display(), built.library_bytes);
    outln!("{path}: {bytes} bytes");
    Ok(true)
}

fn say_law(law: &LawRow) {
    let traits = match law.trait_names() {
        none if none.is_empty() => "no traits".to_owned(),
        names => names.join(" | "),
    };
    outln!("law {}, number {}: {}", law.name, law.number, law.what);
    outln!("  machine {}, cut {}, {traits}", law.machine, law.cut);
}
