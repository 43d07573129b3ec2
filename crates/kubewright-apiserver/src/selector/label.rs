//! Selectors by label, from a query or an object.

use std::fmt;

use serde_json::{Map, Value};

use super::write_joined;
use crate::{
    error::ApiError,
    field::{FieldError, Path},
    names,
};

/// How a label has to relate to the values of a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    /// `=`
    Equals,
    /// `==`
    DoubleEquals,
    /// `!=`
    NotEquals,
    /// `in`
    In,
    /// `notin`
    NotIn,
    /// Is there.
    Exists,
    /// `!`
    DoesNotExist,
    /// `>`
    GreaterThan,
    /// `<`
    LessThan,
}

/// One condition on a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Requirement {
    /// Key of the label.
    pub(crate) key: String,
    /// How the label relates to the values.
    pub(crate) operator: Operator,
    /// The values, sorted and each once if they were parsed.
    pub(crate) values: Vec<String>,
}

impl Requirement {
    fn checked(key: &str, operator: Operator, values: Vec<String>) -> Result<Self, String> {
        let root = Path::default();
        let value_path = root.child("values");
        let mut errors: Vec<FieldError> = invalid_key(key, &root.child("key")).into_iter().collect();
        let mut refuse = |why: &str| {
            errors.push(FieldError::invalid(&value_path, values.clone(), why));
        };
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                refuse("for 'in', 'notin' operators, values set can't be empty");
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                refuse("values set must be empty for exists and does not exist");
            }
            Operator::GreaterThan | Operator::LessThan => {
                for (index, value) in values.iter().enumerate() {
                    if value.parse::<i64>().is_err() {
                        errors.push(FieldError::invalid(
                            &value_path.index(index),
                            value.as_str(),
                            "for 'Gt', 'Lt' operators, the value must be an integer",
                        ));
                    }
                }
            }
            _ => {}
        }
        for (index, value) in values.iter().enumerate() {
            let problems = names::label_value(value);
            if !problems.is_empty() {
                let path = value_path.index(index).key(key);
                errors.push(FieldError::invalid(&path, value.as_str(), problems.join("; ")));
            }
        }
        match errors.as_slice() {
            [] => Ok(Self { key: key.to_owned(), operator, values }),
            [one] => Err(one.to_string()),
            many => {
                let list: Vec<String> = many.iter().map(ToString::to_string).collect();
                Err(format!("[{}]", list.join(", ")))
            }
        }
    }

    fn matches(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|one| one == value);
        let number = |text: &str| text.parse::<i64>().ok();
        match self.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => value.is_some_and(listed),
            Operator::NotEquals | Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan | Operator::LessThan => {
                let bound = self.values.first().and_then(|bound| number(bound));
                match (value.and_then(number), bound) {
                    (Some(value), Some(bound)) if self.operator == Operator::GreaterThan => value > bound,
                    (Some(value), Some(bound)) => value < bound,
                    _ => false,
                }
            }
        }
    }
}

fn invalid_key(key: &str, path: &Path) -> Option<FieldError> {
    let problems = names::qualified_name(key);
    (!problems.is_empty()).then(|| FieldError::invalid(path, key, problems.join("; ")))
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, mut values) = (&self.key, self.values.clone());
        values.sort_unstable();
        let values = values.join(",");
        match self.operator {
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// Conditions on the labels of an object, all of which must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LabelSelector {
    /// Sorted by key. `None` selects nothing at all.
    requirements: Option<Vec<Requirement>>,
}

impl LabelSelector {
    /// Selects every object.
    pub(crate) const fn everything() -> Self {
        Self { requirements: Some(Vec::new()) }
    }

    /// Selects no object.
    pub(crate) const fn nothing() -> Self {
        Self { requirements: None }
    }

    fn from_requirements(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|left, right| left.key.cmp(&right.key));
        Self { requirements: Some(requirements) }
    }

    /// Reads a selector as it stands in a query.
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        let tokens = scan(text);
        Parser { tokens, position: 0 }.parse().map(Self::from_requirements).map_err(ApiError::bad_request)
    }

    /// The selector of plain labels, such as the one of a Service. No labels select everything.
    pub(crate) fn from_labels(labels: &Map<String, Value>) -> Self {
        let requirement = |(key, value): (&String, &Value)| Requirement {
            key: key.clone(),
            operator: Operator::Equals,
            values: vec![value.as_str().unwrap_or_default().to_owned()],
        };
        Self::from_requirements(labels.iter().map(requirement).collect())
    }

    /// The selector of an object with `matchLabels` and `matchExpressions`. Nothing selects nothing, and an
    /// empty object everything.
    pub(crate) fn from_object(selector: Option<&Value>) -> Result<Self, String> {
        let Some(selector) = selector.filter(|selector| !selector.is_null()) else {
            return Ok(Self::nothing());
        };
        let mut requirements = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(Requirement::checked(key, Operator::Equals, vec![value])?);
        }
        for expression in expressions(selector) {
            let operator = match expression.operator {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(format!("{other:?} is not a valid label selector operator")),
            };
            let values = expression.values.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            requirements.push(Requirement::checked(expression.key, operator, values)?);
        }
        Ok(Self::from_requirements(requirements))
    }

    /// The conditions; empty also for a selector of nothing.
    pub(crate) fn requirements(&self) -> &[Requirement] {
        self.requirements.as_deref().unwrap_or_default()
    }

    /// Whether it lets every object through.
    pub(crate) fn is_everything(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether labels fulfil every condition.
    pub(crate) fn matches(&self, labels: Option<&Map<String, Value>>) -> bool {
        self.matches_with(|key| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str))
    }

    /// Whether labels, looked up by `value`, fulfil every condition.
    pub(crate) fn matches_with<'a>(&self, value: impl Fn(&str) -> Option<&'a str>) -> bool {
        match &self.requirements {
            Some(requirements) => requirements.iter().all(|one| one.matches(value(&one.key))),
            None => false,
        }
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_joined(f, self.requirements())
    }
}

struct Expression<'a> {
    key: &'a str,
    operator: &'a str,
    values: &'a [Value],
}

fn expressions(selector: &Value) -> impl Iterator<Item = Expression<'_>> {
    let list = selector.get("matchExpressions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    list.iter().map(|expression| {
        let text = |field: &str| expression.get(field).and_then(Value::as_str).unwrap_or_default();
        let values = expression.get("values").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        Expression { key: text("key"), operator: text("operator"), values }
    })
}

/// What is wrong with a selector object. `tolerate_values` lets bad label values pass, for objects that
/// were stored before these were checked.
pub(crate) fn validate_label_selector(
    selector: Option<&Value>,
    tolerate_values: bool,
    path: &Path,
) -> Vec<FieldError> {
    let Some(selector) = selector else { return Vec::new() };
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let mut errors = names::validate_labels(labels, &path.child("matchLabels"));
    for (index, expression) in expressions(selector).enumerate() {
        let path = path.child("matchExpressions").index(index);
        match expression.operator {
            "In" | "NotIn" if expression.values.is_empty() => errors.push(FieldError::required(
                &path.child("values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if !expression.values.is_empty() => errors.push(FieldError::forbidden(
                &path.child("values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                errors.push(FieldError::invalid(
                    &path.child("operator"),
                    other,
                    "not a valid selector operator",
                ));
            }
        }
        errors.extend(names::validate_label_name(expression.key, &path.child("key")));
        if tolerate_values {
            continue;
        }
        for (index, value) in expression.values.iter().filter_map(Value::as_str).enumerate() {
            let path = path.child("values").index(index);
            errors.extend(
                names::label_value(value).into_iter().map(|why| FieldError::invalid(&path, value, why)),
            );
        }
    }
    errors
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Error,
    End,
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Identifier,
    In,
    Less,
    NotEquals,
    NotIn,
    Open,
}

fn symbol(text: &str) -> Option<Token> {
    Some(match text {
        ")" => Token::Close,
        "," => Token::Comma,
        "!" => Token::Not,
        "==" => Token::DoubleEquals,
        "=" => Token::Equals,
        ">" => Token::Greater,
        "<" => Token::Less,
        "!=" => Token::NotEquals,
        "(" => Token::Open,
        _ => return None,
    })
}

/// The words and symbols of a selector; the last one is always the end.
fn scan(text: &str) -> Vec<(Token, String)> {
    let special = |c: char| "=!(),><".contains(c);
    let blank = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    // The end of the text and a zero are the same to the real scanner.
    let text = text.split('\0').next().unwrap_or_default();
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(blank);
    while let Some(first) = rest.chars().next() {
        if special(first) {
            let run = rest.find(|c| !special(c)).unwrap_or(rest.len());
            let length = if run >= 2 && symbol(&rest[..2]).is_some() { 2 } else { 1 };
            match symbol(&rest[..length]) {
                Some(token) => tokens.push((token, rest[..length].to_owned())),
                None => tokens
                    .push((Token::Error, format!("error expected: keyword found '{}'", &rest[..length]))),
            }
            rest = &rest[length..];
        } else {
            let length = rest.find(|c| special(c) || blank(c)).unwrap_or(rest.len());
            let token = match &rest[..length] {
                "in" => Token::In,
                "notin" => Token::NotIn,
                _ => Token::Identifier,
            };
            tokens.push((token, rest[..length].to_owned()));
            rest = &rest[length..];
        }
        rest = rest.trim_start_matches(blank);
    }
    tokens.push((Token::End, String::new()));
    tokens
}

struct Parser {
    tokens: Vec<(Token, String)>,
    position: usize,
}

impl Parser {
    /// The token at the position; `in` and `notin` are ordinary words unless an operator is due.
    fn peek(&self, operator_due: bool) -> (Token, &str) {
        let (token, text) = &self.tokens[self.position.min(self.tokens.len() - 1)];
        match token {
            Token::In | Token::NotIn if !operator_due => (Token::Identifier, text),
            _ => (*token, text),
        }
    }

    fn next(&mut self, operator_due: bool) -> (Token, String) {
        let (token, text) = self.peek(operator_due);
        let found = (token, text.to_owned());
        self.position += 1;
        found
    }

    fn parse(mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek(false) {
                (Token::Identifier | Token::Not, _) => {
                    let requirement =
                        self.requirement().map_err(|why| format!("unable to parse requirement: {why}"))?;
                    requirements.push(requirement);
                    match self.next(false) {
                        (Token::End, _) => return Ok(requirements),
                        (Token::Comma, _) => {
                            let (token, text) = self.peek(false);
                            if !matches!(token, Token::Identifier | Token::Not) {
                                return Err(format!("found '{text}', expected: identifier after ','"));
                            }
                        }
                        (_, text) => return Err(format!("found '{text}', expected: ',' or 'end of string'")),
                    }
                }
                (Token::End, _) => return Ok(requirements),
                (_, text) => {
                    return Err(format!("found '{text}', expected: !, identifier, or 'end of string'"));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let (mut token, mut key) = self.next(false);
        let negated = token == Token::Not;
        if negated {
            (token, key) = self.next(false);
        }
        if token != Token::Identifier {
            return Err(format!("found '{key}', expected: identifier"));
        }
        if let Some(error) = invalid_key(&key, &Path::default()) {
            return Err(error.to_string());
        }
        // Whatever follows `!key` is left over, and refused by the caller unless it is a comma.
        if negated {
            return Requirement::checked(&key, Operator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek(false).0, Token::End | Token::Comma) {
            return Requirement::checked(&key, Operator::Exists, Vec::new());
        }
        let operator = match self.next(true) {
            (Token::In, _) => Operator::In,
            (Token::NotIn, _) => Operator::NotIn,
            (Token::Equals, _) => Operator::Equals,
            (Token::DoubleEquals, _) => Operator::DoubleEquals,
            (Token::NotEquals, _) => Operator::NotEquals,
            (Token::Greater, _) => Operator::GreaterThan,
            (Token::Less, _) => Operator::LessThan,
            (_, text) => return Err(format!("found '{text}', expected: in, notin, =, ==, !=, gt, lt")),
        };
        let mut values = match operator {
            Operator::In | Operator::NotIn => self.value_list()?,
            _ => vec![self.value()?],
        };
        values.sort_unstable();
        values.dedup();
        Requirement::checked(&key, operator, values)
    }

    fn value(&mut self) -> Result<String, String> {
        if matches!(self.peek(false).0, Token::End | Token::Comma) {
            return Ok(String::new());
        }
        match self.next(false) {
            (Token::Identifier, text) => Ok(text),
            (_, text) => Err(format!("found '{text}', expected: identifier")),
        }
    }

    fn value_list(&mut self) -> Result<Vec<String>, String> {
        match self.next(false) {
            (Token::Open, _) => {}
            (_, text) => return Err(format!("found '{text}' expected: '('")),
        }
        match self.peek(false) {
            (Token::Identifier | Token::Comma, _) => {}
            (Token::Close, _) => {
                self.position += 1;
                return Ok(vec![String::new()]);
            }
            (_, text) => return Err(format!("found '{text}', expected: ',', ')' or identifier")),
        }
        let mut values = Vec::new();
        loop {
            match self.next(false) {
                (Token::Identifier, text) => {
                    values.push(text);
                    match self.peek(false) {
                        (Token::Comma, _) => {}
                        (Token::Close, _) => break,
                        (_, text) => return Err(format!("found '{text}', expected: ',' or ')'")),
                    }
                }
                (Token::Comma, _) => {
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    match self.peek(false).0 {
                        Token::Close => {
                            values.push(String::new());
                            break;
                        }
                        Token::Comma => values.push(String::new()),
                        _ => {}
                    }
                }
                (_, text) => return Err(format!("found '{text}', expected: ',', or identifier")),
            }
        }
        self.position += 1;
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(text: &str) -> Result<String, String> {
        LabelSelector::parse(text).map(|selector| selector.to_string()).map_err(|error| error.message)
    }

    #[test]
    fn a_label_selector_prints_itself_canonically() {
        for (text, canonical) in [
            ("", ""),
            ("b = 1 , a==2", "a==2,b=1"),
            ("x in (b,a,,b)", "x in (,a,b)"),
            ("x notin ()", "x notin ()"),
            ("!a,b", "!a,b"),
            ("a!=", "a!="),
            ("a=,b", "a=,b"),
            ("a>1,b<2", "a>1,b<2"),
            ("in in (in)", "in in (in)"),
        ] {
            assert_eq!(parse(text).as_deref(), Ok(canonical), "{text}");
        }
    }

    #[test]
    fn a_bad_label_selector_is_refused_in_the_words_of_the_server() {
        for (text, why) in [
            ("a,", "found '', expected: identifier after ','"),
            (",", "found ',', expected: !, identifier, or 'end of string'"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a=b=c", "found '=', expected: ',' or 'end of string'"),
            ("a===b", "unable to parse requirement: found '=', expected: identifier"),
            ("!a=b", "found '=', expected: ',' or 'end of string'"),
            (
                "a>x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err(), why, "{text}");
        }
        assert!(parse("-a=b").unwrap_err().starts_with(
            "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of"
        ));
        assert!(parse("a=-").unwrap_err().starts_with(
            "unable to parse requirement: values[0][a]: Invalid value: \"-\": a valid label must be"
        ));
    }

    #[test]
    fn labels_match_by_every_requirement() {
        let labels = json!({"a": "1", "b": "x"});
        for (text, expected) in [
            ("", true),
            ("a", true),
            ("!a", false),
            ("!c", true),
            ("a=1,b=x", true),
            ("a=1,b=y", false),
            ("c!=1", true),
            ("b notin (x,y)", false),
            ("b in (x,y)", true),
            ("a>0", true),
            ("a<1", false),
            ("b>0", false),
        ] {
            let selector = LabelSelector::parse(text).unwrap();
            assert_eq!(selector.matches(labels.as_object()), expected, "{text}");
        }
        assert!(!LabelSelector::parse("a").unwrap().matches(None));
    }

    #[test]
    fn a_selector_object_is_the_same_selector() {
        let object = json!({"matchLabels": {"b": "1"}, "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["y", "x"]}, {"key": "c", "operator": "DoesNotExist"}]});
        let selector = LabelSelector::from_object(Some(&object)).unwrap();
        assert_eq!(selector.to_string(), "a in (x,y),b=1,!c");
        assert!(LabelSelector::from_object(Some(&json!({}))).unwrap().is_everything());
        assert!(!LabelSelector::from_object(None).unwrap().matches(None));
        let bad =
            json!({"matchExpressions": [{"key": "a", "operator": "Gt"}, {"key": "", "operator": "In"}]});
        assert_eq!(
            LabelSelector::from_object(Some(&bad)).unwrap_err(),
            "\"Gt\" is not a valid label selector operator"
        );
        let errors = validate_label_selector(Some(&bad), false, &Path::new("spec.selector"));
        let expected = [
            "spec.selector.matchExpressions[0].operator: Invalid value: \"Gt\": not a valid selector operator",
            "spec.selector.matchExpressions[1].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            "spec.selector.matchExpressions[1].key: Invalid value: \"\": name part must be non-empty",
            "spec.selector.matchExpressions[1].key: Invalid value: \"\": name part must consist of alphanumeric",
        ];
        assert_eq!(errors.len(), expected.len());
        for (error, start) in errors.iter().zip(expected) {
            assert!(error.to_string().starts_with(start), "{error}");
        }
    }
}
