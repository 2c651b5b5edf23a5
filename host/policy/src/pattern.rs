//! Patterns of ports' names: exact, or with `*` for any number of characters.

use std::fmt;

use schemars::{Schema, json_schema};

use crate::list::{Element, Scalar};

/// Maximum length of an interface's alternative names (`ip link property add altname`), without the
/// closing zero; its own name is shorter.
const NAME_MAX: usize = 127;
/// Prefix of the names of pods, which contain a slash.
const POD: &str = "cni:";
/// Prefix of the names of libvirt's domains, which may contain spaces.
const DOMAIN: &str = "libvirt:";
/// Prefix of an interface's alias (`ip link set DEV alias TEXT`), which may be any text.
const ALIAS: &str = "alias:";
/// Maximum length of an interface's alias, in bytes.
const ALIAS_MAX: usize = 255;

/// Returns whether a character is allowed in a pattern with this beginning.
fn is_allowed(c: char, text: &str) -> bool {
    if text.starts_with(ALIAS) {
        return !c.is_control();
    }
    if text.starts_with(DOMAIN) {
        return !c.is_control() && c != '/';
    }
    c.is_ascii_graphic() && !"?[]".contains(c) && (c != '/' || text.starts_with(POD))
}

/// A pattern of ports' names, such as `vnet3` or `tap1*`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pattern(String);

impl Pattern {
    /// Returns whether the name matches the pattern.
    pub fn matches(&self, name: &str) -> bool {
        match self.has_star() {
            true => glob(self.0.as_bytes(), name.as_bytes()),
            false => self.0 == name,
        }
    }

    /// Returns whether this pattern matches every name that `other` matches. Where only a search could decide, because
    /// stars alternate with characters, it returns false.
    pub fn covers(&self, other: &Pattern) -> bool {
        match self.has_star() {
            true => glob(self.0.as_bytes(), other.0.as_bytes()),
            false => self.0 == other.0,
        }
    }

    /// Returns whether there is a name that both patterns match.
    pub fn meets(&self, other: &Pattern) -> bool {
        match (self.has_star(), other.has_star()) {
            (false, _) => other.matches(&self.0),
            (true, false) => self.matches(&other.0),
            // A name for both: the longer beginning, what each has between stars, the longer ending.
            (true, true) => {
                let (a, b) = (self.beginning(), other.beginning());
                let shared = a.len().min(b.len());
                let (y, z) = (self.ending(), other.ending());
                let last = y.len().min(z.len());
                a[..shared] == b[..shared] && y[y.len() - last..] == z[z.len() - last..]
            }
        }
    }

    /// Returns the approximate number of comparisons that [`Pattern::meets`] and [`Pattern::covers`] make.
    pub(crate) fn steps(&self, other: &Pattern) -> usize {
        match (self.has_star(), other.has_star()) {
            (false, false) => 1,
            _ => 1 + self.0.len() * other.0.len() / 32,
        }
    }

    /// Returns whether the pattern matches more than one name.
    pub(crate) fn has_star(&self) -> bool {
        self.0.contains('*')
    }

    /// Returns the text before the first star.
    fn beginning(&self) -> &[u8] {
        let end = self.0.find('*').unwrap_or(self.0.len());
        &self.0.as_bytes()[..end]
    }

    /// Returns the text behind the last star.
    fn ending(&self) -> &[u8] {
        let begin = self.0.rfind('*').map_or(0, |star| star + 1);
        &self.0.as_bytes()[begin..]
    }

    /// Returns the pattern as it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns whether `pattern` matches `text`, in which a star is a character that only a star matches.
///
/// Text between two stars is matched where it comes first: if any choice leads to a match, that one
/// does. So the search goes back to the last star only.
pub(crate) fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Position behind the last star, and the first character that it does not take.
    let mut retry = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            retry = Some((p, t));
        } else if pattern.get(p) == Some(&text[t]) {
            (p, t) = (p + 1, t + 1);
        } else if let Some((behind, taken)) = retry {
            (p, t) = (behind, taken + 1);
            retry = Some((behind, taken + 1));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Element for Pattern {
    const WHAT: &'static str = "the name of a port, or a pattern such as \"tap1*\"";

    fn read(scalar: &Scalar) -> Result<Pattern, String> {
        let Scalar::Text(text) = scalar else {
            return Err(format!("{scalar} is not a name; write it in quotes"));
        };
        if text.is_empty() {
            return Err("is empty; give a port's name, or a pattern such as \"tap1*\"".into());
        }
        if let Some(c) = text.chars().find(|c| !is_allowed(*c, text)) {
            return Err(format!(
                "`{text}` is not the name of a port: `{}` is not allowed; a `*` stands for any \
                 characters, and spaces are allowed after `alias:` and `libvirt:` only",
                c.escape_default()
            ));
        }
        let fixed = text.bytes().filter(|c| *c != b'*').count();
        let most = match text.strip_prefix(ALIAS) {
            Some(_) => ALIAS.len() + ALIAS_MAX,
            None => NAME_MAX,
        };
        if fixed > most {
            return Err(format!(
                "`{text}` matches no port: a name has at most {most} bytes; shorten it"
            ));
        }
        let mut text = text.clone();
        while text.contains("**") {
            text = text.replace("**", "*");
        }
        Ok(Pattern(text))
    }

    fn write(&self) -> Scalar {
        Scalar::Text(self.0.clone())
    }

    fn schema() -> Schema {
        json_schema!({
            "type": "string",
            "pattern": concat!(
                r"^(cni:[!->@-Z\\^-~]+|alias:[^\x00-\x1f]+|libvirt:[^\x00-\x1f/]+|",
                r"[!-.0->@-Z\\^-~]+)$"
            ),
            "description": "a port's name; a * stands for any characters",
            "examples": ["vnet3", "tap1*"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::read(&Scalar::Text(text.into())).unwrap()
    }

    /// Matches by the definition, in exponential time.
    fn naive(pattern: &str, name: &str) -> bool {
        let Some(first) = pattern.chars().next() else {
            return name.is_empty();
        };
        let rest = &pattern[1..];
        if first == '*' {
            return (0..=name.len()).any(|cut| naive(rest, &name[cut..]));
        }
        name.starts_with(first) && naive(rest, &name[1..])
    }

    /// Returns all names of `a` and `b` with at most six characters.
    fn names() -> Vec<String> {
        let mut names = vec![String::new()];
        for length in 0..6 {
            let longer: Vec<String> = names
                .iter()
                .filter(|name| name.len() == length)
                .flat_map(|name| [format!("{name}a"), format!("{name}b")])
                .collect();
            names.extend(longer);
        }
        names
    }

    proptest! {
        #[test]
        fn a_name_matches_by_the_definition(text in "[ab*]{1,6}", name in "[ab]{0,6}") {
            prop_assert_eq!(pattern(&text).matches(&name), naive(&text, &name));
        }

        #[test]
        fn patterns_meet_if_a_name_matches_both(a in "[ab*]{1,4}", b in "[ab*]{1,4}") {
            let (p, q) = (pattern(&a), pattern(&b));
            let common = names().iter().any(|name| p.matches(name) && q.matches(name));
            // If two patterns of four characters meet, they meet in a name of at most six.
            prop_assert_eq!(p.meets(&q), common, "{} {}", a, b);
        }

        #[test]
        fn a_covering_pattern_matches_all_names_of_the_other(a in "[ab*]{1,4}", b in "[ab*]{1,4}") {
            let (p, q) = (pattern(&a), pattern(&b));
            if p.covers(&q) {
                prop_assert!(names().iter().all(|name| !q.matches(name) || p.matches(name)));
            }
        }
    }

    #[test]
    fn typical_patterns_cover_as_expected() {
        for (a, b, covers) in [
            ("*", "vnet*", true),
            ("vnet*", "vnet3", true),
            ("vnet*", "vnet1*", true),
            ("vnet1*", "vnet*", false),
            ("tap*", "vnet3", false),
        ] {
            assert_eq!(pattern(a).covers(&pattern(b)), covers, "{a} {b}");
        }
    }

    #[test]
    fn two_names_cost_one_step_and_two_patterns_cost_by_their_lengths() {
        let (name, stars) = ("n".repeat(100), format!("*{}", "n".repeat(63)));
        assert_eq!(pattern(&name).steps(&pattern(&name)), 1);
        assert_eq!(pattern(&stars).steps(&pattern(&stars)), 1 + 64 * 64 / 32);
    }

    #[test]
    fn impossible_interface_names_are_refused() {
        let long = "n".repeat(128);
        for text in ["", "a b", "eth/0", "tap?", "[ab]", &long] {
            assert!(Pattern::read(&Scalar::Text(text.into())).is_err(), "{text}");
        }
        assert!(Pattern::read(&Scalar::Number(3)).is_err());
        assert_eq!(pattern("a***b").as_str(), "a*b");
        assert!(pattern("cni:shop/cart-*").matches("cni:shop/cart-0"));
        assert!(pattern("alias:rack 3/* é").matches("alias:rack 3/a é"));
        assert!(pattern("libvirt:my vm").matches("libvirt:my vm"));
        for text in [
            "alias:a\tb",
            "libvirt:a/b",
            &format!("alias:{}", "n".repeat(256)),
        ] {
            assert!(Pattern::read(&Scalar::Text(text.into())).is_err(), "{text}");
        }
        assert!(pattern("libvirt:a-long-domain").matches("libvirt:a-long-domain"));
        for longest in ["n".repeat(127), format!("alias:{}", "n".repeat(255))] {
            assert!(pattern(&longest).matches(&longest));
        }
    }
}
