//! Policies that are as long as is allowed: none takes much memory or time, whatever is in it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use uc_files::TEXT_MAX_BYTES;
use uc_policy::Policy;

/// Most memory that reading a policy may take at once, in bytes.
const MEMORY_MAX: usize = 100 << 20;
/// Most processor time that it may take.
const TIME_MAX: Duration = Duration::from_secs(2);

thread_local! {
    /// Bytes that this thread has allocated and not freed, and the most so far.
    static BYTES: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

/// Counts the memory of each thread.
struct Counting;

fn count(bytes: isize) {
    // A thread that ends has no counter any more.
    let _ends = BYTES.try_with(|cell| {
        let (now, most) = cell.get();
        cell.set((now + bytes, most.max(now + bytes)));
    });
}

// SAFETY: it passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both exist for a moment.
        count(size as isize);
        count(-(layout.size() as isize));
        // SAFETY: the caller's.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns `head` and then lines until the text is as long as a policy may be.
fn filled(head: &str, line: impl Fn(usize) -> String, tail: &str) -> String {
    let mut text = head.to_owned();
    let most = TEXT_MAX_BYTES as usize - tail.len();
    for number in 0.. {
        let line = line(number);
        if text.len() + line.len() > most {
            break;
        }
        text += &line;
    }
    text + tail
}

/// Returns a list of so many members.
fn list(members: usize, member: impl Fn(usize) -> String) -> String {
    let members: Vec<String> = (0..members)
        .map(|at| format!("\"{}\"", member(at)))
        .collect();
    format!("[{}]", members.join(","))
}

fn ipv4(at: usize) -> String {
    format!("10.{}.{}.{}", at >> 16, at >> 8 & 255, at & 255)
}

fn ipv6(at: usize) -> String {
    format!("fd00::{at:x}")
}

/// Returns the policies, each with a name.
fn policies() -> Vec<(&'static str, String)> {
    const TENANT: &str = "[[tenant]]\nname = \"a\"\nports = \"v*\"\n";
    let tenants = |member: fn(usize) -> String, each: usize| {
        move |at: usize| {
            let ports = list(each, |port| member(at * each + port));
            format!("[[tenant]]\nname = \"t{at}\"\nports = {ports}\n")
        }
    };
    let prefixes = |local: fn(usize) -> String, remote: fn(usize) -> String, each: usize| {
        let (local, remote) = (list(each, local), list(each, remote));
        format!("{TENANT}[[rule]]\nlaw = \"ecn\"\nlocal = {local}\nremote = {remote}\n")
    };
    let many = |at: usize| {
        let remote = list(8, |bit| ipv4(at * 8 + bit));
        let local = list(8, ipv4);
        format!("[[rule]]\nport=\"p{at}\"\nlocal={local}\nremote={remote}\n")
    };
    let ports = |at: usize| {
        let ports = list(24, |port| format!("*{}{at}", char::from(b'a' + port as u8)));
        format!("[[rule]]\nport={ports}\nlaw=\"ecn\"\n")
    };
    let priorities = |each: usize, value: &str| {
        let each: Vec<String> = (1..=each).map(|port| format!("{port}={value}")).collect();
        format!("{{{}}}", each.join(","))
    };
    let coupled = |each| {
        let priorities = priorities(each, "1");
        format!("{TENANT}[defaults]\nlaw=\"coupled\"\ncoupling={{priorities={priorities}}}\n")
    };
    let rule = |at: usize| format!("[[rule]]\nremote=\"{}\"\nlaw=\"coupled\"\n", ipv4(at));
    let unknown = |at: usize| format!("[[rule]]\ntenant=\"u{at}\"\nlaw=\"ecn\"\nport=\"v{at}\"\n");
    let small = |at: usize| format!("[[tenant]]\nname=\"t{at}\"\nports=\"q{at}\"\n");
    let mut tenants_and_rules: String = (0..4096).map(small).collect();
    tenants_and_rules.extend((0..4096).map(unknown));
    let cross = format!(
        "{TENANT}[[rule]]\nlaw=\"coupled\"\ncoupling={{priorities={}}}\n",
        { priorities(90_000, "''") }
    );
    vec![
        ("5,000 × 5,000 prefixes", prefixes(ipv4, ipv4, 5000)),
        ("30,000 × 30,000 prefixes", prefixes(ipv4, ipv4, 30_000)),
        ("prefixes of two families", prefixes(ipv4, ipv6, 8000)),
        (
            "names",
            filled("", tenants(|at| format!("v{at}"), 5000), ""),
        ),
        (
            "stars in front",
            filled("", tenants(|at| format!("*{at}a"), 5000), ""),
        ),
        (
            "stars behind",
            filled("", tenants(|at| format!("{at}a*"), 5000), ""),
        ),
        (
            "stars that meet",
            filled("", tenants(|at| format!("*{at}*"), 5000), ""),
        ),
        (
            "names and stars",
            filled(
                "",
                tenants(
                    |at| match at % 2 {
                        0 => format!("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa{at}b"),
                        _ => format!("*a*a*a*a*a*{at}c"),
                    },
                    1000,
                ),
                "",
            ),
        ),
        ("rules of 64 matches", filled("", many, "")),
        ("rules with patterns", filled("", ports, "")),
        ("rules of one tenant", {
            let ports = list(5000, |at| format!("*{at}"));
            let head = format!("[[tenant]]\nname = \"a\"\nports = {ports}\n");
            filled(
                &head,
                |at| format!("[[rule]]\ntenant=\"a\"\nport=\"x{at}y\"\n"),
                "",
            )
        }),
        ("rules that no flow reaches", {
            filled(
                TENANT,
                |at| format!("[[rule]]\nlaw=\"ecn\"\nremote=\"{}\"\n", ipv4(at)),
                "",
            )
        }),
        ("unknown tenants", tenants_and_rules),
        ("unknown keys", filled("", |at| format!("k{at}=1\n"), "")),
        ("unknown keys of rules", {
            filled(
                TENANT,
                |at| format!("[[rule]]\nlaw=\"ecn\"\nlwa=1\nlaww={at}\n"),
                "",
            )
        }),
        ("a long list", filled("a=[", |_| "1,".to_owned(), "]")),
        (
            "long lists",
            filled("", |at| format!("a{at}=[{}]\n", "1,".repeat(4000)), ""),
        ),
        ("wrong priorities", cross),
        ("many priorities", filled(&coupled(8000), rule, "")),
        ("some priorities", filled(&coupled(1000), rule, "")),
        ("no TOML", "=\n".repeat(TEXT_MAX_BYTES as usize / 2)),
        ("brackets", "[".repeat(TEXT_MAX_BYTES as usize)),
        (
            "a long key",
            format!("a{}=1", ".a".repeat(TEXT_MAX_BYTES as usize / 2 - 4)),
        ),
        ("lines", "\n".repeat(TEXT_MAX_BYTES as usize)),
        ("a long name", {
            format!(
                "[[tenant]]\nname = \"{}\"\nports = \"v\"",
                "n".repeat(1_000_000)
            )
        }),
    ]
}

#[test]
fn no_policy_takes_much_memory_or_time() {
    let mut over = Vec::new();
    for (name, text) in policies() {
        assert!(
            text.len() as u64 <= TEXT_MAX_BYTES,
            "{name}: {}",
            text.len()
        );
        let processor = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
        let (before, began) = (BYTES.get().0, processor());
        BYTES.set((before, before));
        let read = Policy::parse("t.toml", &text);
        let took = Duration::from(processor() - began);
        let bytes = (BYTES.get().1 - before) as usize;
        let said = match &read {
            Ok(_) => "valid".to_owned(),
            Err(error) => error.to_string().chars().take(150).collect(),
        };
        println!("{name}: {} MB, {took:?}: {said}", bytes >> 20);
        if bytes > MEMORY_MAX || took > TIME_MAX {
            over.push(name);
        }
    }
    assert!(over.is_empty(), "{over:?}");
}

#[test]
fn long_lists_are_refused_with_their_number() {
    let refused = |text: &str| Policy::parse("t.toml", text).unwrap_err().to_string();
    let list = list(8193, ipv4);
    let text = format!("[[tenant]]\nname = \"a\"\nports = \"v\"\n[[rule]]\nremote = {list}\n");
    let told = refused(&text);
    assert!(
        told.starts_with("t.toml:5:10: remote: 8193 members; a list has at most 8192"),
        "{told}"
    );
    let small = |at: usize| format!("[[tenant]]\nname=\"t{at}\"\nports=\"v{at}\"\n");
    let tenants = |count| (0..count).map(small).collect::<String>();
    assert!(Policy::parse("t.toml", &tenants(4096)).is_ok());
    assert!(refused(&tenants(4097)).contains("4097 of [[tenant]]; a policy has at most 4096"));
    let unknown = |members| {
        let list = |at: usize| format!("a{at}=[{}]\n", "1,".repeat(members));
        refused(&(0..16).map(list).collect::<String>())
    };
    assert!(unknown(8192).contains("131088 keys and members of lists"));
    assert!(!unknown(8191).contains("keys and members of lists"));
    let ports = |from: usize| list_of_names(from, 8000);
    let tenant = |at: usize| format!("[[tenant]]\nname=\"t{at}\"\nports={}\n", ports(at * 8000));
    let told = refused(&(0..17).map(tenant).collect::<String>());
    assert!(told.contains("a policy has at most 131072"), "{told}");
}

fn list_of_names(from: usize, members: usize) -> String {
    list(members, |at| format!("v{}", from + at))
}

#[test]
fn a_policy_that_takes_too_long_to_check_is_refused_with_the_remedy() {
    let rule = |at: usize| {
        let ports = list(24, |port| format!("*{}{at}", char::from(b'a' + port as u8)));
        format!("[[rule]]\nport={ports}\nlaw=\"ecn\"\n")
    };
    let patterns: String = (0..1500).map(rule).collect();
    let priorities: Vec<String> = (1..=1000).map(|port| format!("{port}=1")).collect();
    let coupled = |at: usize| format!("[[rule]]\nport=\"v\"\nremote=\"{}\"\n", ipv4(at));
    let couplings = format!(
        "[defaults]\nlaw=\"coupled\"\ncoupling={{priorities={{{}}}}}\n{}",
        priorities.join(","),
        (0..600).map(coupled).collect::<String>()
    );
    for text in [patterns, couplings] {
        let told = Policy::parse("t.toml", &text).unwrap_err().to_string();
        assert!(
            told.contains("takes too long to check") && told.contains("use wider patterns"),
            "{told}"
        );
    }
}
