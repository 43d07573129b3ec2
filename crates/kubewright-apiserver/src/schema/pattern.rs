//! Regular expressions as Go understands them, for `pattern`.
//!
//! Both engines are of the RE2 family. What differs is rewritten: Perl classes are ASCII in Go, a lone
//! `{` is a character, and character classes don't nest. What Go refuses is refused in its words.

use std::fmt::Write as _;

use regex::Regex;

/// A `pattern` of a schema, compiled once.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    source: String,
    compiled: Result<Regex, String>,
}

impl Pattern {
    /// Compiles `source`. A pattern that is none matches nothing; see [`Pattern::problem`].
    pub(crate) fn new(source: &str) -> Self {
        Self { source: source.to_owned(), compiled: compile(source) }
    }

    /// The pattern as it was written.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Whether the pattern is found in `text`.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.compiled.as_ref().is_ok_and(|regex| regex.is_match(text))
    }

    /// Why the pattern is not a regular expression, in the words of Go.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.compiled.as_ref().err().map(String::as_str)
    }
}

fn compile(source: &str) -> Result<Regex, String> {
    let refuse = |what: &str| format!("error parsing regexp: {what}");
    let translator = Translator { source, rest: source, out: String::new() };
    let translated = translator.run().map_err(|why| refuse(&why))?;
    Regex::new(&translated).map_err(|error| {
        let too_large = matches!(error, regex::Error::CompiledTooBig(_));
        let words = if too_large { "expression too large" } else { "invalid or unsupported Perl syntax" };
        refuse(&format!("{words}: `{source}`"))
    })
}

struct Translator<'a> {
    source: &'a str,
    rest: &'a str,
    out: String,
}

/// What has been read of a group: how often its contents can be repeated at most.
#[derive(Clone, Copy)]
struct Group {
    repeats: u64,
}

impl<'a> Translator<'a> {
    fn run(mut self) -> Result<String, String> {
        let mut groups = vec![Group { repeats: 1 }];
        // what a repetition operator would apply to, and the repetition that was just read
        let mut operand: Option<u64> = None;
        let mut last_repeat: Option<&str> = None;
        while let Some(character) = self.rest.chars().next() {
            let before = self.rest;
            let repeat = match character {
                '*' | '+' | '?' => Some((1, None)),
                '{' => counts(before),
                _ => None,
            };
            if let Some((length, range)) = repeat {
                let lazy = before[length..].starts_with('?');
                let (operator, after) = before.split_at(length + usize::from(lazy));
                if let Some(last) = last_repeat {
                    let stacked = &last[..last.len() - after.len()];
                    return Err(format!("invalid nested repetition operator: `{stacked}`"));
                }
                let inner = operand
                    .ok_or_else(|| format!("missing argument to repetition operator: `{operator}`"))?;
                let mut times = 1;
                if let Some((low, high)) = range {
                    times = u64::from(high.unwrap_or(low)).max(1);
                    let ordered = high.is_none_or(|high| low <= high);
                    let most = high.unwrap_or(low).max(low);
                    if !ordered || most > 1000 || (most >= 2 && inner.saturating_mul(times) > 1000) {
                        return Err(format!("invalid repeat count: `{}`", &before[..length]));
                    }
                }
                if let Some(group) = groups.last_mut() {
                    group.repeats = group.repeats.max(inner.saturating_mul(times));
                }
                self.out.push_str(operator);
                self.rest = after;
                operand = Some(inner.saturating_mul(times));
                last_repeat = Some(before);
                continue;
            }
            last_repeat = None;
            operand = Some(1);
            match character {
                '\\' => self.escape(false)?,
                '[' => self.class()?,
                '{' => {
                    self.out.push_str("\\{");
                    self.rest = &before[1..];
                }
                '(' => {
                    let length = group_start(before)?;
                    if !before[..length].ends_with(')') {
                        groups.push(Group { repeats: 1 });
                    }
                    self.out.push_str(&before[..length]);
                    self.rest = &before[length..];
                    operand = None;
                }
                ')' => {
                    let inner = groups.pop().filter(|_| !groups.is_empty());
                    let inner = inner.ok_or_else(|| format!("unexpected ): `{}`", self.source))?;
                    if let Some(group) = groups.last_mut() {
                        group.repeats = group.repeats.max(inner.repeats);
                    }
                    operand = Some(inner.repeats);
                    self.copy(character);
                }
                '|' => {
                    operand = None;
                    self.copy(character);
                }
                _ => self.copy(character),
            }
        }
        if groups.len() > 1 { Err(format!("missing closing ): `{}`", self.source)) } else { Ok(self.out) }
    }

    fn copy(&mut self, character: char) {
        self.out.push(character);
        self.rest = &self.rest[character.len_utf8()..];
    }

    /// `rest` starts with a backslash.
    fn escape(&mut self, in_class: bool) -> Result<(), String> {
        let Some(character) = self.rest[1..].chars().next() else {
            return Err("trailing backslash at end of expression: ``".to_owned());
        };
        let after = &self.rest[1 + character.len_utf8()..];
        if let Some(class) = perl_class(character) {
            let _ = write!(self.out, "[{class}]");
            self.rest = after;
            return Ok(());
        }
        match character {
            'p' | 'P' => {
                let name = match after.strip_prefix('{') {
                    Some(_) => after.find('}').map_or(after.len(), |end| end + 1),
                    None => after.chars().next().map_or(0, char::len_utf8),
                };
                let class = &self.rest[..2 + name];
                if Regex::new(class).is_err() {
                    return Err(format!("invalid character class range: `{class}`"));
                }
                self.out.push_str(class);
                self.rest = &after[name..];
            }
            'Q' if !in_class => {
                let (literal, after) = after.split_once("\\E").unwrap_or((after, ""));
                self.out.push_str(&regex::escape(literal));
                self.rest = after;
            }
            'b' | 'B' if !in_class => {
                let _ = write!(self.out, "(?-u:\\{character})");
                self.rest = after;
            }
            'A' | 'z' if !in_class => {
                let _ = write!(self.out, "\\{character}");
                self.rest = after;
            }
            _ => {
                self.character()?;
            }
        }
        Ok(())
    }

    /// One character, plain or escaped; answers its code.
    fn character(&mut self) -> Result<u32, String> {
        let Some(first) = self.rest.chars().next() else { return Ok(0) };
        let escaped = self.rest[first.len_utf8()..].chars().next().filter(|_| first == '\\');
        let (code, length) = match escaped {
            None => (u32::from(first), first.len_utf8()),
            Some(character) => {
                let bad = || format!("invalid escape sequence: `\\{character}`");
                let code = match character {
                    'a' => 7,
                    'f' => 12,
                    'n' => 10,
                    'r' => 13,
                    't' => 9,
                    'v' => 11,
                    'x' => return self.hexadecimal(),
                    '0'..='7' => return self.octal(),
                    other if other.is_ascii() && !other.is_ascii_alphanumeric() => u32::from(other),
                    _ => return Err(bad()),
                };
                (code, 2)
            }
        };
        let _ = write!(self.out, "\\x{{{code:X}}}");
        self.rest = &self.rest[length..];
        Ok(code)
    }

    /// `\x7F` or `\x{10FFFF}`.
    fn hexadecimal(&mut self) -> Result<u32, String> {
        let digits = &self.rest[2..];
        let (text, length) = match digits.strip_prefix('{') {
            Some(rest) => rest.split_once('}').map_or(("", 0), |(text, _)| (text, text.len() + 4)),
            None => (digits.get(..2).unwrap_or_default(), 4),
        };
        let code = u32::from_str_radix(text, 16).ok().filter(|code| char::from_u32(*code).is_some());
        let Some(code) = code.filter(|_| text.bytes().all(|byte| byte.is_ascii_hexdigit())) else {
            let shown: String = self.rest.chars().take(4).collect();
            return Err(format!("invalid escape sequence: `{shown}`"));
        };
        let _ = write!(self.out, "\\x{{{code:X}}}");
        self.rest = &self.rest[length..];
        Ok(code)
    }

    /// `\123`; a single digit other than zero would be a reference, which there is not.
    fn octal(&mut self) -> Result<u32, String> {
        let digits = &self.rest[1..];
        let length = digits.bytes().take(3).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
        let digits = &digits[..length];
        if length == 1 && digits != "0" {
            return Err(format!("invalid escape sequence: `\\{digits}`"));
        }
        let code = u32::from_str_radix(digits, 8).unwrap_or_default();
        let _ = write!(self.out, "\\x{{{code:X}}}");
        self.rest = &self.rest[1 + length..];
        Ok(code)
    }

    /// `rest` starts with `[`.
    fn class(&mut self) -> Result<(), String> {
        let start = self.rest;
        self.copy('[');
        if self.rest.starts_with('^') {
            self.copy('^');
        }
        let mut first = true;
        loop {
            if self.rest.is_empty() {
                return Err(format!("missing closing ]: `{start}`"));
            }
            if self.rest.starts_with(']') && !first {
                self.copy(']');
                return Ok(());
            }
            first = false;
            let escaped = self.rest.strip_prefix('\\').and_then(|rest| rest.chars().next());
            if escaped
                .is_some_and(|character| perl_class(character).is_some() || matches!(character, 'p' | 'P'))
            {
                self.escape(true)?;
            } else if let Some(end) = self.rest.strip_prefix("[:").and_then(|rest| rest.find(":]")) {
                let (posix, after) = self.rest.split_at(end + 4);
                if !is_posix_class(posix) {
                    return Err(format!("invalid character class range: `{posix}`"));
                }
                self.out.push_str(posix);
                self.rest = after;
            } else {
                self.range()?;
            }
        }
    }

    /// A character of a class, or a range of them.
    fn range(&mut self) -> Result<(), String> {
        let start = self.rest;
        let low = self.character()?;
        let is_range = self.rest.starts_with('-') && !self.rest.starts_with("-]") && self.rest.len() > 1;
        if is_range {
            self.copy('-');
            let high = self.character()?;
            if high < low {
                let range = &start[..start.len() - self.rest.len()];
                return Err(format!("invalid character class range: `{range}`"));
            }
        }
        Ok(())
    }
}

fn perl_class(character: char) -> Option<&'static str> {
    Some(match character {
        'd' => "0-9",
        'D' => "^0-9",
        'w' => "0-9A-Za-z_",
        'W' => "^0-9A-Za-z_",
        's' => r"\t\n\f\r ",
        'S' => r"^\t\n\f\r ",
        _ => return None,
    })
}

fn is_posix_class(class: &str) -> bool {
    let name = class.trim_start_matches("[:").trim_end_matches(":]");
    matches!(
        name.strip_prefix('^').unwrap_or(name),
        "alnum"
            | "alpha"
            | "ascii"
            | "blank"
            | "cntrl"
            | "digit"
            | "graph"
            | "lower"
            | "print"
            | "punct"
            | "space"
            | "upper"
            | "word"
            | "xdigit"
    )
}

type Range = (u32, Option<u32>);

/// The length of a repeat count such as `{2,5}` at the start of `text`, and its range. Anything else
/// in braces is just characters.
fn counts(text: &str) -> Option<(usize, Option<Range>)> {
    let end = text.find('}')?;
    let inner = &text[1..end];
    let number = |digits: &str| {
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| digits.parse::<u32>().unwrap_or(u32::MAX))
    };
    let range = match inner.split_once(',') {
        None => (number(inner)?, Some(number(inner)?)),
        Some((low, "")) => (number(low)?, None),
        Some((low, high)) => (number(low)?, Some(number(high)?)),
    };
    Some((end + 1, Some(range)))
}

/// The length of what opens a group: `(`, `(?:`, `(?i)`, `(?P<name>`. Refuses what Perl has and RE2 not.
fn group_start(group: &str) -> Result<usize, String> {
    let Some(flags) = group.strip_prefix("(?") else { return Ok(1) };
    if flags.starts_with("P<") || flags.starts_with('<') {
        let Some(end) = group.find('>') else { return Err(format!("invalid named capture: `{group}`")) };
        let name = group[..end].rsplit('<').next().unwrap_or_default();
        let is_name = |name: &str| name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
        if name.is_empty() || !is_name(name) || group[..end].matches('<').count() > 1 {
            return Err(format!("invalid named capture: `{}`", &group[..=end]));
        }
        return Ok(end + 1);
    }
    let known = flags.bytes().take_while(|flag| matches!(flag, b'i' | b'm' | b's' | b'U' | b'-')).count();
    match flags[known..].chars().next() {
        Some(':' | ')') => Ok(2 + known + 1),
        Some(bad) => {
            let end = known + bad.len_utf8();
            Err(format!("invalid or unsupported Perl syntax: `(?{}`", &flags[..end]))
        }
        None => Err(format!("missing closing ): `{group}`")),
    }
}
