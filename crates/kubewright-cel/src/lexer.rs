//! Splits the text of an expression into tokens, as the ANTLR lexer of cel-go does.
//!
//! The longest match wins. Text that starts no token is reported and skipped; the lexer never fails.

use crate::source::{Problems, Source};

/// The kinds of token, in the order in which error messages list them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TokenKind {
    Equals,
    NotEquals,
    In,
    Less,
    LessEquals,
    GreaterEquals,
    Greater,
    And,
    Or,
    LeftBracket,
    RightBracket,
    LeftBrace,
    RightBrace,
    LeftParen,
    RightParen,
    Dot,
    Comma,
    Minus,
    Exclamation,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    True,
    False,
    Null,
    Float,
    Int,
    Uint,
    String,
    Bytes,
    Identifier,
    EscapedIdentifier,
    End,
}

impl TokenKind {
    /// How an error message names the kind.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Equals => "'=='",
            Self::NotEquals => "'!='",
            Self::In => "'in'",
            Self::Less => "'<'",
            Self::LessEquals => "'<='",
            Self::GreaterEquals => "'>='",
            Self::Greater => "'>'",
            Self::And => "'&&'",
            Self::Or => "'||'",
            Self::LeftBracket => "'['",
            Self::RightBracket => "']'",
            Self::LeftBrace => "'{'",
            Self::RightBrace => "'}'",
            Self::LeftParen => "'('",
            Self::RightParen => "')'",
            Self::Dot => "'.'",
            Self::Comma => "','",
            Self::Minus => "'-'",
            Self::Exclamation => "'!'",
            Self::Question => "'?'",
            Self::Colon => "':'",
            Self::Plus => "'+'",
            Self::Star => "'*'",
            Self::Slash => "'/'",
            Self::Percent => "'%'",
            Self::True => "'true'",
            Self::False => "'false'",
            Self::Null => "'null'",
            Self::Float => "NUM_FLOAT",
            Self::Int => "NUM_INT",
            Self::Uint => "NUM_UINT",
            Self::String => "STRING",
            Self::Bytes => "BYTES",
            Self::Identifier => "IDENTIFIER",
            Self::EscapedIdentifier => "ESC_IDENTIFIER",
            Self::End => "<EOF>",
        }
    }
}

/// A piece of the text, by code point offsets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// All tokens of a text, the end included.
pub(crate) fn tokenize(source: &Source, problems: &mut Problems) -> Vec<Token> {
    let mut lexer = Lexer { chars: &source.chars, position: 0 };
    let mut tokens = Vec::new();
    while lexer.position < lexer.chars.len() {
        let start = lexer.position;
        match lexer.next() {
            Ok(None) => {}
            Ok(Some(kind)) => tokens.push(Token { kind, start, end: lexer.position }),
            Err(failed_at) => {
                let text = source.text(start, failed_at + 1);
                problems.report(
                    source.location(start),
                    format!("Syntax error: token recognition error at: '{text}'"),
                );
                lexer.position = failed_at + 1;
            }
        }
    }
    tokens.push(Token { kind: TokenKind::End, start: source.chars.len(), end: source.chars.len() });
    tokens
}

struct Lexer<'a> {
    chars: &'a [char],
    position: usize,
}

impl Lexer<'_> {
    fn at(&self, position: usize) -> Option<char> {
        self.chars.get(position).copied()
    }

    fn skip_while(&mut self, accept: impl Fn(char) -> bool) {
        while self.at(self.position).is_some_and(&accept) {
            self.position += 1;
        }
    }

    /// The next token, nothing for white space and comments, or the place where no token can go on.
    fn next(&mut self) -> Result<Option<TokenKind>, usize> {
        use TokenKind as T;
        let start = self.position;
        let first = self.chars[start];
        let second = self.at(start + 1);
        let (kind, length) = match first {
            '\t' | ' ' | '\r' | '\n' | '\u{c}' => {
                self.skip_while(|c| matches!(c, '\t' | ' ' | '\r' | '\n' | '\u{c}'));
                return Ok(None);
            }
            '/' if second == Some('/') => {
                self.skip_while(|c| c != '\n');
                return Ok(None);
            }
            '=' if second == Some('=') => (T::Equals, 2),
            '!' if second == Some('=') => (T::NotEquals, 2),
            '<' if second == Some('=') => (T::LessEquals, 2),
            '>' if second == Some('=') => (T::GreaterEquals, 2),
            '&' if second == Some('&') => (T::And, 2),
            '|' if second == Some('|') => (T::Or, 2),
            '=' | '&' | '|' => return Err(start + 1),
            '<' => (T::Less, 1),
            '>' => (T::Greater, 1),
            '[' => (T::LeftBracket, 1),
            ']' => (T::RightBracket, 1),
            '{' => (T::LeftBrace, 1),
            '}' => (T::RightBrace, 1),
            '(' => (T::LeftParen, 1),
            ')' => (T::RightParen, 1),
            ',' => (T::Comma, 1),
            '-' => (T::Minus, 1),
            '!' => (T::Exclamation, 1),
            '?' => (T::Question, 1),
            ':' => (T::Colon, 1),
            '+' => (T::Plus, 1),
            '*' => (T::Star, 1),
            '/' => (T::Slash, 1),
            '%' => (T::Percent, 1),
            '.' if second.is_some_and(|c| c.is_ascii_digit()) => return Ok(Some(self.number())),
            '.' => (T::Dot, 1),
            '0'..='9' => return Ok(Some(self.number())),
            '`' => return self.escaped_identifier().map(Some),
            '"' | '\'' => {
                self.position = self.string(start, false)?;
                return Ok(Some(T::String));
            }
            'a'..='z' | 'A'..='Z' | '_' => return Ok(Some(self.word())),
            _ => return Err(start),
        };
        self.position += length;
        Ok(Some(kind))
    }

    fn number(&mut self) -> TokenKind {
        let start = self.position;
        if self.chars[start] == '0'
            && self.at(start + 1) == Some('x')
            && self.at(start + 2).is_some_and(|c| c.is_ascii_hexdigit())
        {
            self.position += 2;
            self.skip_while(|c| c.is_ascii_hexdigit());
            return self.unsigned_suffix();
        }
        self.skip_while(|c| c.is_ascii_digit());
        let mut float = false;
        if self.at(self.position) == Some('.')
            && self.at(self.position + 1).is_some_and(|c| c.is_ascii_digit())
        {
            float = true;
            self.position += 1;
            self.skip_while(|c| c.is_ascii_digit());
        }
        if matches!(self.at(self.position), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.at(self.position + 1), Some('+' | '-')));
            if self.at(self.position + 1 + sign).is_some_and(|c| c.is_ascii_digit()) {
                float = true;
                self.position += 1 + sign;
                self.skip_while(|c| c.is_ascii_digit());
            }
        }
        if float { TokenKind::Float } else { self.unsigned_suffix() }
    }

    fn unsigned_suffix(&mut self) -> TokenKind {
        if matches!(self.at(self.position), Some('u' | 'U')) {
            self.position += 1;
            TokenKind::Uint
        } else {
            TokenKind::Int
        }
    }

    /// A name, a keyword, or a string with a prefix.
    fn word(&mut self) -> TokenKind {
        let start = self.position;
        let bytes = matches!(self.chars[start], 'b' | 'B');
        let after_bytes = start + usize::from(bytes);
        let raw = matches!(self.at(after_bytes), Some('r' | 'R'));
        let quote = after_bytes + usize::from(raw);
        if (bytes || raw) && matches!(self.at(quote), Some('"' | '\'')) {
            // A prefix before a string that does not end is just a name.
            if let Ok(end) = self.string(quote, raw) {
                self.position = end;
                return if bytes { TokenKind::Bytes } else { TokenKind::String };
            }
        }
        self.skip_while(|c| c.is_ascii_alphanumeric() || c == '_');
        let word: String = self.chars[start..self.position].iter().collect();
        match word.as_str() {
            "in" => TokenKind::In,
            "true" => TokenKind::True,
            "false" => TokenKind::False,
            "null" => TokenKind::Null,
            _ => TokenKind::Identifier,
        }
    }

    fn escaped_identifier(&mut self) -> Result<TokenKind, usize> {
        let start = self.position;
        let mut position = start + 1;
        while self.at(position).is_some_and(|c| c.is_ascii_alphanumeric() || "_.-/ ".contains(c)) {
            position += 1;
        }
        if self.at(position) == Some('`') && position > start + 1 {
            self.position = position + 1;
            Ok(TokenKind::EscapedIdentifier)
        } else {
            Err(position)
        }
    }

    /// The end of the string whose quote is at `start`, or where it cannot go on.
    fn string(&self, start: usize, raw: bool) -> Result<usize, usize> {
        let quote = self.chars[start];
        let triple = self.at(start + 1) == Some(quote) && self.at(start + 2) == Some(quote);
        if triple {
            // An unfinished triple quote begins with an empty string, which is then the longest match.
            return Ok(self.triple_string(start + 3, quote, raw).unwrap_or(start + 2));
        }
        let mut position = start + 1;
        loop {
            match self.at(position) {
                Some(c) if c == quote => return Ok(position + 1),
                None | Some('\n' | '\r') => return Err(position),
                Some('\\') if !raw => position = self.escape(position)?,
                Some(_) => position += 1,
            }
        }
    }

    fn triple_string(&self, mut position: usize, quote: char, raw: bool) -> Result<usize, usize> {
        loop {
            match self.at(position) {
                None => return Err(position),
                Some(c)
                    if c == quote
                        && self.at(position + 1) == Some(quote)
                        && self.at(position + 2) == Some(quote) =>
                {
                    return Ok(position + 3);
                }
                Some('\\') if !raw => position = self.escape(position)?,
                Some(_) => position += 1,
            }
        }
    }

    /// The end of the escape sequence at `start`, or where it is wrong.
    fn escape(&self, start: usize) -> Result<usize, usize> {
        let digits = |from: usize, count: usize, radix: u32| {
            (from..from + count)
                .find(|&i| !self.at(i).is_some_and(|c| c.is_digit(radix)))
                .map_or(Ok(from + count), Err)
        };
        match self.at(start + 1) {
            Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`') => Ok(start + 2),
            Some('x' | 'X') => digits(start + 2, 2, 16),
            Some('u') => digits(start + 2, 4, 16),
            Some('U') => digits(start + 2, 8, 16),
            Some('0'..='3') => digits(start + 2, 2, 8),
            _ => Err(start + 1),
        }
    }
}
