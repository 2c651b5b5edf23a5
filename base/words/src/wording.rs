//! Messages of the parsing libraries in this project's words, each with a remedy.

/// Names of types in the messages of libraries, and the names that files' authors know.
const TYPES: [(&str, &str); 9] = [
    ("f64", "a number"),
    ("i64", "a whole number"),
    ("u32", "a whole number"),
    ("u16", "a whole number up to 65535"),
    ("u8", "a whole number up to 255"),
    ("a sequence", "a list"),
    ("map", "a table"),
    ("unit variant", "the name alone"),
    ("struct variant", "a table with its keys"),
];

/// Returns a message of serde or of the TOML parser in this project's words, on one line.
pub fn tidy(message: &str) -> String {
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    for (theirs, ours) in [
        ("unknown field", "unknown key"),
        ("unknown variant", "unknown value"),
    ] {
        let Some(rest) = message.strip_prefix(theirs) else {
            continue;
        };
        let words: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
        let Some((unknown, known)) = words.split_first() else {
            continue;
        };
        return format!("{ours} `{unknown}`; {}", suggest(unknown, known));
    }
    if let Some(rest) = message.strip_prefix("missing field") {
        return format!("missing key{rest}; add it to this table");
    }
    if let Some(rest) = message.strip_prefix("unexpected keys in table: ")
        && let Some((unknown, known)) = rest.split_once(", available keys: ")
    {
        let known: Vec<&str> = known.split(", ").collect();
        return format!("unknown key `{unknown}`; {}", suggest(unknown, &known));
    }
    if message.starts_with("wanted exactly 1 element") {
        return "expected a table with exactly one key; keep one of its keys, or add one".into();
    }
    // the name of a table's type is nobody's affair but the library's
    let message = match message.split_once(", expected struct ") {
        Some((found, name)) if name != "variant" => format!("{found}, expected map"),
        _ => message,
    };
    if message == "wanted string or table" {
        return "no name; give one, in quotes".into();
    }
    TYPES.iter().fold(message, |message, (theirs, ours)| {
        let type_found = format!("invalid type: {theirs}");
        let message = match message.strip_prefix(&type_found) {
            Some(rest) => format!("invalid type: {ours}{rest}"),
            None => message,
        };
        match message.strip_suffix(&format!("expected {theirs}")) {
            Some(rest) => format!("{rest}expected {ours}"),
            None => message,
        }
    })
}

/// Returns "did you mean `x`?" if one of `known` is near, else the list of them. A letter too many,
/// too few or wrong is one step, as are two neighbours that changed places; one step and another for
/// every four letters are near.
pub fn suggest(unknown: &str, known: &[&str]) -> String {
    let nearest = known
        .iter()
        .map(|word| (strsim::osa_distance(unknown, word), word))
        .min();
    match nearest {
        Some((steps, word)) if steps <= 1 + unknown.chars().count() / 4 => {
            format!("did you mean `{word}`?")
        }
        Some(_) => format!("known here: {}", known.join(", ")),
        None => "nothing is known here".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::suggest;

    #[test]
    fn a_near_word_is_suggested_and_otherwise_all_are_listed() {
        for (unknown, known, suggestion) in [
            (
                "netwrok",
                &["network", "queue"][..],
                "did you mean `network`?",
            ),
            ("lwa", &["law", "port"], "did you mean `law`?"),
            ("mixd", &["mixed"], "did you mean `mixed`?"),
            ("fast", &["ecn", "sack"], "known here: ecn, sack"),
            ("x", &[], "nothing is known here"),
        ] {
            assert_eq!(suggest(unknown, known), suggestion);
        }
    }
}
