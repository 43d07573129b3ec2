//! Named formats of texts: `format.dns1123Label().validate(text)`.

use std::sync::LazyLock;

use regex::Regex;

use super::{Extension, base64, url};
use crate::{
    eval::EvalError,
    time::Timestamp,
    value::{Evaluated, Val},
};

/// A format that texts can have.
pub struct NamedFormat {
    pub(crate) name: &'static str,
    /// Size of the pattern, or of one that does the same, for costs.
    pub(crate) pattern_size: u64,
    problems: fn(&str) -> Vec<String>,
}

impl std::fmt::Debug for NamedFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const LABEL_KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const UUID: &str = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
const DATE_TIME: &str = "^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";

struct Patterns {
    label: Regex,
    subdomain: Regex,
    label_1035: Regex,
    label_key: Regex,
    label_value: Regex,
    uuid: Regex,
    date_time: Regex,
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| {
    let compiled = |pattern: &str| Regex::new(pattern).expect("the pattern is a valid constant");
    let whole = |pattern: &str| compiled(&format!("^(?:{pattern})$"));
    Patterns {
        label: whole(LABEL),
        subdomain: whole(SUBDOMAIN),
        label_1035: whole(LABEL_1035),
        label_key: whole(LABEL_KEY),
        label_value: whole(LABEL_VALUE),
        uuid: compiled(UUID),
        date_time: compiled(DATE_TIME),
    }
});

fn pattern_problem(message: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{message} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

fn too_long(text: &str, most: usize) -> Vec<String> {
    if text.len() > most { vec![format!("must be no more than {most} characters")] } else { Vec::new() }
}

pub(super) fn is_dns1123_label(text: &str) -> Vec<String> {
    let mut problems = too_long(text, 63);
    if !PATTERNS.label.is_match(text) {
        problems.push(if PATTERNS.subdomain.is_match(text) {
            "must not contain dots".into()
        } else {
            pattern_problem(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                LABEL,
                &["my-name", "123-abc"],
            )
        });
    }
    problems
}

pub(super) fn is_dns1123_subdomain(text: &str) -> Vec<String> {
    let mut problems = too_long(text, 253);
    if !PATTERNS.subdomain.is_match(text) {
        problems.push(pattern_problem(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            SUBDOMAIN,
            &["example.com"],
        ));
    }
    problems
}

fn is_dns1035_label(text: &str) -> Vec<String> {
    let mut problems = too_long(text, 63);
    if !PATTERNS.label_1035.is_match(text) {
        problems.push(pattern_problem(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            LABEL_1035,
            &["my-name", "abc-123"],
        ));
    }
    problems
}

fn is_qualified_name(text: &str) -> Vec<String> {
    let message = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    let shape = || pattern_problem(message, LABEL_KEY, &["MyName", "my.name", "123-abc"]);
    let mut problems = Vec::new();
    let mut parts = text.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => name,
        (Some(prefix), Some(name), None) => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".into());
            } else {
                problems.extend(
                    is_dns1123_subdomain(prefix).into_iter().map(|problem| format!("prefix part {problem}")),
                );
            }
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                shape()
            )];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".into());
    } else if name.len() > 63 {
        problems.push("name part must be no more than 63 bytes".into());
    }
    if !PATTERNS.label_key.is_match(name) {
        problems.push(format!("name part {}", shape()));
    }
    problems
}

fn is_label_value(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push("must be no more than 63 bytes".into());
    }
    if !PATTERNS.label_value.is_match(text) {
        problems.push(pattern_problem(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            LABEL_VALUE,
            &["MyValue", "my_value", "12345"],
        ));
    }
    problems
}

/// A prefix may end in a dash, since something will follow it. As in Kubernetes, the character before
/// the dash is not looked at.
fn mask_trailing_dash(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(before) if !before.is_empty() => {
            let kept: String = before.chars().take(before.chars().count() - 1).collect();
            kept + "a"
        }
        _ => text.into(),
    }
}

fn unless(holds: bool, problem: &str) -> Vec<String> {
    if holds { Vec::new() } else { vec![problem.into()] }
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    Timestamp::parse_date(date).is_some()
        && PATTERNS
            .date_time
            .captures(time)
            .is_some_and(|parts| &parts[1] <= "23" && &parts[2] <= "59" && &parts[3] <= "59")
}

macro_rules! formats {
    ($($index:literal, $key:literal, $name:literal, $function:ident, $size:expr, $problems:expr;)*) => {
        static FORMATS: &[(&str, NamedFormat)] = &[
            $(($key, NamedFormat { name: $name, pattern_size: $size as u64, problems: $problems }),)*
        ];

        $(fn $function<'a>(_: &[Val<'a>]) -> Evaluated<'a> {
            Ok(Val::Extension(Extension::Format(&FORMATS[$index].1)))
        })*

        /// The functions that return a format.
        pub(super) fn constructors()
        -> impl Iterator<Item = (&'static str, for<'a> fn(&[Val<'a>]) -> Evaluated<'a>)> {
            let all: Vec<(&'static str, for<'a> fn(&[Val<'a>]) -> Evaluated<'a>)> =
                vec![$((concat!("format.", $key), $function),)*];
            all.into_iter()
        }
    };
}

formats! {
    0, "dns1123Label", "DNS1123Label", dns1123_label, 30, is_dns1123_label;
    1, "dns1123Subdomain", "DNS1123Subdomain", dns1123_subdomain, 60, is_dns1123_subdomain;
    2, "dns1035Label", "DNS1035Label", dns1035_label, 30, is_dns1035_label;
    3, "qualifiedName", "QualifiedName", qualified_name, 60, is_qualified_name;
    4, "dns1123LabelPrefix", "DNS1123LabelPrefix", dns1123_label_prefix, 30,
        |text| is_dns1123_label(&mask_trailing_dash(text));
    5, "dns1123SubdomainPrefix", "DNS1123SubdomainPrefix", dns1123_subdomain_prefix, 60,
        |text| is_dns1123_subdomain(&mask_trailing_dash(text));
    6, "dns1035LabelPrefix", "DNS1035LabelPrefix", dns1035_label_prefix, 30,
        |text| is_dns1035_label(&mask_trailing_dash(text));
    7, "labelValue", "LabelValue", label_value, 40, is_label_value;
    8, "uri", "URI", uri, 1103, |text| url::parse_request_uri(text).err().into_iter().collect();
    9, "uuid", "uuid", uuid, UUID.len(),
        |text| unless(PATTERNS.uuid.is_match(text), "does not match the UUID format");
    10, "byte", "byte", byte, 84,
        |text| unless(
            !text.is_empty() && !text.contains(['\r', '\n']) && base64::decode(text).is_some(),
            "invalid base64",
        );
    11, "date", "date", date, DATE_TIME.len(),
        |text| unless(Timestamp::parse_date(text).is_some(), "invalid date");
    12, "datetime", "datetime", date_time, DATE_TIME.len(),
        |text| unless(is_date_time(text), "invalid datetime");
}

pub(super) fn named<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let [Val::String(name)] = args else { return Err(EvalError::no_such_overload()) };
    Ok(match FORMATS.iter().find(|(key, _)| *key == &**name) {
        Some((_, format)) => Val::optional(Val::Extension(Extension::Format(format))),
        None => Val::Optional(None),
    })
}

pub(super) fn validate<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let [Val::Extension(Extension::Format(format)), Val::String(text)] = args else {
        return Err(EvalError::no_such_overload());
    };
    let problems = (format.problems)(text);
    if problems.is_empty() {
        return Ok(Val::Optional(None));
    }
    Ok(Val::optional(Val::from(problems.into_iter().map(Val::from).collect::<Vec<_>>())))
}
