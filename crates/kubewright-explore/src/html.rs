//! A page with everything that was found: one file, that needs nothing else.

use std::fmt::Write as _;

use crate::{
    finding::{Finding, Report},
    timeline::Row,
    trace::{Entry, What},
};

const STYLE: &str = "\
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --bad: #d33; --good: #2a7; --user: #27c; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 80rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin: 2.5rem 0 .3rem; }
h2 code { color: var(--bad); } .seen { font-weight: 600; } .why { max-width: 60rem; }
ul.faults { margin: .3rem 0; } ul.faults li { color: var(--bad); }
table { border-collapse: collapse; width: 100%; table-layout: fixed; font: 12.5px/1.45 ui-monospace, monospace; }
th { text-align: left; font-weight: 600; padding: .2rem .5rem; border-bottom: 2px solid var(--line); }
td { vertical-align: top; padding: .1rem .5rem; border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
td:first-child, th:first-child { width: 5.5rem; color: #888; } td.none { background: var(--soft); }
tr.step td { border-top: 2px solid var(--line); font-weight: 600; color: var(--user); }
tr.operator td { color: #888; font-style: italic; }
tr.differs td.only { background: #d332; } tr.first td.only { outline: 2px solid var(--bad); }
.fault { color: #fff; background: var(--bad); border-radius: 3px; padding: 0 .35rem; white-space: nowrap; }
.code { color: #888; } .survived { color: var(--good); font-weight: 600; }
details { margin: .6rem 0; } pre { overflow: auto; padding: .7rem; background: var(--soft); border-radius: 4px; }
";

/// The page of a report.
pub(crate) fn page(report: &Report) -> String {
    let mut page = String::from("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n");
    let name = escaped(&report.operator);
    let _ = write!(page, "<title>{name}: explored</title>\n<style>\n{STYLE}</style>\n<h1>{name}</h1>\n");
    let steps: Vec<String> = report.steps.iter().map(|step| escaped(&step.name)).collect();
    let seconds = report.elapsed.as_secs_f64();
    let _ = writeln!(
        page,
        "<p>{} runs in {seconds:.1} s, of these steps: {}.</p>",
        report.runs,
        steps.join(", ")
    );
    if report.findings.is_empty() {
        page.push_str("<p class=\"survived\">It survived all of them.</p>\n");
    }
    for finding in &report.findings {
        section(&mut page, finding);
    }
    page
}

fn section(page: &mut String, finding: &Finding) {
    let oracle = finding.violation.oracle;
    let _ = writeln!(
        page,
        "<h2><code>{oracle}</code></h2>\n<p class=\"seen\">{}</p>",
        escaped(&finding.violation.seen)
    );
    if finding.plan.faults.is_empty() {
        page.push_str("<p>In the undisturbed run.</p>\n");
    } else {
        page.push_str("<ul class=\"faults\">\n");
        for fault in &finding.plan.faults {
            let _ = writeln!(page, "<li>{}</li>", escaped(&fault.to_string()));
        }
        page.push_str("</ul>\n");
    }
    if finding.runs > 1 {
        let _ = writeln!(page, "<p>{} other runs came to the same.</p>", finding.runs - 1);
    }
    let (why, book) = (escaped(finding.explanation), escaped(&finding.book));
    let place = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/");
    let _ = writeln!(page, "<p class=\"why\">{why} <a href=\"{place}{book}\">More in the book</a></p>");
    page.push_str("<table>\n<tr><th>time</th><th>undisturbed</th><th>with the faults</th></tr>\n");
    let rows = finding.rows();
    let first = rows.iter().position(Row::differs);
    for (at, row) in rows.iter().enumerate() {
        line(page, row, Some(at) == first);
    }
    page.push_str("</table>\n");
    let plan = serde_json::to_string_pretty(&finding.plan).unwrap_or_default();
    let _ = writeln!(page, "<details><summary>The plan</summary><pre>{}</pre></details>", escaped(&plan));
    let _ =
        writeln!(page, "<details><summary>A test</summary><pre>{}</pre></details>", escaped(&finding.test()));
}

fn line(page: &mut String, row: &Row<'_>, is_first: bool) {
    let Some(entry) = row.disturbed.or(row.undisturbed) else { return };
    let kind = match entry.what {
        What::Step => "step",
        What::Operator => "operator",
        _ => "",
    };
    let differs = if row.differs() { " differs" } else { "" };
    let first = if is_first { " first" } else { "" };
    let _ = write!(page, "<tr class=\"{kind}{differs}{first}\"><td>{:.3} s</td>", entry.at.as_secs_f64());
    let is_only = row.undisturbed.is_some() != row.disturbed.is_some();
    for entry in [row.undisturbed, row.disturbed] {
        cell(page, entry, is_only);
    }
    page.push_str("</tr>\n");
}

fn cell(page: &mut String, entry: Option<&Entry>, is_only: bool) {
    let Some(entry) = entry else {
        page.push_str("<td class=\"none\"></td>");
        return;
    };
    let only = if is_only { " class=\"only\"" } else { "" };
    let _ = write!(page, "<td{only}>{}", escaped(&entry.text));
    if entry.code != 0 {
        let _ = write!(page, " <span class=\"code\">{}</span>", entry.code);
    }
    if let Some(fault) = entry.fault {
        let _ = write!(page, " <span class=\"fault\">{fault}</span>");
    }
    page.push_str("</td>");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
