//! System calls and their arguments.

use crate::cursor::Cursor;
use crate::syntax::{Call, Error, Expression};

/// Takes a call, the result after `=`, and the error's name and text after the result, if it has them.
pub(super) fn call(cursor: &mut Cursor<'_>) -> Result<Call, Error> {
    let Some(name) = cursor.word() else {
        return Err(cursor.error("expected a packet, a system call, a command or code"));
    };
    let arguments = list(cursor, "(", ")")?;
    cursor.expect("=")?;
    let result = expression(cursor)?;
    let errno = cursor.word().map(str::to_owned);
    if cursor.take("(") {
        cursor.take_until(")")?;
    }
    Ok(Call {
        name: name.to_owned(),
        arguments,
        result,
        errno,
    })
}

/// Takes expressions with commas between them, from `open` to `close`.
fn list(cursor: &mut Cursor<'_>, open: &str, close: &str) -> Result<Vec<Expression>, Error> {
    cursor.expect(open)?;
    let mut items = Vec::new();
    while !cursor.take(close) {
        if !items.is_empty() {
            cursor.expect(",")?;
        }
        items.push(expression(cursor)?);
    }
    Ok(items)
}

fn expression(cursor: &mut Cursor<'_>) -> Result<Expression, Error> {
    let first = single(cursor)?;
    if !cursor.sees("|") {
        return Ok(first);
    }
    let mut alternatives = vec![first];
    while cursor.take("|") {
        alternatives.push(single(cursor)?);
    }
    Ok(Expression::Or(alternatives))
}

fn single(cursor: &mut Cursor<'_>) -> Result<Expression, Error> {
    if cursor.take("...") {
        return Ok(Expression::Any);
    }
    if cursor.sees("[") {
        return Ok(Expression::List(list(cursor, "[", "]")?));
    }
    if cursor.sees("{") {
        return Ok(Expression::Fields(list(cursor, "{", "}")?));
    }
    if cursor.take("\"") {
        let text = cursor.take_until("\"")?.to_owned();
        cursor.take("...");
        return Ok(Expression::Text(text));
    }
    if cursor.take("-") {
        return Ok(Expression::Number(-cursor.number::<i64>()?));
    }
    let Some(name) = cursor.word() else {
        return Ok(Expression::Number(cursor.number()?));
    };
    if cursor.sees("(") {
        let arguments = list(cursor, "(", ")")?;
        let function = Expression::Function(name.to_owned(), arguments);
        return Ok(if cursor.take("=") {
            Expression::Field(name.to_owned(), Box::new(expression(cursor)?))
        } else {
            function
        });
    }
    if cursor.take("=") {
        let value = Box::new(expression(cursor)?);
        return Ok(Expression::Field(name.to_owned(), value));
    }
    Ok(Expression::Name(name.to_owned()))
}
