//! What names, keys and values of the API may look like.
//!
//! A check takes a text and gives back what is wrong with it, in the words of apimachinery; nothing for a
//! good text. The checks of whole metadata, built on these, are [`validate_object_meta`] and
//! [`validate_object_meta_update`]. Checks run on every write, so they walk bytes instead of running
//! expressions, and never allocate for a good text.

mod metadata;

pub(crate) use metadata::{
    validate_annotations, validate_label_name, validate_labels, validate_object_meta,
    validate_object_meta_update,
};

/// The check of a kind's names. The flag is set for a `generateName`, to which something will be added.
pub(crate) type NameCheck = fn(name: &str, prefix: bool) -> Vec<String>;

const DNS1123_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS1123_SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const QUALIFIED_NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_NAME_WORDS: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// Longest DNS label.
pub(crate) const LABEL_MAX: usize = 63;
/// Longest DNS subdomain, and so the longest name of most kinds.
pub(crate) const SUBDOMAIN_MAX: usize = 253;

/// A name that is a DNS subdomain: the rule of most kinds.
pub(crate) fn name_is_dns_subdomain(name: &str, prefix: bool) -> Vec<String> {
    if prefix { dns1123_subdomain(&masked(name)) } else { dns1123_subdomain(name) }
}

/// A name that is a DNS label: the rule of namespaces.
pub(crate) fn name_is_dns_label(name: &str, prefix: bool) -> Vec<String> {
    if prefix { dns1123_label(&masked(name)) } else { dns1123_label(name) }
}

/// A name that fits into a path: the rule of roles and their bindings.
pub(crate) fn name_is_path_segment(name: &str, prefix: bool) -> Vec<String> {
    if prefix { path_segment_prefix(name) } else { path_segment(name) }
}

/// A prefix may end in a dash, since something will follow it.
fn masked(name: &str) -> String {
    match name.strip_suffix('-') {
        Some(stem) if !stem.is_empty() => {
            let mut stem = stem.to_owned();
            stem.pop();
            stem + "a"
        }
        _ => name.to_owned(),
    }
}

fn too_long(max: usize) -> String {
    format!("must be no more than {max} characters")
}

fn too_many_bytes(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// How apimachinery says that a text does not match an expression.
pub(crate) fn regex_error(message: &str, expression: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{message} (regex used for validation is '{expression}')");
    }
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{message} (e.g. {}regex used for validation is '{expression}')", examples.join(" or "))
}

fn lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Not empty, `inner` all through, and `edge` at both ends.
fn framed(text: &str, edge: fn(u8) -> bool, inner: fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(&first), Some(&last)) => edge(first) && edge(last) && bytes.iter().all(|&byte| inner(byte)),
        _ => false,
    }
}

fn is_label(text: &str) -> bool {
    framed(text, lower, |byte| lower(byte) || byte == b'-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_qualified_part(text: &str) -> bool {
    framed(
        text,
        |byte| byte.is_ascii_alphanumeric(),
        |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'),
    )
}

/// A DNS label as of RFC 1123.
pub(crate) fn dns1123_label(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > LABEL_MAX {
        problems.push(too_long(LABEL_MAX));
    }
    if !is_label(text) {
        problems.push(if is_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            regex_error(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                DNS1123_LABEL,
                &["my-name", "123-abc"],
            )
        });
    }
    problems
}

const SUBDOMAIN_WORDS: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";

/// A DNS subdomain as of RFC 1123.
pub(crate) fn dns1123_subdomain(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        problems.push(too_long(SUBDOMAIN_MAX));
    }
    if !is_subdomain(text) {
        problems.push(regex_error(SUBDOMAIN_WORDS, DNS1123_SUBDOMAIN, &["example.com"]));
    }
    problems
}

/// A DNS subdomain whose labels may also contain, and start with, an underscore.
pub(crate) fn dns1123_subdomain_with_underscore(text: &str) -> Vec<String> {
    let label = |label: &str| {
        let rest = label.strip_prefix('_').unwrap_or(label);
        framed(rest, lower, |byte| lower(byte) || matches!(byte, b'-' | b'_'))
    };
    let mut problems = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        problems.push(too_long(SUBDOMAIN_MAX));
    }
    if !text.split('.').all(label) {
        problems.push(regex_error(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character",
            r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*",
            &["example.com"],
        ));
    }
    problems
}

/// A DNS label as of RFC 1035: it starts with a letter.
pub(crate) fn dns1035_label(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > LABEL_MAX {
        problems.push(too_long(LABEL_MAX));
    }
    if !is_label(text) || !text.starts_with(|first: char| first.is_ascii_lowercase()) {
        problems.push(regex_error(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    problems
}

/// A DNS subdomain under a wildcard, such as `*.example.com`.
pub(crate) fn wildcard_dns1123_subdomain(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        problems.push(too_long(SUBDOMAIN_MAX));
    }
    if !text.strip_prefix("*.").is_some_and(is_subdomain) {
        problems.push(regex_error(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            &format!(r"\*\.{DNS1123_SUBDOMAIN}"),
            &["*.example.com"],
        ));
    }
    problems
}

/// The key of a label, annotation or finalizer: a name with an optional DNS prefix.
pub(crate) fn qualified_name(text: &str) -> Vec<String> {
    const EXAMPLES: [&str; 3] = ["MyName", "my.name", "123-abc"];
    let mut problems = Vec::new();
    let mut parts = text.split('/');
    let (first, second, third) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    if third.is_some() {
        let words = regex_error(QUALIFIED_NAME_WORDS, QUALIFIED_NAME, &EXAMPLES);
        return vec![format!(
            "a valid label key {words} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )];
    }
    let name = match second {
        None => first,
        Some(name) => {
            if first.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else {
                if first.len() > SUBDOMAIN_MAX {
                    problems.push(format!("prefix part {}", too_many_bytes(SUBDOMAIN_MAX)));
                }
                if !is_subdomain(first) {
                    let words = regex_error(SUBDOMAIN_WORDS, DNS1123_SUBDOMAIN, &["example.com"]);
                    problems.push(format!("prefix part {words}"));
                }
            }
            name
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        problems.push(format!("name part {}", too_many_bytes(LABEL_MAX)));
    }
    if !is_qualified_part(name) {
        let words = regex_error(QUALIFIED_NAME_WORDS, QUALIFIED_NAME, &EXAMPLES);
        problems.push(format!("name part {words}"));
    }
    problems
}

/// The value of a label.
pub(crate) fn label_value(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > LABEL_MAX {
        problems.push(too_many_bytes(LABEL_MAX));
    }
    if !text.is_empty() && !is_qualified_part(text) {
        problems.push(regex_error(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            &format!("({QUALIFIED_NAME})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    problems
}

/// A name that can be a segment of a path.
pub(crate) fn path_segment(text: &str) -> Vec<String> {
    match text {
        "." | ".." => vec![format!("may not be '{text}'")],
        _ => path_segment_prefix(text),
    }
}

fn path_segment_prefix(text: &str) -> Vec<String> {
    ['/', '%']
        .iter()
        .filter(|&&bad| text.contains(bad))
        .map(|bad| format!("may not contain '{bad}'"))
        .collect()
}

/// The name of a port (`IANA_SVC_NAME`).
pub(crate) fn port_name(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 15 {
        problems.push(too_long(15));
    }
    if text.is_empty() || !text.bytes().all(|byte| lower(byte) || byte == b'-') {
        problems.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        problems.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        problems.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        problems.push("must not begin or end with a hyphen".to_owned());
    }
    problems
}

/// A percentage, such as `25%`.
pub(crate) fn percent(text: &str) -> Vec<String> {
    let good = text
        .strip_suffix('%')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()));
    if good {
        return Vec::new();
    }
    vec![regex_error(
        "a valid percent string must be a numeric string followed by an ending '%'",
        "[0-9]+%",
        &["1%", "93%"],
    )]
}

/// The name of an HTTP header.
pub(crate) fn http_header_name(text: &str) -> Vec<String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Vec::new();
    }
    vec![regex_error(
        "a valid HTTP header must consist of alphanumeric characters or '-'",
        "[-A-Za-z0-9]+",
        &["X-Header-Name"],
    )]
}

/// The name of an environment variable, by the rule that pods follow.
pub(crate) fn relaxed_env_var_name(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.is_empty() {
        problems.push("environment variable name must be non-empty".to_owned());
    }
    if text.bytes().any(|byte| !(b' '..=b'~').contains(&byte) || byte == b'=') {
        problems.push(
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
                .to_owned(),
        );
    }
    problems
}

/// A key of a ConfigMap or Secret.
pub(crate) fn config_map_key(text: &str) -> Vec<String> {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let mut problems = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        problems.push(too_long(SUBDOMAIN_MAX));
    }
    if text.is_empty() || !text.bytes().all(inner) {
        problems.push(regex_error(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    problems.extend(parent_directory(text));
    problems
}

fn parent_directory(text: &str) -> Option<String> {
    match text {
        "." | ".." => Some(format!("must not be '{text}'")),
        _ if text.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
