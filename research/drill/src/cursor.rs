//! A reader's position in a script, and the tokens that it takes from there.

use crate::syntax::{Error, Place};

/// A position in the text of a script. Every taking function skips space and comments first.
#[derive(Clone)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Skips space, `// …` and `/* … */`.
    pub(crate) fn skip(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            let comment = if trimmed.starts_with("//") {
                trimmed.find('\n').unwrap_or(trimmed.len())
            } else if trimmed.starts_with("/*") {
                trimmed.find("*/").map_or(trimmed.len(), |end| end + 2)
            } else {
                return;
            };
            self.at += comment;
        }
    }

    /// Returns where the next token begins.
    pub(crate) fn place(&mut self) -> Place {
        self.skip();
        let before = &self.text[..self.at];
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        Place {
            line: before.matches('\n').count() as u32 + 1,
            column: before[line_start..].chars().count() as u32 + 1,
        }
    }

    /// Returns an error at the next token.
    pub(crate) fn error(&mut self, wanted: &str) -> Error {
        let place = self.place();
        let rest = self.rest();
        let token = rest.split(char::is_whitespace).next().unwrap_or("");
        let seen = match token {
            "" => "the end of the file".to_owned(),
            token => format!("`{}`", token.chars().take(24).collect::<String>()),
        };
        Error {
            place,
            why: format!("{wanted}, found {seen}"),
            lacks: None,
        }
    }

    /// Returns an error at the next token, which belongs to a feature that this reader lacks.
    pub(crate) fn lacks(&mut self, feature: &'static str) -> Error {
        Error {
            lacks: Some(feature),
            ..self.error("expected a feature that is read")
        }
    }

    pub(crate) fn at_end(&mut self) -> bool {
        self.skip();
        self.rest().is_empty()
    }

    /// Returns whether `token` comes next, without taking it.
    pub(crate) fn sees(&mut self, token: &str) -> bool {
        self.skip();
        self.rest().starts_with(token)
    }

    /// Takes `token` if it comes next.
    pub(crate) fn take(&mut self, token: &str) -> bool {
        let sees = self.sees(token);
        if sees {
            self.at += token.len();
        }
        sees
    }

    /// Takes `token`, or returns an error that names it.
    pub(crate) fn expect(&mut self, token: &str) -> Result<(), Error> {
        if self.take(token) {
            return Ok(());
        }
        Err(self.error(&format!("expected `{token}`")))
    }

    /// Takes and returns the characters up to the first that `accepts` refuses; may take none.
    pub(crate) fn take_while(&mut self, accepts: impl Fn(char) -> bool) -> &'a str {
        self.skip();
        let rest = self.rest();
        let end = rest.find(|c| !accepts(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Takes the text up to `end`, and `end` itself; returns the text without `end`.
    pub(crate) fn take_until(&mut self, end: &str) -> Result<&'a str, Error> {
        let rest = self.rest();
        let Some(length) = rest.find(end) else {
            return Err(self.error(&format!("expected `{end}` before the end of the file")));
        };
        self.at += length + end.len();
        Ok(&rest[..length])
    }

    /// Takes a name: a letter or underscore, then letters, digits and underscores. `None` if no name comes next.
    pub(crate) fn word(&mut self) -> Option<&'a str> {
        self.skip();
        let first = self.rest().chars().next()?;
        if !(first.is_ascii_alphabetic() || first == '_') {
            return None;
        }
        Some(self.take_while(|c| c.is_ascii_alphanumeric() || c == '_'))
    }

    /// Takes `word` if it comes next as a whole; returns whether it did.
    pub(crate) fn take_word(&mut self, word: &str) -> bool {
        let before = self.at;
        if self.word() == Some(word) {
            return true;
        }
        self.at = before;
        false
    }

    /// Returns whether `word` comes next as a whole.
    pub(crate) fn sees_word(&self, word: &str) -> bool {
        self.clone().word() == Some(word)
    }

    /// Returns whether a decimal digit comes next, without space before it.
    pub(crate) fn sees_digit(&self) -> bool {
        self.rest().starts_with(|c: char| c.is_ascii_digit())
    }

    /// Takes a number without a sign, decimal or with `0x`.
    pub(crate) fn number<N: TryFrom<u64>>(&mut self) -> Result<N, Error> {
        self.skip();
        let before = self.at;
        let (radix, digits) = if self.take("0x") || self.take("0X") {
            (16, self.take_while(|c| c.is_ascii_hexdigit()))
        } else {
            (10, self.take_while(|c| c.is_ascii_digit()))
        };
        let number = u64::from_str_radix(digits, radix).ok();
        number
            .and_then(|number| N::try_from(number).ok())
            .ok_or_else(|| {
                self.at = before;
                self.error("expected a number within the field's range")
            })
    }
}
