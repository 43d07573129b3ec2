//! The comparison as a picture: for everything that both servers did, one bar each.

use std::fmt::Write as _;

use crate::{
    measure::{Measure, number},
    report::Report,
};

const WIDTH: f64 = 820.0;
const LABEL: f64 = 270.0;
const BAR: f64 = 330.0;
const ROW: f64 = 46.0;
const TOP: f64 = 64.0;

/// Draws the chart as SVG.
pub(crate) fn draw(report: &Report) -> String {
    let compared: Vec<&Measure> =
        report.measures.iter().filter(|measure| measure.reference().is_some()).collect();
    let height = TOP + ROW * compared.len() as f64 + 34.0;
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif" font-size="13" role="img" aria-label="Embedded API server compared with kube-apiserver">
<style>
text {{ fill: #24292f }} .faint {{ fill: #656d76 }} .embedded {{ fill: #c2410c }} .reference {{ fill: #9aa4b2 }}
@media (prefers-color-scheme: dark) {{ text {{ fill: #e6edf3 }} .faint {{ fill: #9198a1 }} .embedded {{ fill: #fb923c }} .reference {{ fill: #6e7681 }} }}
</style>
<rect class="embedded" x="0" y="10" width="12" height="12" rx="2"/><text x="18" y="21">embedded</text>
<rect class="reference" x="100" y="10" width="12" height="12" rx="2"/><text x="118" y="21">kube-apiserver with etcd</text>
<text class="faint" x="{WIDTH}" y="21" text-anchor="end">better by</text>
"#
    );
    for (index, measure) in compared.iter().enumerate() {
        row(&mut svg, measure, TOP + ROW * index as f64);
    }
    let _ = writeln!(
        svg,
        r#"<text class="faint" font-size="11" x="0" y="{}">{}</text>"#,
        height - 10.0,
        escape(&report.conditions())
    );
    svg.push_str("</svg>\n");
    svg
}

fn row(svg: &mut String, measure: &Measure, top: f64) {
    let (embedded, reference) = (measure.embedded(), measure.reference().unwrap_or_default());
    let longest = embedded.max(reference);
    let _ = writeln!(svg, r#"<text x="0" y="{}">{}</text>"#, top + 17.0, escape(&measure.name));
    for (class, value, y) in [("embedded", embedded, top), ("reference", reference, top + 15.0)] {
        // A bar stays visible however short it is.
        let length = (value / longest * BAR).max(1.5);
        let _ = writeln!(
            svg,
            r#"<rect class="{class}" x="{LABEL}" y="{y}" width="{length:.1}" height="12" rx="2"/><text class="faint" font-size="11" x="{:.1}" y="{}">{} {}</text>"#,
            LABEL + length + 6.0,
            y + 10.0,
            number(value),
            measure.unit,
        );
    }
    if let Some(times) = measure.advantage() {
        let _ = writeln!(
            svg,
            r#"<text x="{WIDTH}" y="{}" text-anchor="end" font-weight="600">{}×</text>"#,
            top + 17.0,
            number(times)
        );
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
