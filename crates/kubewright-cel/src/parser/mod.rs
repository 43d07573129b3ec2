//! Parses the text of an expression into a tree, with macros expanded.
//!
//! Problems are worded as ANTLR words them for cel-go's grammar: a superfluous or missing token is
//! skipped or imagined where that is enough to go on, otherwise parsing ends. Nesting is limited, so no
//! text can exhaust the stack.

mod recovery;

use crate::{
    ast::{Element, Entry, Expr, Field, Id, Kind, Literal, operator},
    lexer::{Token, TokenKind as T, tokenize},
    literal::{parse_float, unescape},
    macros,
    source::{Location, Problems, Source},
};

use recovery::{Closer, one_line, set_of};

const MAX_DEPTH: usize = 250;
const MAX_CODE_POINTS: usize = 100_000;

/// What an expression can begin with.
const STARTERS: [T; 15] = [
    T::LeftBracket,
    T::LeftBrace,
    T::LeftParen,
    T::Dot,
    T::Minus,
    T::Exclamation,
    T::True,
    T::False,
    T::Null,
    T::Float,
    T::Int,
    T::Uint,
    T::String,
    T::Bytes,
    T::Identifier,
];

/// Words that no identifier may be.
pub(crate) const RESERVED: [&str; 18] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
    "in",
];

/// A tree and where its nodes stand in the text.
pub(crate) struct Parsed {
    pub(crate) expr: Expr,
    pub(crate) positions: Positions,
}

/// Offsets of nodes, by their number.
#[derive(Default)]
pub(crate) struct Positions(Vec<usize>);

impl Positions {
    pub(crate) fn add(&mut self, offset: usize) -> Id {
        self.0.push(offset);
        (self.0.len() - 1) as Id
    }

    pub(crate) fn offset(&self, id: Id) -> usize {
        self.0[id as usize]
    }

    /// How many nodes there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Parses an expression; nothing comes back when a problem was reported.
pub(crate) fn parse(source: &Source, problems: &mut Problems) -> Option<Parsed> {
    if source.chars.len() > MAX_CODE_POINTS {
        problems.report(
            Location::NONE,
            format!(
                "expression code point size exceeds limit: size: {}, limit {MAX_CODE_POINTS}",
                source.chars.len()
            ),
        );
        return None;
    }
    let tokens = tokenize(source, problems);
    let mut parser = Parser {
        source,
        tokens,
        next: 0,
        problems,
        positions: Positions::default(),
        recovering: false,
        closers: Vec::new(),
        expr_depth: 0,
        relation_depth: 0,
        calc_depth: 0,
    };
    let parsed = parser.start();
    let positions = parser.positions;
    if !problems.is_empty() {
        return None;
    }
    parsed.ok().map(|expr| Parsed { expr, positions })
}

/// Parsing cannot go on; why was reported.
struct Stop;

/// A tree and how deeply operators, selections and calls are nested in it.
struct Nested {
    expr: Expr,
    height: usize,
}

struct Parser<'a> {
    source: &'a Source,
    tokens: Vec<Token>,
    next: usize,
    problems: &'a mut Problems,
    positions: Positions,
    /// After a problem, further ones are not reported until a token fits again.
    recovering: bool,
    /// The brackets that are still open.
    closers: Vec<Closer>,
    expr_depth: usize,
    relation_depth: usize,
    calc_depth: usize,
}

impl Parser<'_> {
    fn start(&mut self) -> Result<Expr, Stop> {
        let nested = self.expr()?;
        if self.kind() != T::End {
            let how = if self.ahead(1) == T::End { "extraneous" } else { "mismatched" };
            self.syntax_error(format!("{how} input {} expecting <EOF>", self.shown()));
        }
        Ok(nested.expr)
    }

    fn expr(&mut self) -> Result<Nested, Stop> {
        Self::enter(&mut self.expr_depth, self.problems)?;
        let condition = self.logical(T::Or)?;
        let result = if self.kind() == T::Question {
            let question = self.take().start;
            self.closers.push(Closer::Group(T::Colon));
            let yes = self.logical(T::Or)?;
            self.closers.pop();
            if self.colon().is_none() {
                self.expr_depth -= 1;
                return Ok(Nested { expr: self.node(question, Kind::Error), height: 0 });
            }
            let no = self.expr()?;
            let height = self.taller(condition.height.max(yes.height).max(no.height))?;
            let expr = self.call(question, operator::CONDITIONAL, vec![condition.expr, yes.expr, no.expr]);
            Nested { expr, height }
        } else {
            condition
        };
        self.expr_depth -= 1;
        Ok(result)
    }

    /// Takes a colon that must be here; nothing if it is not and cannot be imagined.
    fn colon(&mut self) -> Option<usize> {
        let colon = self.expect(T::Colon, &[T::Colon], |found| STARTERS.contains(&found));
        if colon.is_none() {
            self.recover(true);
        }
        colon
    }

    fn call(&mut self, offset: usize, function: &str, args: Vec<Expr>) -> Expr {
        self.node(offset, Kind::Call { target: None, function: function.into(), args })
    }

    /// A chain of `||` over `&&`, or of `&&` over relations, as a balanced tree.
    fn logical(&mut self, separator: T) -> Result<Nested, Stop> {
        let operand = |parser: &mut Self| match separator {
            T::Or => parser.logical(T::And),
            _ => parser.relation(),
        };
        let first = operand(self)?;
        let mut height = first.height;
        let mut terms = vec![Some(first.expr)];
        let mut operators = Vec::new();
        while self.kind() == separator {
            operators.push(self.take().start);
            let next = operand(self)?;
            height = height.max(next.height);
            terms.push(Some(next.expr));
        }
        let function = if separator == T::Or { operator::OR } else { operator::AND };
        let expr = self.balance(function, &mut terms, &operators);
        Ok(Nested { expr, height })
    }

    fn balance(&mut self, function: &str, terms: &mut [Option<Expr>], operators: &[usize]) -> Expr {
        if operators.is_empty() {
            return terms[0].take().expect("each term is used once");
        }
        let middle = operators.len() / 2;
        let (left_terms, right_terms) = terms.split_at_mut(middle + 1);
        let left = self.balance(function, left_terms, &operators[..middle]);
        let right = self.balance(function, right_terms, &operators[middle + 1..]);
        self.call(operators[middle], function, vec![left, right])
    }

    fn relation(&mut self) -> Result<Nested, Stop> {
        Self::enter(&mut self.relation_depth, self.problems)?;
        let mut left = self.calc(1)?;
        loop {
            let function = match self.kind() {
                T::Less => operator::LESS,
                T::LessEquals => operator::LESS_EQUALS,
                T::GreaterEquals => operator::GREATER_EQUALS,
                T::Greater => operator::GREATER,
                T::Equals => operator::EQUALS,
                T::NotEquals => operator::NOT_EQUALS,
                T::In => operator::IN,
                _ => break,
            };
            let offset = self.take().start;
            Self::enter(&mut self.relation_depth, self.problems)?;
            let right = self.calc(1)?;
            self.relation_depth -= 1;
            left = self.binary(offset, function, left, right)?;
        }
        self.relation_depth -= 1;
        Ok(left)
    }

    fn binary(&mut self, offset: usize, function: &str, left: Nested, right: Nested) -> Result<Nested, Stop> {
        let height = self.taller(left.height.max(right.height))?;
        Ok(Nested { expr: self.call(offset, function, vec![left.expr, right.expr]), height })
    }

    /// Sums (level 1) and products (level 2).
    fn calc(&mut self, level: u8) -> Result<Nested, Stop> {
        Self::enter(&mut self.calc_depth, self.problems)?;
        let mut left = self.unary()?;
        loop {
            let (function, precedence) = match self.kind() {
                T::Star => (operator::MULTIPLY, 2),
                T::Slash => (operator::DIVIDE, 2),
                T::Percent => (operator::MODULO, 2),
                T::Plus => (operator::ADD, 1),
                T::Minus => (operator::SUBTRACT, 1),
                _ => break,
            };
            if precedence < level {
                break;
            }
            let offset = self.take().start;
            let right = self.calc(precedence + 1)?;
            left = self.binary(offset, function, left, right)?;
        }
        self.calc_depth -= 1;
        Ok(left)
    }

    fn unary(&mut self) -> Result<Nested, Stop> {
        if !self.sync(&[]) {
            let error = self.error();
            self.recover(true);
            return Ok(error);
        }
        let (sign, function) = match self.kind() {
            T::Exclamation => (T::Exclamation, operator::NOT),
            T::Minus if !matches!(self.ahead(1), T::Int | T::Float) => (T::Minus, operator::NEGATE),
            _ => return self.member(),
        };
        let offset = self.token().start;
        let mut count = 0;
        while self.kind() == sign {
            self.take();
            count += 1;
        }
        if !STARTERS.contains(&self.kind()) || (sign == T::Minus && self.kind() == T::Exclamation) {
            self.dangling_sign(sign);
            return Ok(self.error());
        }
        let operand = self.member()?;
        if count % 2 == 0 {
            return Ok(operand);
        }
        Ok(Nested { expr: self.call(offset, function, vec![operand.expr]), height: operand.height })
    }

    /// A sign with nothing to apply to.
    fn dangling_sign(&mut self, sign: T) {
        if sign == T::Minus {
            let text = if self.kind() == T::End { String::new() } else { self.text(self.token()) };
            self.syntax_error(format!("no viable alternative at input '-{text}'"));
            if self.kind() != T::End {
                return;
            }
            self.recovering = false;
        }
        let how = if sign == T::Minus { "mismatched" } else { "extraneous" };
        self.syntax_error(format!("{how} input {} expecting {}", self.shown(), set_of(&STARTERS)));
    }

    fn member(&mut self) -> Result<Nested, Stop> {
        let start = self.token().start;
        let mut operand = self.primary()?;
        loop {
            match self.kind() {
                T::Dot => match self.selection(operand)? {
                    Some(selected) => operand = selected,
                    None => {
                        self.recover(false);
                        return Ok(Nested { expr: self.node(start, Kind::Error), height: 0 });
                    }
                },
                T::LeftBracket => {
                    let offset = self.take().start;
                    self.closers.push(Closer::Group(T::RightBracket));
                    let mut function = operator::INDEX;
                    if self.sync(&[T::Question]) && self.kind() == T::Question {
                        self.take();
                        function = operator::OPT_INDEX;
                    }
                    let index = self.expr()?;
                    self.close(T::RightBracket, &[T::RightBracket], true);
                    operand = self.binary(offset, function, operand, index)?;
                }
                _ => return Ok(operand),
            }
        }
    }

    /// `.field`, `.?field` or `.function(args)`; nothing if no name follows the dot.
    fn selection(&mut self, operand: Nested) -> Result<Option<Nested>, Stop> {
        let dot = self.token().start;
        // Not until the name is there the dot fits.
        self.next += 1;
        let optional = self.kind() == T::Question;
        if optional {
            self.take();
        }
        if !matches!(self.kind(), T::Identifier | T::EscapedIdentifier) {
            if optional {
                let shown = self.shown();
                self.syntax_error(format!(
                    "mismatched input {shown} expecting {{IDENTIFIER, ESC_IDENTIFIER}}"
                ));
                self.report(self.token().start, "unsupported ident kind");
            } else {
                self.dangling_dot(dot);
            }
            return Ok(None);
        }
        let name = self.take();
        let field = self.text(name);
        if name.kind == T::EscapedIdentifier {
            self.report(name.start, "unsupported syntax: '`'");
        }
        if !optional && name.kind == T::Identifier && self.kind() == T::LeftParen {
            let open = self.token().start;
            let (args, args_height) = self.arguments()?;
            let height = self.taller(operand.height.max(args_height))?;
            let expr = self.call_or_macro(open, Some(operand.expr), field, args);
            return Ok(Some(Nested { expr, height }));
        }
        let height = self.taller(operand.height)?;
        let expr = if optional {
            let field = self.node(name.start, Kind::Literal(Literal::String(field)));
            self.call(dot, operator::OPT_SELECT, vec![operand.expr, field])
        } else {
            let operand = Box::new(operand.expr);
            self.node(dot, Kind::Select { operand, field, test_only: false })
        };
        Ok(Some(Nested { expr, height }))
    }

    /// A dot with no name after it.
    fn dangling_dot(&mut self, dot: usize) {
        let token = self.token();
        let input = one_line(&self.source.text(dot, token.end));
        let adjacent = token.start == dot + 1;
        let message = match token.kind {
            T::End => "no viable alternative at input '.'".into(),
            T::True | T::False | T::Null if adjacent => {
                format!("mismatched input {} expecting IDENTIFIER", self.shown())
            }
            _ => format!("no viable alternative at input '{input}'"),
        };
        self.syntax_error(message);
    }

    fn arguments(&mut self) -> Result<(Vec<Expr>, usize), Stop> {
        self.take();
        self.closers.push(Closer::Items(T::RightParen));
        let mut args = Vec::new();
        let mut height = 0;
        if !self.sync(&[T::RightParen]) {
            self.recover(true);
        } else if self.kind() != T::RightParen {
            loop {
                let arg = self.expr()?;
                height = height.max(arg.height);
                args.push(arg.expr);
                if self.kind() != T::Comma {
                    break;
                }
                self.take();
            }
        }
        self.close(T::RightParen, &[T::RightParen], true);
        Ok((args, height))
    }

    fn call_or_macro(
        &mut self,
        offset: usize,
        target: Option<Expr>,
        function: String,
        args: Vec<Expr>,
    ) -> Expr {
        match macros::expand(&mut self.positions, offset, target, &function, args) {
            Ok(expr) => expr,
            Err(macros::NotExpanded::Problem(offset, message)) => {
                self.report(offset, message);
                self.node(offset, Kind::Error)
            }
            Err(macros::NotExpanded::Call(target, args)) => {
                self.node(offset, Kind::Call { target: target.map(Box::new), function, args })
            }
        }
    }

    fn primary(&mut self) -> Result<Nested, Stop> {
        let token = self.token();
        match token.kind {
            T::Dot | T::Identifier => self.name(),
            T::LeftParen => {
                self.take();
                self.closers.push(Closer::Group(T::RightParen));
                let inner = self.expr()?;
                self.close(T::RightParen, &[T::RightParen], true);
                Ok(inner)
            }
            T::LeftBracket => self.list(),
            T::LeftBrace => self.map(),
            T::Minus if !matches!(self.ahead(1), T::Int | T::Float) => {
                self.take();
                self.dangling_sign(T::Minus);
                Ok(self.error())
            }
            T::Exclamation => {
                self.syntax_error(format!("no viable alternative at input '{}'", self.text(token)));
                Ok(self.error())
            }
            _ => Ok(self.literal()),
        }
    }

    fn literal(&mut self) -> Nested {
        let first = self.take();
        let (negative, token) = if first.kind == T::Minus { (true, self.take()) } else { (false, first) };
        let text = self.text(token);
        let sign = if negative { "-" } else { "" };
        let literal = match token.kind {
            T::True => Ok(Literal::Bool(true)),
            T::False => Ok(Literal::Bool(false)),
            T::Null => Ok(Literal::Null),
            T::Int => {
                let (digits, radix) = text.strip_prefix("0x").map_or((text.as_str(), 10), |hex| (hex, 16));
                i64::from_str_radix(&format!("{sign}{digits}"), radix)
                    .map(Literal::Int)
                    .map_err(|_| "invalid int literal")
            }
            T::Uint => {
                let text = &text[..text.len() - 1];
                let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16));
                u64::from_str_radix(digits, radix).map(Literal::Uint).map_err(|_| "invalid uint literal")
            }
            T::Float => {
                parse_float(&format!("{sign}{text}")).map(Literal::Double).ok_or("invalid double literal")
            }
            T::Bytes => unescape(&text[1..], true).map(Literal::Bytes),
            _ => unescape(&text, false)
                .and_then(|bytes| String::from_utf8(bytes).map_err(|_| "invalid unicode code point"))
                .map(Literal::String),
        };
        let kind = match literal {
            Ok(literal) => Kind::Literal(literal),
            Err(problem) => {
                self.report(first.start, problem);
                Kind::Error
            }
        };
        Nested { expr: self.node(first.start, kind), height: 0 }
    }

    /// A name, a call of a function, or an object literal.
    fn name(&mut self) -> Result<Nested, Stop> {
        let leading_dot = self.kind() == T::Dot;
        let start = self.token().start;
        if self.is_object_literal(usize::from(leading_dot)) {
            return self.object();
        }
        if leading_dot {
            self.take();
            if self.kind() != T::Identifier {
                self.dangling_dot(start);
                let error = self.error();
                self.recover(true);
                return Ok(error);
            }
        }
        let token = self.take();
        let name = self.text(token);
        if RESERVED.contains(&name.as_str()) {
            self.report(start, format!("reserved identifier: {name}"));
            if self.kind() == T::LeftParen {
                self.arguments()?;
            }
            return Ok(Nested { expr: self.node(start, Kind::Error), height: 0 });
        }
        let name = if leading_dot { format!(".{name}") } else { name };
        if self.kind() == T::LeftParen {
            let open = self.token().start;
            let (args, height) = self.arguments()?;
            return Ok(Nested { expr: self.call_or_macro(open, None, name, args), height });
        }
        Ok(Nested { expr: self.node(token.start, Kind::Ident(name)), height: 0 })
    }

    /// Whether names joined by dots and then an opening brace are ahead.
    fn is_object_literal(&self, mut ahead: usize) -> bool {
        while self.ahead(ahead) == T::Identifier {
            match self.ahead(ahead + 1) {
                T::LeftBrace => return true,
                T::Dot => ahead += 2,
                _ => return false,
            }
        }
        false
    }

    fn object(&mut self) -> Result<Nested, Stop> {
        let mut name = String::new();
        while self.kind() != T::LeftBrace {
            let token = self.take();
            name.push_str(&self.text(token));
        }
        let open = self.take().start;
        self.closers.push(Closer::Entries);
        let mut fields = Vec::new();
        let mut height = 0;
        let expected = [T::RightBrace, T::Comma, T::Question, T::Identifier, T::EscapedIdentifier];
        if !expected.contains(&self.kind()) {
            let shown = self.shown();
            self.syntax_error(format!("mismatched input {shown} expecting {}", set_of(&expected)));
            return Err(Stop);
        }
        while matches!(self.kind(), T::Question | T::Identifier | T::EscapedIdentifier) {
            self.optional_mark();
            let field = self.take();
            if field.kind == T::EscapedIdentifier {
                self.report(field.start, "unsupported syntax: '`'");
            }
            let Some(colon) = self.colon() else { break };
            let value = self.expr()?;
            height = height.max(value.height);
            fields.push(Field { id: self.id(colon), value: value.expr });
            if self.kind() != T::Comma {
                break;
            }
            self.take();
        }
        if self.kind() == T::Comma && fields.is_empty() {
            self.take();
        }
        self.close(T::RightBrace, &[T::RightBrace, T::Comma], false);
        Ok(Nested { expr: self.node(open, Kind::Struct { name, fields }), height })
    }

    /// Whether the items of a literal begin, and whether one is left out because only a comma is there.
    fn items_begin(&mut self, closer: T) -> Result<bool, Stop> {
        if !self.sync(&[closer, T::Comma, T::Question]) {
            return Err(Stop);
        }
        if self.kind() == T::Comma {
            self.take();
            return Ok(false);
        }
        Ok(self.kind() != closer)
    }

    /// Whether another item of a literal follows; a comma before the closing token is allowed.
    fn another_item(&mut self, trailing_comma: &mut bool) -> bool {
        if self.kind() != T::Comma {
            return false;
        }
        self.take();
        *trailing_comma = self.kind() != T::Question && !STARTERS.contains(&self.kind());
        !*trailing_comma
    }

    fn optional_mark(&mut self) -> bool {
        let optional = self.kind() == T::Question;
        if optional {
            self.take();
        }
        optional
    }

    fn list(&mut self) -> Result<Nested, Stop> {
        let open = self.take().start;
        self.closers.push(Closer::Items(T::RightBracket));
        let mut elements = Vec::new();
        let mut height = 0;
        let mut trailing_comma = !self.items_begin(T::RightBracket)?;
        if !trailing_comma {
            loop {
                let optional = self.optional_mark();
                let value = self.expr()?;
                height = height.max(value.height);
                elements.push(Element { value: value.expr, optional });
                if !self.another_item(&mut trailing_comma) {
                    break;
                }
            }
        }
        let expected: &[T] = if trailing_comma { &[T::RightBracket] } else { &[T::RightBracket, T::Comma] };
        self.close(T::RightBracket, expected, trailing_comma);
        Ok(Nested { expr: self.node(open, Kind::List(elements)), height })
    }

    fn map(&mut self) -> Result<Nested, Stop> {
        let open = self.take().start;
        self.closers.push(Closer::Entries);
        let mut entries = Vec::new();
        let mut height = 0;
        let mut trailing_comma = !self.items_begin(T::RightBrace)?;
        if !trailing_comma {
            loop {
                let optional = self.optional_mark();
                let key = self.expr()?;
                let Some(colon) = self.colon() else { break };
                let value = self.expr()?;
                height = height.max(key.height).max(value.height);
                let id = self.id(colon);
                entries.push(Entry { id, key: key.expr, value: value.expr, optional });
                if !self.another_item(&mut trailing_comma) {
                    break;
                }
            }
        }
        let expected: &[T] = if trailing_comma { &[T::RightBrace] } else { &[T::RightBrace, T::Comma] };
        self.close(T::RightBrace, expected, trailing_comma);
        Ok(Nested { expr: self.node(open, Kind::Map(entries)), height })
    }
}
