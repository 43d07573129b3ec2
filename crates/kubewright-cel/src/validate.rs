//! Checks on a well-typed tree: constants that can never work, literals of mixed types, and format
//! strings that do not fit their arguments.

use crate::{
    ast::{Expr, Id, Kind, Literal},
    checker::Checked,
    library::{
        self,
        format_string::{Clause, interpolate},
    },
    parser::Parsed,
    source::{Problems, Source},
    time::{Span, Timestamp},
    types::Type,
};

/// Reports what is wrong with constants and literals.
pub(crate) fn validate(source: &Source, parsed: &Parsed, checked: &Checked, problems: &mut Problems) {
    Validator { source, parsed, checked, problems, formats: 0 }.visit(&parsed.expr);
}

struct Validator<'a> {
    source: &'a Source,
    parsed: &'a Parsed,
    checked: &'a Checked,
    problems: &'a mut Problems,
    /// How many calls of `format` are around; their arguments may be of mixed types.
    formats: usize,
}

impl Validator<'_> {
    fn report(&mut self, id: Id, message: impl Into<String>) {
        self.problems.report(self.source.location(self.parsed.positions.offset(id)), message);
    }

    fn visit(&mut self, expr: &Expr) {
        match &expr.kind {
            Kind::Error | Kind::Literal(_) | Kind::Ident(_) => {}
            Kind::Select { operand, .. } => self.visit(operand),
            Kind::Call { target, function, args } => {
                self.constant(function, args);
                let is_format = function == "format";
                if is_format && let (Some(target), [arg]) = (target, args.as_slice()) {
                    self.format(expr, target, arg);
                }
                self.formats += usize::from(is_format);
                target.iter().for_each(|target| self.visit(target));
                args.iter().for_each(|arg| self.visit(arg));
                self.formats -= usize::from(is_format);
            }
            Kind::List(elements) => {
                let mut types = Vec::new();
                for element in elements {
                    self.visit(&element.value);
                    types.push((element.value.id, self.item_type(&element.value, element.optional)));
                }
                self.homogeneous(&types, true);
            }
            Kind::Map(entries) => {
                let (mut keys, mut values) = (Vec::new(), Vec::new());
                for entry in entries {
                    self.visit(&entry.key);
                    self.visit(&entry.value);
                    keys.push((entry.key.id, self.checked.type_of(&entry.key).clone()));
                    values.push((entry.value.id, self.item_type(&entry.value, entry.optional)));
                }
                self.homogeneous(&keys, false);
                self.homogeneous(&values, false);
            }
            Kind::Struct { fields, .. } => fields.iter().for_each(|field| self.visit(&field.value)),
            Kind::Comprehension(fold) => {
                for part in [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result] {
                    self.visit(part);
                }
            }
        }
    }

    fn item_type(&self, expr: &Expr, optional: bool) -> Type {
        match self.checked.type_of(expr) {
            Type::Optional(value) if optional => value.as_ref().clone(),
            ty => ty.clone(),
        }
    }

    fn homogeneous(&mut self, types: &[(Id, Type)], only_first: bool) {
        let Some(((_, expected), others)) = types.split_first() else { return };
        if self.formats > 0 {
            return;
        }
        for (id, found) in others.iter().filter(|(_, found)| found != expected) {
            self.report(*id, format!("expected type '{expected}' but found '{found}'"));
            if only_first {
                break;
            }
        }
    }

    fn constant(&mut self, function: &str, args: &[Expr]) {
        let Some(Expr { id, kind: Kind::Literal(Literal::String(text)) }) = args.last() else { return };
        let valid = match function {
            "duration" => Span::parse(text).is_some(),
            "timestamp" => Timestamp::parse(text).is_some(),
            "matches" => library::pattern(text).is_ok(),
            _ => true,
        };
        if !valid {
            self.report(*id, format!("invalid {function} argument"));
        }
    }

    fn format(&mut self, call: &Expr, target: &Expr, arg: &Expr) {
        let (Kind::Literal(Literal::String(format)), Kind::List(args)) = (&target.kind, &arg.kind) else {
            return;
        };
        let mut used = 0;
        let checked = self.checked;
        let result = interpolate(format, args.len(), |position, clause| {
            used += 1;
            match refused(checked, clause, &args[position].value) {
                Some(part) => Err(Refusal {
                    message: clause.refusal(checked.type_of(part).runtime_name()),
                    at: Some(part.id),
                }),
                None => Ok(String::new()),
            }
        });
        match result {
            Err(Refusal { message, at }) => self.report(at.unwrap_or(call.id), message),
            Ok(_) if args.len() > used => self.report(
                call.id,
                format!("too many arguments supplied to string.format (expected {used}, got {})", args.len()),
            ),
            Ok(_) => {}
        }
    }
}

struct Refusal {
    message: String,
    at: Option<Id>,
}

impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Self { message, at: None }
    }
}

/// The part of an argument that a clause cannot format.
fn refused<'e>(checked: &Checked, clause: Clause, arg: &'e Expr) -> Option<&'e Expr> {
    use Type as T;
    let ty = checked.type_of(arg);
    let fits = match clause {
        Clause::String => !matches!(ty, T::Object(_) | T::Opaque(_) | T::Optional(_)),
        Clause::Decimal | Clause::Octal => matches!(ty, T::Int | T::Uint | T::Dyn),
        Clause::Fixed(_) | Clause::Scientific => matches!(ty, T::Double | T::String | T::Dyn),
        Clause::Binary => matches!(ty, T::Int | T::Uint | T::Bool | T::Dyn),
        Clause::Hex { .. } => matches!(ty, T::Int | T::Uint | T::String | T::Bytes | T::Dyn),
    };
    if !fits {
        return Some(arg);
    }
    if clause != Clause::String {
        return None;
    }
    match &arg.kind {
        Kind::List(elements) => elements.iter().find_map(|element| refused(checked, clause, &element.value)),
        Kind::Map(entries) => entries.iter().find_map(|entry| {
            refused(checked, clause, &entry.key).or_else(|| refused(checked, clause, &entry.value))
        }),
        _ => None,
    }
}
