//! The page: one file that loads nothing, for light and dark, for narrow and wide screens.

use uc_experiment::{Outcome, Verdict};

use crate::escape::escape;
use crate::figures::{Figure, figures};
use crate::numbers::{found, number};
use crate::{Error, Report, group_table, law_events, run_set, setup, unit, words};

const STYLE: &str = include_str!("style.css");

/// Formats the whole page.
///
/// # Errors
/// [`Error::Figure`] if a figure can't be drawn.
pub fn html(report: &Report<'_>) -> Result<String, Error> {
    let title = format!("{} · {}", report.experiment.name, report.experiment.title);
    let mut page = String::with_capacity(1 << 20);
    head(&mut page, report);
    verdicts(&mut page, report);
    for figure in figures(report)? {
        draw(&mut page, &figure);
    }
    groups(&mut page, report);
    set_up(&mut page, report);
    again(&mut page, report);
    Ok(document(&title, &page))
}

/// Returns the page of this title; `content` is markup.
pub(crate) fn document(title: &str, content: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <main>\n{content}</main>\n</body>\n</html>\n"
    )
}

fn head(page: &mut String, report: &Report<'_>) {
    let experiment = report.experiment;
    let source = experiment.source.as_deref().unwrap_or("own experiment");
    page.push_str(&format!(
        "<header>\n<p class=\"eyebrow\">{} · {} · {}</p>\n<h1>{}</h1>\n",
        escape(&experiment.name),
        escape(source),
        escape(&words::arm(&report.meta.arm)),
        escape(&experiment.title)
    ));
    let state = if report.holds() { "good" } else { "bad" };
    let headline = escape(&words::headline(report));
    page.push_str(&format!("<p class=\"headline {state}\">{headline}</p>\n"));
    let sentences = words::sentences(report);
    if !sentences.is_empty() {
        page.push_str("<ul class=\"findings\">\n");
        for sentence in sentences {
            page.push_str(&format!("<li>{}</li>\n", escape(&sentence)));
        }
        page.push_str("</ul>\n");
    }
    page.push_str("</header>\n");
}

fn verdicts(page: &mut String, report: &Report<'_>) {
    let evaluation = report.evaluation;
    if evaluation.verdicts.is_empty() && evaluation.unjudged.is_empty() {
        return;
    }
    let header = [
        "expectation",
        "paper",
        "ours ± standard error",
        "95 % interval",
        "least–most",
        "n",
        "expected",
        "basis",
        "verdict",
    ];
    page.push_str("<section>\n<h2>Expected and found</h2>\n");
    if !evaluation.verdicts.is_empty() {
        let rows = evaluation.verdicts.iter().map(verdict_row);
        table(page, "Expected and found", &header, rows);
    }
    for remark in words::remarks(report) {
        let text = words::sentence_case(&remark);
        page.push_str(&format!("<p class=\"caption\">{}.</p>\n", escape(&text)));
    }
    for unjudged in &evaluation.unjudged {
        let text = format!("Not judged: {} {}.", unjudged.name, unjudged.why);
        page.push_str(&format!("<p class=\"caption\">{}</p>\n", escape(&text)));
    }
    page.push_str("</section>\n");
}

fn verdict_row(verdict: &Verdict) -> Vec<String> {
    let class = match verdict.outcome {
        Outcome::Holds => "mark good",
        Outcome::Differs => "mark",
        Outcome::Fails | Outcome::Undecided | Outcome::Stale => "mark bad",
    };
    let mark = format!("<span class=\"{class}\">{}</span>", words::outcome(verdict));
    // The means of a trend are in its steps.
    let is_trend = !verdict.steps.is_empty();
    let of_mean = |text: String| if is_trend { "–".to_owned() } else { text };
    let range = |range: Option<[f64; 2]>| match range {
        Some([low, high]) => format!("{}–{}", number(low), number(high)),
        None => "–".to_owned(),
    };
    let (interval, extremes) = (range(verdict.interval), range(verdict.extremes));
    vec![
        escape(&words::verdict(verdict)),
        verdict.paper.map_or_else(|| "–".into(), number),
        format!("<strong>{}</strong>", found(verdict)),
        of_mean(interval),
        of_mean(extremes),
        verdict.n.to_string(),
        escape(&verdict.expect.to_string()),
        words::basis(verdict),
        mark,
    ]
}

/// Appends a table; the cells are markup already. The first column is text, the others numbers. What
/// does not fit is scrolled to, also by keys.
pub(crate) fn table(
    page: &mut String,
    label: &str,
    header: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
) {
    page.push_str(&format!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\"><table>\n<thead><tr>",
        escape(label)
    ));
    for cell in header {
        page.push_str(&format!("<th scope=\"col\">{cell}</th>"));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        page.push_str("<tr>");
        for cell in row {
            page.push_str(&format!("<td>{cell}</td>"));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table></div>\n");
}

/// Appends a figure with its legend, panels and caption.
pub(crate) fn draw(page: &mut String, figure: &Figure) {
    page.push_str(&format!("<section>\n<h2>{}</h2>\n", escape(&figure.title)));
    page.push_str("<p class=\"legend\">");
    for (style, words) in &figure.legend {
        page.push_str(&format!(
            "<span><i class=\"{}\"></i>{}</span>",
            style.class(),
            escape(words)
        ));
    }
    page.push_str(&law_events::legend(&figure.events));
    page.push_str("</p>\n<div class=\"panels\">\n");
    for (title, svg) in &figure.panels {
        page.push_str(&format!(
            "<figure>\n<figcaption>{}</figcaption>\n{svg}</figure>\n",
            escape(title)
        ));
    }
    page.push_str(&format!(
        "</div>\n<p class=\"caption\">{}</p>\n",
        escape(&figure.caption)
    ));
    for listed in &figure.events {
        list(page, listed);
    }
    page.push_str("</section>\n");
}

/// Appends the events of a panel as a table that opens on demand.
fn list(page: &mut String, listed: &law_events::Listed) {
    let label = listed.title();
    page.push_str(&format!(
        "<details>\n<summary>{}</summary>\n",
        escape(&label)
    ));
    table(page, &label, &listed.header(), listed.rows());
    page.push_str("</details>\n");
}

fn groups(page: &mut String, report: &Report<'_>) {
    let sets = run_set::sets(report);
    let rate = unit::of_rate(&sets);
    let rows = group_table::rows(&sets, rate);
    if rows.is_empty() {
        return;
    }
    page.push_str("<section>\n<h2>Group by group</h2>\n");
    let escaped = |row: [String; 8]| row.iter().map(|cell| escape(cell)).collect();
    let header = group_table::header(rate);
    let header = header.each_ref().map(String::as_str);
    let rows = rows.into_iter().map(escaped);
    table(page, "Group by group", &header, rows);
    page.push_str(
        "<p class=\"caption\">Drops, marks and timeouts are of whole runs, what is not measured \
         included.</p>\n</section>\n",
    );
}

fn set_up(page: &mut String, report: &Report<'_>) {
    page.push_str("<section>\n<h2>Set-up</h2>\n<dl>\n");
    for (term, words) in setup::entries(report.experiment) {
        page.push_str(&format!(
            "<dt>{}</dt><dd>{}</dd>\n",
            escape(&term),
            escape(&words)
        ));
    }
    page.push_str("</dl>\n</section>\n");
}

fn again(page: &mut String, report: &Report<'_>) {
    let meta = report.meta;
    page.push_str("<section>\n<h2>Repeat</h2>\n");
    page.push_str(&format!(
        "<pre tabindex=\"0\">{}</pre>\n",
        escape(&meta.command)
    ));
    page.push_str(&format!(
        "<p class=\"caption\">Backend {}, seed {}, commit {}, {}.</p>\n</section>\n",
        escape(&meta.arm),
        meta.seed,
        escape(&meta.commit),
        words::extent(report)
    ));
}
