//! Semantic versions, and the comparisons they share with quantities.

use std::cmp::Ordering;

use super::{Extension, standard::go_quote};
use crate::{
    eval::EvalError,
    value::{Evaluated, Val},
};

/// A semantic version. Build metadata does not take part in comparisons.
#[derive(Debug)]
pub struct Version {
    numbers: [u64; 3],
    pre_release: Vec<Identifier>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    /// Numbers come before words.
    Number(u64),
    Word(String),
}

impl Version {
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| {
            match (self.pre_release.is_empty(), other.pre_release.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => self.pre_release.cmp(&other.pre_release),
            }
        })
    }
}

fn number(text: &str, what: &str) -> Result<u64, String> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {what} number {}", go_quote(text)));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!(
            "{} number must not contain leading zeroes {}",
            capitalized(what),
            go_quote(text)
        ));
    }
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {}: value out of range", go_quote(text)))
}

fn capitalized(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + chars.as_str())
}

fn parse(text: &str) -> Result<Version, String> {
    if text.is_empty() {
        return Err("Version string empty".into());
    }
    let mut parts = text.splitn(3, '.');
    let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("No Major.Minor.Patch elements found".into());
    };
    let major = number(major, "major")?;
    let minor = number(minor, "minor")?;
    let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
    let (patch, pre) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
    let patch = number(patch, "patch")?;
    let mut pre_release = Vec::new();
    for identifier in pre.iter().flat_map(|pre| pre.split('.')) {
        pre_release.push(pre_release_identifier(identifier)?);
    }
    for identifier in build.iter().flat_map(|build| build.split('.')) {
        if identifier.is_empty() {
            return Err("Build meta data is empty".into());
        }
        if !is_word(identifier) {
            return Err(format!("Invalid character(s) found in build meta data {}", go_quote(identifier)));
        }
    }
    Ok(Version { numbers: [major, minor, patch], pre_release })
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn pre_release_identifier(text: &str) -> Result<Identifier, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".into());
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {}",
                go_quote(text)
            ));
        }
        return text
            .parse()
            .map(Identifier::Number)
            .map_err(|_| format!("strconv.ParseUint: parsing {}: value out of range", go_quote(text)));
    }
    if !is_word(text) {
        return Err(format!("Invalid character(s) found in prerelease {}", go_quote(text)));
    }
    Ok(Identifier::Word(text.into()))
}

/// Takes a leading `v`, missing minor and patch numbers, and leading zeroes.
fn normalize_and_parse(text: &str) -> Result<Version, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text
        .splitn(3, '.')
        .map(|part| {
            if part.len() <= 1 {
                return part.into();
            }
            let trimmed = part.trim_start_matches('0');
            if trimmed.starts_with(|c: char| c.is_ascii_digit()) {
                trimmed.into()
            } else {
                format!("0{trimmed}")
            }
        })
        .collect();
    if parts.len() < 3 {
        if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err("short version cannot contain PreRelease/Build meta data".into());
        }
        parts.resize(3, "0".into());
    }
    parse(&parts.join("."))
}

fn version(args: &[Val<'_>]) -> Result<Result<Version, String>, EvalError> {
    match args {
        [Val::String(text)] | [Val::String(text), Val::Bool(false)] => Ok(parse(text)),
        [Val::String(text), Val::Bool(true)] => Ok(normalize_and_parse(text)),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(super) fn semver<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let version = version(args)?.map_err(EvalError::new)?;
    Ok(Val::Extension(Extension::Semver(version.into())))
}

pub(super) fn is_semver<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    Ok(Val::Bool(version(args)?.is_ok()))
}

fn part<'a>(args: &[Val<'a>], position: usize) -> Evaluated<'a> {
    match args {
        [Val::Extension(Extension::Semver(version))] => Ok(Val::Int(version.numbers[position] as i64)),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(super) fn major<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    part(args, 0)
}

pub(super) fn minor<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    part(args, 1)
}

pub(super) fn patch<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    part(args, 2)
}

fn compare(args: &[Val<'_>]) -> Result<Ordering, EvalError> {
    match args {
        [Val::Extension(Extension::Semver(one)), Val::Extension(Extension::Semver(two))] => {
            Ok(one.compare(two))
        }
        [Val::Extension(Extension::Quantity(one)), Val::Extension(Extension::Quantity(two))] => {
            Ok(one.cmp(two))
        }
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(super) fn is_greater_than<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    Ok(Val::Bool(compare(args)?.is_gt()))
}

pub(super) fn is_less_than<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    Ok(Val::Bool(compare(args)?.is_lt()))
}

pub(super) fn compare_to<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    Ok(Val::Int(compare(args)? as i64))
}
