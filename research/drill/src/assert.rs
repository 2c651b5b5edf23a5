//! Assertions about a connection: `assert tcpi_state == TCPI_ESTABLISHED`.
//!
//! Packetdrill runs such code as Python. This reads the part of Python that scripts use: `assert` with
//! comparisons, assignments, `print`, sums, products, numbers, constants and the fields of `tcp_info`.

use std::collections::HashMap;

use crate::constants::constant;
use crate::cursor::Cursor;
use crate::syntax::Error;
use crate::target::TcpInfo;
use crate::verdict::Stop;

/// The names that code may use.
struct Names<'a> {
    info: &'a TcpInfo,
    variables: &'a mut HashMap<String, i64>,
}

/// Runs a piece of code and checks every assertion in it.
pub(crate) fn check(
    code: &str,
    info: &TcpInfo,
    variables: &mut HashMap<String, i64>,
) -> Result<(), Stop> {
    let mut names = Names { info, variables };
    let lines = code
        .lines()
        .map(|line| line.split('#').next().unwrap_or(""));
    let statements = lines.flat_map(|line| line.split(';')).map(str::trim);
    for statement in statements.filter(|statement| !statement.is_empty()) {
        let lacks = |_| {
            Stop::Lacks(format!(
                "the Python statement `{statement}` is not supported"
            ))
        };
        if let Some(numbers) = names.run(statement).map_err(lacks)? {
            let seen: Vec<_> = numbers.iter().map(i64::to_string).collect();
            let why = format!("expected {statement}, seen {}", seen.join(" and "));
            return Err(Stop::Differs(why));
        }
    }
    Ok(())
}

impl Names<'_> {
    /// Runs a statement. Returns the compared numbers if it is an assertion that fails, otherwise `None`.
    fn run(&mut self, statement: &str) -> Result<Option<Vec<i64>>, Error> {
        let mut cursor = Cursor::new(statement);
        if cursor.take_word("print") {
            return Ok(None);
        }
        if cursor.take_word("assert") {
            return self.assertion(&mut cursor);
        }
        let Some(name) = cursor.word() else {
            return Err(cursor.error("expected a statement"));
        };
        let added = cursor.take("+=");
        if !added {
            cursor.expect("=")?;
        }
        let before = if added {
            self.variables.get(name)
        } else {
            None
        };
        let before = before.copied().unwrap_or(0);
        let value = before + self.union(&mut cursor)?;
        self.variables.insert(name.to_owned(), value);
        Ok(None)
    }

    fn assertion(&self, cursor: &mut Cursor<'_>) -> Result<Option<Vec<i64>>, Error> {
        let mut numbers = vec![self.union(cursor)?];
        let mut holds = true;
        let relations = ["==", "!=", "<=", ">=", "<", ">"];
        while let Some(relation) = relations.into_iter().find(|sign| cursor.take(sign)) {
            let left = numbers[numbers.len() - 1];
            let right = self.union(cursor)?;
            holds &= match relation {
                "==" => left == right,
                "!=" => left != right,
                "<=" => left <= right,
                ">=" => left >= right,
                "<" => left < right,
                _ => left > right,
            };
            numbers.push(right);
        }
        if numbers.len() < 2 {
            return Err(cursor.error("expected a comparison"));
        }
        // A message may follow.
        if !cursor.at_end() && !cursor.sees(",") {
            return Err(cursor.error("expected the end of the assertion"));
        }
        Ok((!holds).then_some(numbers))
    }

    fn union(&self, cursor: &mut Cursor<'_>) -> Result<i64, Error> {
        let mut value = self.intersection(cursor)?;
        while cursor.take("|") {
            value |= self.intersection(cursor)?;
        }
        Ok(value)
    }

    fn intersection(&self, cursor: &mut Cursor<'_>) -> Result<i64, Error> {
        let mut value = self.sum(cursor)?;
        while cursor.take("&") {
            value &= self.sum(cursor)?;
        }
        Ok(value)
    }

    fn sum(&self, cursor: &mut Cursor<'_>) -> Result<i64, Error> {
        let mut value = self.product(cursor)?;
        loop {
            if cursor.take("+") {
                value += self.product(cursor)?;
            } else if cursor.take("-") {
                value -= self.product(cursor)?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&self, cursor: &mut Cursor<'_>) -> Result<i64, Error> {
        let mut value = self.term(cursor)?;
        while cursor.take("*") {
            value *= self.term(cursor)?;
        }
        Ok(value)
    }

    fn term(&self, cursor: &mut Cursor<'_>) -> Result<i64, Error> {
        if cursor.take("(") {
            let value = self.union(cursor)?;
            cursor.expect(")")?;
            return Ok(value);
        }
        let Some(name) = cursor.word() else {
            return cursor.number();
        };
        let field = name.strip_prefix("tcpi_");
        let field = field.and_then(|field| self.info.get(field));
        let variable = self.variables.get(name).or(field);
        let found = variable.copied().or(constant(name));
        found.ok_or_else(|| cursor.error("expected a field of tcp_info, a variable or a constant"))
    }
}
