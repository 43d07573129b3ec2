//! Moving along the tokens, and going on after a problem the way ANTLR does.

use super::{MAX_DEPTH, Nested, Parser, STARTERS, Stop};
use crate::{
    ast::{Expr, Id, Kind},
    lexer::{Token, TokenKind as T},
    source::{Location, Problems},
};

/// What ends an open bracket, or what is in it.
#[derive(Clone, Copy)]
pub(super) enum Closer {
    /// One expression in parentheses or brackets.
    Group(T),
    /// Expressions separated by commas.
    Items(T),
    /// Entries of a map or an object.
    Entries,
}

impl Closer {
    /// Whether a token can follow an expression in the bracket.
    fn is_followed_by(self, kind: T) -> bool {
        match self {
            Self::Group(closer) => kind == closer,
            Self::Items(closer) => kind == closer || kind == T::Comma,
            Self::Entries => matches!(kind, T::RightBrace | T::Comma | T::Colon),
        }
    }
}

impl Parser<'_> {
    pub(super) fn token(&self) -> Token {
        self.tokens[self.next]
    }

    pub(super) fn kind(&self) -> T {
        self.token().kind
    }

    pub(super) fn ahead(&self, count: usize) -> T {
        self.tokens.get(self.next + count).map_or(T::End, |token| token.kind)
    }

    pub(super) fn take(&mut self) -> Token {
        let token = self.token();
        if token.kind != T::End {
            self.next += 1;
        }
        self.recovering = false;
        token
    }

    pub(super) fn text(&self, token: Token) -> String {
        self.source.text(token.start, token.end)
    }

    /// The current token as messages quote it.
    pub(super) fn shown(&self) -> String {
        let token = self.token();
        if token.kind == T::End {
            return "'<EOF>'".into();
        }
        format!("'{}'", one_line(&self.text(token)))
    }

    pub(super) fn report(&mut self, offset: usize, message: impl Into<String>) {
        self.problems.report(self.source.location(offset), message);
    }

    pub(super) fn syntax_error(&mut self, message: String) {
        if !self.recovering {
            self.report(self.token().start, format!("Syntax error: {message}"));
            self.recovering = true;
        }
    }

    pub(super) fn id(&mut self, offset: usize) -> Id {
        self.positions.add(offset)
    }

    pub(super) fn node(&mut self, offset: usize, kind: Kind) -> Expr {
        Expr { id: self.id(offset), kind }
    }

    /// Stands for what could not be parsed.
    pub(super) fn error(&mut self) -> Nested {
        let offset = self.token().start;
        Nested { expr: self.node(offset, Kind::Error), height: 0 }
    }

    /// Skips what cannot follow, after a problem. A selection or index can follow only where `suffixed`.
    pub(super) fn recover(&mut self, suffixed: bool) {
        loop {
            let kind = self.kind();
            let closes = self.closers.iter().any(|closer| closer.is_followed_by(kind));
            let follows = is_operator(kind) || suffixed && matches!(kind, T::Dot | T::LeftBracket);
            if kind == T::End || closes || follows {
                return;
            }
            self.next += 1;
        }
    }

    pub(super) fn enter(depth: &mut usize, problems: &mut Problems) -> Result<(), Stop> {
        *depth += 1;
        if *depth > MAX_DEPTH {
            problems.report(Location::NONE, format!("expression recursion limit exceeded: {MAX_DEPTH}"));
            return Err(Stop);
        }
        Ok(())
    }

    /// One level more than what is nested inside.
    pub(super) fn taller(&mut self, height: usize) -> Result<usize, Stop> {
        if height >= MAX_DEPTH {
            self.problems.report(Location::NONE, "max recursion depth exceeded");
            return Err(Stop);
        }
        Ok(height + 1)
    }

    /// Makes sure that an expression, or one of `others`, begins here. A superfluous token is skipped.
    pub(super) fn sync(&mut self, others: &[T]) -> bool {
        let fits = |kind: T| STARTERS.contains(&kind) || others.contains(&kind);
        if fits(self.kind()) {
            return true;
        }
        let skip = fits(self.ahead(1)) && self.kind() != T::End;
        let how = if skip { "extraneous" } else { "mismatched" };
        let mut expected: Vec<T> = STARTERS.iter().chain(others).copied().collect();
        expected.sort_unstable();
        self.syntax_error(format!("{how} input {} expecting {}", self.shown(), set_of(&expected)));
        if skip {
            self.next += 1;
        }
        skip
    }

    /// Takes a token that must be here. One superfluous token before it is skipped; where `follows`
    /// accepts the current token, a missing one is imagined.
    pub(super) fn expect(&mut self, kind: T, expected: &[T], follows: impl Fn(T) -> bool) -> Option<usize> {
        if self.kind() == kind {
            return Some(self.take().start);
        }
        let shown = self.shown();
        if self.ahead(1) == kind && self.kind() != T::End {
            self.syntax_error(format!("extraneous input {shown} expecting {}", set_of(expected)));
            self.next += 1;
            return Some(self.take().start);
        }
        if follows(self.kind()) {
            self.syntax_error(format!("missing {} at {shown}", kind.name()));
            return Some(self.token().start);
        }
        self.syntax_error(format!("mismatched input {shown} expecting {}", set_of(expected)));
        None
    }

    /// Takes the closing token of the innermost bracket.
    pub(super) fn close(&mut self, kind: T, mut expected: &[T], mut imaginable: bool) {
        self.closers.pop();
        if expected.contains(&T::Comma) && self.kind() != kind && self.ahead(1) == T::Comma {
            self.syntax_error(format!("extraneous input {} expecting {}", self.shown(), set_of(expected)));
            self.next += 1;
            self.take();
            expected = &expected[..1];
            imaginable = true;
        }
        let outer = self.closers.last().copied().unwrap_or(Closer::Group(T::End));
        let closed = self.expect(kind, expected, |found| {
            imaginable
                && (outer.is_followed_by(found)
                    || is_operator(found)
                    || matches!(found, T::Dot | T::LeftBracket))
        });
        if closed.is_none() {
            self.recover(true);
        }
    }
}

fn is_operator(kind: T) -> bool {
    matches!(
        kind,
        T::Equals
            | T::NotEquals
            | T::In
            | T::Less
            | T::LessEquals
            | T::GreaterEquals
            | T::Greater
            | T::And
            | T::Or
            | T::Question
            | T::Minus
            | T::Plus
            | T::Star
            | T::Slash
            | T::Percent
    )
}

/// With line breaks and tabs written out.
pub(super) fn one_line(text: &str) -> String {
    text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t")
}

pub(super) fn set_of(kinds: &[T]) -> String {
    match kinds {
        [only] => only.name().into(),
        _ => format!("{{{}}}", kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")),
    }
}
