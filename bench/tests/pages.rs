//! The pages of `uc-bench run` and `uc-bench compare` in a browser: they load without a complaint, fit a phone,
//! follow the dark scheme, and all that scrolls or opens is reached by keys.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use uc_live::command::{folder_with, outcome};
use uc_live::have;

use crate::common::browser::Tab;
use crate::common::{TINY, UC_BENCH};

/// Widths of a phone and of a desktop, in CSS pixels.
const WIDTHS: [u32; 2] = [360, 1280];

/// Number of elements that are shown and whose content is wider than they are.
const SCROLLED: &str = "[...document.querySelectorAll('*')].filter(e => \
    e.scrollWidth > e.clientWidth + 1 && e.checkVisibility() && \
    getComputedStyle(e).overflowX == 'auto').length";
/// The label or the tag of the focused element.
const FOCUSED: &str =
    "document.activeElement.getAttribute('aria-label') || document.activeElement.tagName";
/// The descriptions of the signs for events of a law.
const SIGNS: &str = "[...document.querySelectorAll('figure g.event')].map(e => \
    e.querySelector('title').textContent)";
/// The kinds of signs in the drawings, and in the legend.
const KINDS: [&str; 2] = [
    "[...new Set([...document.querySelectorAll('figure g.event')].map(e => e.classList[1]))].sort()",
    "[...document.querySelectorAll('.legend g.event')].map(e => e.classList[1]).sort()",
];
/// Rows of the table of events, as they are shown.
const ROWS: &str = "[...document.querySelectorAll('details tbody tr')] \
    .filter(e => e.checkVisibility()).length";
/// The least contrast of any text with the background behind it (WCAG 2.2, 1.4.3).
const CONTRAST: &str = r#"(() => {
    const parts = text => (text.match(/[\d.]+/g) || []).map(Number);
    const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
        .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const ground = e => {
        for (; e; e = e.parentElement) {
            const colour = parts(getComputedStyle(e).backgroundColor);
            if (colour.length == 3 || colour[3] == 1) return colour;
        }
        return [255, 255, 255];
    };
    let least = 21;
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
        const e = walk.currentNode.parentElement;
        if (!walk.currentNode.data.trim()) continue;
        const style = getComputedStyle(e);
        const ink = e.closest('svg') && !e.closest('title') ? style.fill : style.color;
        const [a, b] = [light(parts(ink)), light(ground(e))].sort((a, b) => b - a);
        least = Math.min(least, (a + 0.05) / (b + 0.05));
    }
    return least;
})()"#;

/// Runs a comparison in the folder, and returns the pages.
fn pages(folder: &Path) -> [PathBuf; 2] {
    let uc = |arguments: &[&str]| {
        let mut command = Command::new(UC_BENCH);
        command.args(arguments).current_dir(folder);
        outcome(command)
    };
    let run = ["run", "t.toml", "--on", "sim", "--repeat", "6"];
    let law = "case.only.guests.virtual.law=dctcp";
    for (name, more) in [("ecn", &[][..]), ("dctcp", &["--set", law])] {
        let done = uc(&[&run[..], &["--out", name], more].concat());
        assert!(matches!(done.status, Some(0 | 1)), "{done:?}");
    }
    let done = uc(&["compare", "ecn", "dctcp", "--out", "both"]);
    assert_eq!(done.status, Some(1), "{done:?}");
    [
        folder.join("both/compare.html"),
        folder.join("ecn/report.html"),
    ]
}

#[test]
fn live_pages_load_fit_a_phone_follow_the_dark_scheme_and_are_reached_by_keys() {
    if !have(&["chromium"]) {
        return;
    }
    let several = TINY.replace("count = 1\n", "count = 2\nstart_spread = \"300ms\"\n");
    let folder = folder_with(&several);
    let pages = pages(folder.path());
    let pictures = std::env::var_os("UC_PICTURES").map(PathBuf::from);
    let mut tab = Tab::open();
    for page in &pages {
        let file = page.file_stem().unwrap().display();
        let mut grounds = Vec::new();
        for (width, scheme) in [
            (WIDTHS[0], "light"),
            (WIDTHS[0], "dark"),
            (WIDTHS[1], "light"),
            (WIDTHS[1], "dark"),
        ] {
            let told = format!("{file}, {width} wide, {scheme}");
            tab.load(page, width, scheme);
            assert_eq!(tab.complaints, Vec::<String>::new(), "{told}");
            let wide = tab.evaluate("document.documentElement.scrollWidth");
            assert!(
                wide.as_u64().is_some_and(|wide| wide <= u64::from(width)),
                "{told}: {wide}"
            );
            let contrast = tab.evaluate(CONTRAST);
            assert!(
                contrast.as_f64().is_some_and(|least| least >= 4.5),
                "{told}: {contrast}"
            );
            grounds.push(tab.evaluate("getComputedStyle(document.body).backgroundColor"));
            if let Some(folder) = &pictures {
                tab.picture(&folder.join(format!("{file}-{width}-{scheme}.png")));
            }
        }
        assert_eq!(grounds[0], grounds[2], "{file}");
        assert_ne!(grounds[0], grounds[1], "{file}");
        tab.load(page, WIDTHS[0], "light");
        reach_by_keys(&mut tab, &file.to_string());
    }
    tab.load(&pages[1], WIDTHS[0], "dark");
    find_events(&mut tab);
    assert_eq!(tab.complaints, Vec::<String>::new());
    if let Some(folder) = &pictures {
        tab.picture(&folder.join("report-events.png"));
    }
}

/// Checks that events of the law are signs with a description and a legend, and that keys alone open
/// the table that lists them.
fn find_events(tab: &mut Tab) {
    let signs = tab.evaluate(SIGNS);
    let signs = signs.as_array().unwrap();
    assert!(signs.len() >= 2, "{signs:?}");
    for sign in signs {
        let text = sign.as_str().unwrap();
        assert!(text.contains(": ") && text.contains(", window "), "{text}");
    }
    let [drawn, explained] = KINDS.map(|kinds| tab.evaluate(kinds));
    assert_eq!(drawn, explained);
    assert!(drawn.as_array().unwrap().contains(&"cut".into()), "{drawn}");
    assert_eq!(tab.evaluate(ROWS), 0);
    for _ in 0..50 {
        tab.press_tab();
        if tab.evaluate("document.activeElement.tagName") == "SUMMARY" {
            break;
        }
    }
    tab.press_enter();
    assert_eq!(tab.evaluate(ROWS), signs.len());
    let contrast = tab.evaluate(CONTRAST);
    assert!(
        contrast.as_f64().is_some_and(|least| least >= 4.5),
        "{contrast}"
    );
}

/// Presses Tab until it leaves the page, and checks that each scrolled element was focused.
fn reach_by_keys(tab: &mut Tab, file: &str) {
    let scrolled = tab.evaluate(SCROLLED).as_u64().unwrap();
    assert!(scrolled >= 1, "{file}: a table is wider than a phone");
    let mut reached: Vec<Value> = Vec::new();
    for _ in 0..50 {
        tab.press_tab();
        let focused = tab.evaluate(FOCUSED);
        if focused == "BODY" {
            break;
        }
        let scrolls = tab.evaluate(
            "document.activeElement.scrollWidth > document.activeElement.clientWidth + 1",
        );
        if scrolls == true && !reached.contains(&focused) {
            reached.push(focused);
        }
    }
    assert_eq!(reached.len() as u64, scrolled, "{file}: {reached:?}");
}
