//! Regular expressions in Go's syntax, run by the `regex` crate.
//!
//! The two syntaxes differ in what `\d`, `\w`, `\s` and `\b` mean beyond ASCII and in what may stand
//! unescaped, so a pattern is translated first.

use regex::{Regex, RegexBuilder};

use crate::{
    eval::EvalError,
    value::{Evaluated, Val},
};

/// Compiled patterns may not take more memory than this.
const MAX_SIZE: usize = 10 << 20;

/// Compiles a pattern; the error is worded as Go words it where it is known how.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let translated = translate(pattern)?;
    RegexBuilder::new(&translated)
        .size_limit(MAX_SIZE)
        .build()
        .map_err(|error| format!("error parsing regexp: {}", go_error(pattern, &error)))
}

fn go_error(pattern: &str, error: &regex::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit("error: ").next().unwrap_or(&text).trim();
    match what {
        "unclosed group" => format!("missing closing ): `{pattern}`"),
        "unopened group" => format!("unexpected ): `{pattern}`"),
        "unclosed character class" => format!("missing closing ]: `{}`", from_last(pattern, '[')),
        "repetition operator missing expression" => "missing argument to repetition operator: `*`".into(),
        "incomplete escape sequence, reached end of pattern prematurely" => {
            "trailing backslash at end of expression: ``".into()
        }
        _ => format!("{what}: `{pattern}`"),
    }
}

fn from_last(pattern: &str, c: char) -> &str {
    pattern.rfind(c).map_or(pattern, |at| &pattern[at..])
}

/// The pattern of a call whose pattern is not a constant.
pub(crate) fn dynamic(args: &[Val<'_>]) -> Result<Regex, EvalError> {
    match args.get(1) {
        Some(Val::String(pattern)) => compile(pattern).map_err(EvalError::new),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(super) fn matches<'a>(pattern: &Regex, args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::String(text), _] => Ok(Val::Bool(pattern.is_match(text))),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(super) fn find<'a>(pattern: &Regex, args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::String(text), _] => {
            Ok(Val::from(pattern.find(text).map_or(String::new(), |found| found.as_str().to_owned())))
        }
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(super) fn find_all<'a>(pattern: &Regex, args: &[Val<'a>]) -> Evaluated<'a> {
    let (text, limit) = match args {
        [Val::String(text), _] => (text, -1),
        [Val::String(text), _, Val::Int(limit)] => (text, *limit),
        _ => return Err(EvalError::no_such_overload()),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let found = pattern.find_iter(text).take(limit);
    Ok(Val::from(found.map(|found| Val::from(found.as_str().to_owned())).collect::<Vec<_>>()))
}

/// Length of the repetition operator at the beginning, with the mark that makes it lazy.
fn repetition(chars: &[char]) -> usize {
    let length = match chars.first() {
        Some('*' | '+' | '?') => 1,
        Some('{') if is_repetition(chars) => chars.iter().position(|c| *c == '}').map_or(0, |end| end + 1),
        _ => return 0,
    };
    length + usize::from(chars.get(length) == Some(&'?'))
}

fn translate(pattern: &str) -> Result<String, String> {
    let chars: Vec<char> = pattern.chars().collect();
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut at = 0;
    let mut in_class = false;
    while let Some(&c) = chars.get(at) {
        let next = chars.get(at + 1).copied();
        if !in_class && c != '\\' {
            let first = repetition(&chars[at..]);
            let second = if first == 0 { 0 } else { repetition(&chars[at + first..]) };
            if second > 0 {
                let both: String = chars[at..at + first + second].iter().collect();
                return Err(format!("error parsing regexp: invalid nested repetition operator: `{both}`"));
            }
            out.extend(&chars[at..at + first]);
            at += first;
            if first > 0 {
                continue;
            }
        }
        match c {
            '\\' => {
                at += escape(&chars[at..], in_class, &mut out);
                continue;
            }
            '[' if in_class && next == Some(':') => {
                let end = chars[at..].iter().position(|c| *c == ']').map_or(chars.len(), |end| at + end + 1);
                out.extend(&chars[at..end]);
                at = end;
                continue;
            }
            '[' if in_class => out.push_str("\\["),
            '[' => {
                in_class = true;
                out.push('[');
                if next == Some('^') {
                    out.push('^');
                    at += 1;
                }
                // A closing bracket that comes first is a member of the class.
                if chars.get(at + 1) == Some(&']') {
                    out.push_str("\\]");
                    at += 1;
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            '-' if in_class && next == Some('-') => out.push_str("\\-"),
            '{' if !in_class => out.push_str("\\{"),
            c => out.push(c),
        }
        at += 1;
    }
    Ok(out)
}

/// Writes an escape sequence and tells its length.
fn escape(chars: &[char], in_class: bool, out: &mut String) -> usize {
    let Some(&c) = chars.get(1) else {
        out.push('\\');
        return 1;
    };
    let (outside, inside) = match c {
        'd' => ("[0-9]", "0-9"),
        'D' => ("[^0-9]", "[^0-9]"),
        'w' => ("[0-9A-Za-z_]", "0-9A-Za-z_"),
        'W' => ("[^0-9A-Za-z_]", "[^0-9A-Za-z_]"),
        's' => ("[\\t\\n\\f\\r ]", "\\t\\n\\f\\r "),
        'S' => ("[^\\t\\n\\f\\r ]", "[^\\t\\n\\f\\r ]"),
        'b' if !in_class => ("(?-u:\\b)", ""),
        'B' if !in_class => ("(?-u:\\B)", ""),
        '<' => ("<", "<"),
        '>' => (">", ">"),
        'Q' if !in_class => {
            let end = chars.windows(2).position(|pair| pair == ['\\', 'E']).unwrap_or(chars.len());
            let quoted: String = chars[2..end.max(2)].iter().collect();
            out.push_str(&regex::escape(&quoted));
            return (end + 2).min(chars.len().max(2));
        }
        _ => {
            out.push('\\');
            out.push(c);
            return 2;
        }
    };
    out.push_str(if in_class { inside } else { outside });
    2
}

fn is_repetition(chars: &[char]) -> bool {
    let Some(end) = chars.iter().position(|c| *c == '}') else { return false };
    let inside: String = chars[1..end].iter().collect();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match inside.split_once(',') {
        Some((least, most)) => is_number(least) && (most.is_empty() || is_number(most)),
        None => is_number(&inside),
    }
}

#[cfg(test)]
mod tests {
    use super::compile;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        for (pattern, text, matches) in [
            (r"^\d+$", "12", true),
            (r"^\d+$", "١", false),
            (r"^\w+$", "é", false),
            (r"^[\w.-]+$", "a.b-c", true),
            (r"^a{,2}$", "a{,2}", true),
            (r"^a{1,2}$", "aa", true),
            (r"^[[]$", "[", true),
            (r"^[]a]$", "]", true),
            (r"^[a&&b]+$", "&", true),
            (r"^[[:alpha:]]+$", "abc", true),
            (r"\Qa.b\E", "a.b", true),
            (r"\Qa.b\E", "axb", false),
            (r"^\<a\>$", "<a>", true),
            (r"\bfoo\b", "a foo b", true),
            (r"^[^\d]$", "x", true),
        ] {
            assert_eq!(compile(pattern).unwrap().is_match(text), matches, "{pattern} on {text}");
        }
        assert_eq!(compile("(").unwrap_err(), "error parsing regexp: missing closing ): `(`");
    }
}
