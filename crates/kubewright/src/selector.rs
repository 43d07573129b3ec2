//! Label selectors as people write them: `app=web,tier in (front, back),!legacy`.

use kube::core::{Expression, Selector};

/// Reads a selector; else what is wrong with it.
pub(crate) fn parse(text: &str) -> Result<Selector, String> {
    let mut expressions = Vec::new();
    for part in split(text) {
        let part = part.trim();
        if !part.is_empty() {
            expressions.push(expression(part).ok_or_else(|| format!("{part:?} is not a label selector"))?);
        }
    }
    Ok(expressions.into_iter().collect())
}

/// Splits at commas outside of parentheses.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    text.split(move |character| {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        character == ',' && depth == 0
    })
}

fn expression(part: &str) -> Option<Expression> {
    let key = |text: &str| {
        let text = text.trim();
        let is_word = !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || "=!()<>".contains(c));
        is_word.then(|| text.to_owned())
    };
    let set = |text: &str| {
        let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
        Some(inner.split(',').map(|value| value.trim().to_owned()).collect())
    };
    if let Some((left, right)) = part.split_once(" notin ") {
        return Some(Expression::NotIn(key(left)?, set(right)?));
    }
    if let Some((left, right)) = part.split_once(" in ") {
        return Some(Expression::In(key(left)?, set(right)?));
    }
    if let Some((left, right)) = part.split_once("!=") {
        return Some(Expression::NotEqual(key(left)?, right.trim().to_owned()));
    }
    if let Some((left, right)) = part.split_once('=') {
        return Some(Expression::Equal(key(left)?, right.trim_start_matches('=').trim().to_owned()));
    }
    match part.strip_prefix('!') {
        Some(rest) => Some(Expression::DoesNotExist(key(rest)?)),
        None => Some(Expression::Exists(key(part)?)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kube::core::SelectorExt as _;

    use super::parse;

    fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
        let labels: BTreeMap<String, String> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        parse(selector).expect("a selector").matches(&labels)
    }

    #[test]
    fn every_form_of_a_selector_matches_as_kubectl_would() {
        let web = [("app", "web"), ("tier", "front")];
        for selector in
            ["", "app=web", "app==web", "app = web, tier=front", "tier in (front, back)", "app", "!gone"]
        {
            assert!(matches(selector, &web), "{selector}");
        }
        for selector in ["app=db", "app!=web", "tier notin (front,back)", "!app", "gone", "app=web,tier=back"]
        {
            assert!(!matches(selector, &web), "{selector}");
        }
    }

    #[test]
    fn what_is_not_a_selector_is_refused_by_name() {
        let why = parse("app=web,tier in front").expect_err("no parentheses");
        assert_eq!(why, "\"tier in front\" is not a label selector");
    }
}
