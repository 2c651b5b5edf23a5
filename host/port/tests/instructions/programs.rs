//! Instructions of the programs that the kernel loaded: as it keeps them, as bytes of the processor's
//! own code, and as many as its verifier followed on all paths.

use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use libbpf_rs::{MapType, ObjectBuilder, Program};
use uc_live::folder;

use super::record::{Counts, Figures, compiler};

pub const SECTION: &str = "programs";

/// Sources of programs, with the macro that a build script would define.
const SOURCES: [(&str, &[&str]); 3] = [
    ("bpf/port/port.bpf.c", &["-DUC_LAYOUT=1ULL"]),
    ("bpf/port/enter.bpf.c", &[]),
    ("bpf/watch/watch.bpf.c", &[]),
];

/// Returns whether programs may be loaded.
pub fn need() -> Result<(), &'static str> {
    match nix::unistd::geteuid().is_root() {
        true => Ok(()),
        false => Err("loading BPF programs needs root"),
    }
}

/// Counts in a build of the sources in `tree`.
pub fn count(folder: &Path, tree: &Path) -> Counts {
    let mut figures = Figures::new();
    for (number, (source, more)) in SOURCES.into_iter().enumerate() {
        let object = folder.join(format!("{number}.o"));
        uc_clang::bpf(tree, Path::new(source), &object, more).unwrap();
        load(&object, &mut figures);
    }
    Counts {
        section: SECTION,
        made_by: format!("{}, Linux {}", compiler(), release()),
        figures,
    }
}

/// Loads all programs of an object, with small maps.
fn load(object: &Path, figures: &mut Figures) {
    let mut open = ObjectBuilder::default().open_file(object).unwrap();
    for mut map in open.maps_mut() {
        if map.map_type() == MapType::LruHash {
            map.set_max_entries(1024).unwrap();
        }
    }
    let loaded = open.load().unwrap();
    for program in loaded.progs() {
        let name = program.name().to_string_lossy().into_owned();
        for (figure, count) in sizes(&program) {
            figures.insert(format!("{name} {figure}"), f64::from(count));
        }
    }
}

fn sizes(program: &Program<'_>) -> [(&'static str, u32); 3] {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut bytes = size_of_val(&info) as u32;
    // SAFETY: the kernel writes at most as many bytes as `info` has.
    let code = unsafe {
        libbpf_sys::bpf_prog_get_info_by_fd(program.as_fd().as_raw_fd(), &mut info, &mut bytes)
    };
    assert_eq!(code, 0, "{}", std::io::Error::last_os_error());
    [
        ("instructions", info.xlated_prog_len / 8),
        ("machine code bytes", info.jited_prog_len),
        ("instructions verified", info.verified_insns),
    ]
}

/// Copies the sources into `tree`, and adds this part of a program's figure of this name to each
/// program, as instructions that load a constant.
pub fn plant(tree: &Path, figures: &Figures, figure: &str, part: f64) {
    for folder in ["core", "bpf"] {
        folder::copy(&super::root().join(folder), &tree.join(folder));
    }
    for (source, _) in SOURCES {
        let path = tree.join(source);
        let mut text = std::fs::read_to_string(&path).unwrap();
        for (name, count) in figures {
            let Some(program) = name.strip_suffix(figure) else {
                continue;
            };
            let head = format!("int {}(struct __sk_buff *skb)\n{{\n", program.trim_end());
            let more = (count * part).ceil();
            let planted = format!(
                "\tasm volatile(\".rept {more}\\n\\tr0 = 0x7fffffff\\n\\t.endr\" ::: \"r0\");\n"
            );
            text = text.replace(&head, &(head.clone() + &planted));
        }
        std::fs::write(&path, text).unwrap();
    }
}

/// Returns the kernel's version without the number of its update.
fn release() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    release.split('.').take(2).collect::<Vec<_>>().join(".")
}
