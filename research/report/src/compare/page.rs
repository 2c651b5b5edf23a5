//! The comparison as a page.

use uc_experiment::{Change, Compared};

use super::{
    Sides, alone, chance, difference, interval, left_out, mean, name, origin, scatter, strips,
    tally,
};
use crate::Error;
use crate::escape::escape;
use crate::html::{document, draw, table};

/// Formats the whole page, which loads nothing.
///
/// # Errors
/// [`Error::Figure`] if a figure can't be drawn.
pub fn html(sides: &Sides<'_>) -> Result<String, Error> {
    let [a, b] = sides.names;
    let mut page = String::with_capacity(1 << 18);
    head(&mut page, sides);
    differences(&mut page, sides);
    page.push_str(&strips::section(&sides.comparison.compared));
    if let Some(figure) = scatter::figure(sides)? {
        draw(&mut page, &figure);
    }
    without_partner(&mut page, sides);
    page.push_str(&format!(
        "<section>\n<h2>Repeat</h2>\n<pre tabindex=\"0\">{}</pre>\n</section>\n",
        escape(sides.command)
    ));
    Ok(document(&format!("{a} · {b}"), &page))
}

fn head(page: &mut String, sides: &Sides<'_>) {
    let comparison = sides.comparison;
    let [a, b] = sides.names.map(escape);
    page.push_str(&format!(
        "<header>\n<p class=\"eyebrow\">Comparison, runs paired by seed</p>\n<h1>{a} <small>A</small> and {b} <small>B</small></h1>\n"
    ));
    let state = match comparison.differing() {
        0 => "good",
        _ => "changed",
    };
    let headline = escape(&tally(comparison));
    page.push_str(&format!(
        "<p class=\"headline {state}\">{headline}</p>\n</header>\n"
    ));
    page.push_str("<section>\n<h2>Where they come from</h2>\n");
    let rows = origin(sides).into_iter().map(|(term, [a, b])| {
        let form = |text: &str| {
            if a == b {
                escape(text)
            } else {
                format!("<strong>{}</strong>", escape(text))
            }
        };
        vec![escape(term), form(&a), form(&b)]
    });
    page.push_str("<div class=\"texts\">\n");
    table(page, "Where they come from", &["origin", "A", "B"], rows);
    page.push_str(
        "</div>\n<p class=\"caption\">What differs is in bold. A simulated run depends on the program \
         alone, so that it names no machine.</p>\n</section>\n",
    );
}

fn differences(page: &mut String, sides: &Sides<'_>) {
    page.push_str("<section>\n<h2>Measure by measure</h2>\n");
    let header = [
        "measure",
        "pairs",
        "mean A",
        "mean B",
        "B − A",
        "95 % interval",
        "verdict",
    ];
    table(
        page,
        "Measure by measure",
        &header,
        sides.comparison.compared.iter().map(row),
    );
    page.push_str(
        "<p class=\"caption\">Differences are relative to the mean of A, or absolute where that is 0. \
         The interval is of the mean of the paired differences, by Student's t. Times are in seconds, \
         rates in bits per second. Only of completion times it is known which direction is better.</p>\n",
    );
    if let Some(chance) = chance(sides.comparison) {
        page.push_str(&format!("<p class=\"caption\">{}</p>\n", escape(&chance)));
    }
    page.push_str("</section>\n");
}

fn row(row: &Compared) -> Vec<String> {
    let verdict = row.change.words(&row.measure);
    let class = match row.change {
        Change::More | Change::Less => match verdict {
            "slower" => "mark bad",
            "faster" => "mark good",
            _ => "mark changed",
        },
        Change::Same | Change::Unknown => "mark",
    };
    vec![
        escape(&name(&row.measure, &row.at)),
        row.difference.n.to_string(),
        mean(row.means[0]),
        mean(row.means[1]),
        format!("<strong>{}</strong>", difference(row)),
        interval(row),
        format!("<span class=\"{class}\">{}</span>", escape(verdict)),
    ]
}

fn without_partner(page: &mut String, sides: &Sides<'_>) {
    let comparison = sides.comparison;
    let runs = comparison.left_out.iter().map(left_out);
    let sentences: Vec<String> = runs.chain(alone(comparison)).collect();
    if sentences.is_empty() {
        return;
    }
    page.push_str("<section>\n<h2>Not compared</h2>\n<ul class=\"findings\">\n");
    for sentence in sentences {
        let text = crate::words::sentence_case(&sentence);
        page.push_str(&format!("<li>{}.</li>\n", escape(&text)));
    }
    page.push_str("</ul>\n</section>\n");
}
