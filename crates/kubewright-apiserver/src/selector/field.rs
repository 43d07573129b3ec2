//! Selectors by field, from a query.

use std::fmt;

use super::write_joined;
use crate::error::ApiError;

/// One condition on a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldRequirement {
    /// Name of the field, such as `metadata.name`.
    pub(crate) field: String,
    /// Whether the field must equal the value, or must not.
    pub(crate) equals: bool,
    /// The value.
    pub(crate) value: String,
}

impl fmt::Display for FieldRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
        write!(f, "{}{}{value}", self.field, if self.equals { "=" } else { "!=" })
    }
}

/// Conditions on fields of an object, all of which must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector {
    /// The conditions.
    pub(crate) requirements: Vec<FieldRequirement>,
}

impl FieldSelector {
    /// Reads a selector as it stands in a query.
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        let mut terms = field_terms(text);
        terms.sort_unstable();
        let mut requirements = Vec::new();
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let Some(at) = term.find('=') else {
                return Err(ApiError::bad_request(format!(
                    "invalid selector: '{text}'; can't understand '{term}'"
                )));
            };
            let negated = term[..at].ends_with('!');
            let field = if negated { &term[..at - 1] } else { &term[..at] };
            let value = &term[at + 1..];
            let value = if negated { value } else { value.strip_prefix('=').unwrap_or(value) };
            let value = unescape(value).map_err(ApiError::bad_request)?;
            // A condition on nothing is none.
            if !field.is_empty() || !value.is_empty() {
                requirements.push(FieldRequirement { field: field.to_owned(), equals: !negated, value });
            }
        }
        Ok(Self { requirements })
    }

    /// Whether it lets every object through.
    pub(crate) fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The value that `field` must have, if the selector says so.
    pub(crate) fn exact(&self, field: &str) -> Option<&str> {
        self.requirements.iter().find(|one| one.equals && one.field == field).map(|one| one.value.as_str())
    }

    /// Whether an object fulfils every condition. `value` gives a field's value, which is empty when the
    /// object does not have it.
    pub(crate) fn matches<'a>(&self, value: impl Fn(&str) -> std::borrow::Cow<'a, str>) -> bool {
        self.requirements.iter().all(|one| (value(&one.field) == one.value.as_str()) == one.equals)
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_joined(f, &self.requirements)
    }
}

/// Splits at commas that no backslash escapes.
fn field_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (index, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn unescape(text: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                other => {
                    let other = other.map(String::from).unwrap_or_default();
                    return Err(format!("invalid field selector: invalid escape sequence: \\{other}"));
                }
            },
            ',' | '=' => {
                let code = u32::from(character);
                return Err(format!("invalid field selector: unescaped character in value: {code}"));
            }
            _ => plain.push(character),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_selector_is_split_unescaped_and_printed() {
        let parse =
            |text: &str| FieldSelector::parse(text).map(|one| one.to_string()).map_err(|one| one.message);
        for (text, expected) in [
            ("", Ok("")),
            ("b=1,a!=2", Ok("a!=2,b=1")),
            ("a==b", Ok("a=b")),
            ("!=,=", Ok("")),
            ("a=x\\,y\\=z\\\\", Ok("a=x\\,y\\=z\\\\")),
            ("a", Err("invalid selector: 'a'; can't understand 'a'")),
            ("a=b=c", Err("invalid field selector: unescaped character in value: 61")),
            ("a=\\z", Err("invalid field selector: invalid escape sequence: \\z")),
            ("a=\\", Err("invalid field selector: invalid escape sequence: \\")),
        ] {
            assert_eq!(parse(text).as_deref().map_err(String::as_str), expected, "{text}");
        }
        let selector = FieldSelector::parse("metadata.name=a,type!=b").unwrap();
        assert_eq!(selector.exact("metadata.name"), Some("a"));
        assert!(selector.matches(|field| if field == "metadata.name" { "a".into() } else { "".into() }));
        assert!(!selector.matches(|_| "b".into()));
    }
}
