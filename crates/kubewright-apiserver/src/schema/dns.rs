//! Names as DNS and labels know them, with the sentences Kubernetes refuses others with.

/// Why `value` is not a DNS-1035 label; empty if it is one.
pub(crate) fn label_1035(value: &str) -> Vec<String> {
    let mut problems = too_long(value, 63);
    let starts = value.starts_with(|first: char| first.is_ascii_lowercase());
    if !starts || !is_label(value) {
        problems.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
             alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', \
             regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    problems
}

/// Why `value` is not a DNS-1123 label; empty if it is one.
pub(crate) fn label_1123(value: &str) -> Vec<String> {
    let mut problems = too_long(value, 63);
    if !is_label(value) {
        problems.push(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
             start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
             validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    problems
}

/// Why `value` is not a DNS-1123 subdomain; empty if it is one.
pub(crate) fn subdomain(value: &str) -> Vec<String> {
    let mut problems = too_long(value, 253);
    if !value.split('.').all(is_label) {
        problems.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
             and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
             validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    problems
}

/// Why `value` is not a label key; empty if it is one.
pub(crate) fn qualified_name(value: &str) -> Vec<String> {
    const SHAPE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
         an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
         '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let mut problems = Vec::new();
    let parts: Vec<&str> = value.split('/').collect();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else {
                problems
                    .extend(subdomain(prefix).into_iter().map(|problem| format!("prefix part {problem}")));
            }
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {SHAPE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else {
        problems.extend(too_long(name, 63).into_iter().map(|problem| format!("name part {problem}")));
    }
    if !is_word(name) {
        problems.push(format!("name part {SHAPE}"));
    }
    problems
}

/// Why `value` is not the value of a label; empty if it is one.
pub(crate) fn label_value(value: &str) -> Vec<String> {
    let mut problems = too_long(value, 63);
    if !value.is_empty() && !is_word(value) {
        problems.push(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
             must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', \
             regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                .to_owned(),
        );
    }
    problems
}

fn too_long(value: &str, most: usize) -> Vec<String> {
    if value.len() > most { vec![format!("must be no more than {most} bytes")] } else { Vec::new() }
}

/// `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
pub(crate) fn is_label(value: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = value.as_bytes();
    bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
}

/// `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`
fn is_word(value: &str) -> bool {
    let bytes = value.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}
