//! The macros: calls that the parser replaces by folds, presence tests and conditionals.
//!
//! Nodes that a macro makes stand where the macro's opening parenthesis stands, so problems inside them
//! are shown there.

use crate::{
    ast::{Comprehension, Element, Expr, Id, Kind, Literal, operator},
    parser::Positions,
};

/// The variable a fold keeps its result in; no text can name it.
pub(crate) const ACCUMULATOR: &str = "@result";
/// The iteration variable of a fold that iterates over nothing, only to bind a name.
pub(crate) const UNUSED: &str = "#unused";
const SORT_BY_INPUT: &str = "@__sortBy_input__";

/// Why a call stays what it is.
pub(crate) enum NotExpanded {
    /// It is no macro.
    Call(Option<Expr>, Vec<Expr>),
    /// It is a macro, wrongly used; the offset says where.
    Problem(usize, String),
}

/// Expands a call if it is one of a macro.
pub(crate) fn expand(
    positions: &mut Positions,
    offset: usize,
    target: Option<Expr>,
    function: &str,
    args: Vec<Expr>,
) -> Result<Expr, NotExpanded> {
    let mut make = Make { positions, offset };
    match (target, function, args.len()) {
        (None, "has", 1) => make.has(args),
        (Some(target), "all", 2) => make.quantifier(Quantifier::All, target, args),
        (Some(target), "exists", 2) => make.quantifier(Quantifier::Exists, target, args),
        (Some(target), "exists_one" | "existsOne", 2) => make.quantifier(Quantifier::ExistsOne, target, args),
        (Some(target), "map", 2 | 3) => make.map(target, args),
        (Some(target), "filter", 2) => make.filter(target, args),
        (Some(target), "all", 3) => make.two_variable(Quantifier::All, target, args),
        (Some(target), "exists", 3) => make.two_variable(Quantifier::Exists, target, args),
        (Some(target), "exists_one" | "existsOne", 3) => {
            make.two_variable(Quantifier::ExistsOne, target, args)
        }
        (Some(target), "transformList" | "transformMap" | "transformMapEntry", 3 | 4) => {
            make.transform(function, target, args)
        }
        (Some(target), "optMap", 2) => make.opt_map(target, args, false),
        (Some(target), "optFlatMap", 2) => make.opt_map(target, args, true),
        (Some(target), "sortBy", 2) => make.sort_by(target, args),
        (target, _, _) => Err(NotExpanded::Call(target, args)),
    }
}

#[derive(Clone, Copy)]
enum Quantifier {
    All,
    Exists,
    ExistsOne,
}

type Expanded = Result<Expr, NotExpanded>;

struct Make<'a> {
    positions: &'a mut Positions,
    offset: usize,
}

fn arguments<const N: usize>(args: Vec<Expr>) -> [Expr; N] {
    args.try_into().unwrap_or_else(|_| unreachable!("the number of arguments selected the macro"))
}

impl Make<'_> {
    fn id(&mut self) -> Id {
        self.positions.add(self.offset)
    }

    fn node(&mut self, kind: Kind) -> Expr {
        Expr { id: self.id(), kind }
    }

    fn literal(&mut self, literal: Literal) -> Expr {
        self.node(Kind::Literal(literal))
    }

    fn ident(&mut self, name: &str) -> Expr {
        self.node(Kind::Ident(name.into()))
    }

    fn accumulator(&mut self) -> Expr {
        self.ident(ACCUMULATOR)
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        self.node(Kind::Call { target: None, function: function.into(), args })
    }

    fn member_call(&mut self, target: Expr, function: &str, args: Vec<Expr>) -> Expr {
        self.node(Kind::Call { target: Some(Box::new(target)), function: function.into(), args })
    }

    fn list(&mut self, items: Vec<Expr>) -> Expr {
        self.node(Kind::List(items.into_iter().map(|value| Element { value, optional: false }).collect()))
    }

    fn problem<Found>(&self, at: &Expr, message: impl Into<String>) -> Result<Found, NotExpanded> {
        Err(NotExpanded::Problem(self.positions.offset(at.id), message.into()))
    }

    /// A copy whose nodes have numbers of their own.
    fn copy(&mut self, expr: &Expr) -> Expr {
        let mut copy = expr.clone();
        self.renumber(&mut copy);
        copy
    }

    fn renumber(&mut self, expr: &mut Expr) {
        expr.id = self.positions.add(self.positions.offset(expr.id));
        match &mut expr.kind {
            Kind::Error | Kind::Literal(_) | Kind::Ident(_) => {}
            Kind::Select { operand, .. } => self.renumber(operand),
            Kind::Call { target, args, .. } => {
                target.iter_mut().for_each(|target| self.renumber(target));
                args.iter_mut().for_each(|arg| self.renumber(arg));
            }
            Kind::List(elements) => elements.iter_mut().for_each(|element| self.renumber(&mut element.value)),
            Kind::Map(entries) => {
                for entry in entries {
                    entry.id = self.positions.add(self.positions.offset(entry.id));
                    self.renumber(&mut entry.key);
                    self.renumber(&mut entry.value);
                }
            }
            Kind::Struct { fields, .. } => {
                for field in fields {
                    field.id = self.positions.add(self.positions.offset(field.id));
                    self.renumber(&mut field.value);
                }
            }
            Kind::Comprehension(fold) => {
                for part in
                    [&mut fold.range, &mut fold.init, &mut fold.condition, &mut fold.step, &mut fold.result]
                {
                    self.renumber(part);
                }
            }
        }
    }

    fn has(&mut self, args: Vec<Expr>) -> Expanded {
        let [arg] = arguments(args);
        match arg.kind {
            Kind::Select { operand, field, test_only: false } => {
                Ok(self.node(Kind::Select { operand, field, test_only: true }))
            }
            _ => self.problem(&arg, "invalid argument to has() macro"),
        }
    }

    /// The name of an iteration variable.
    fn variable(&self, arg: &Expr, message: &str) -> Result<String, NotExpanded> {
        match &arg.kind {
            Kind::Ident(name) if name == "__result__" => {
                self.problem(arg, "iteration variable overwrites accumulator variable")
            }
            Kind::Ident(name) => Ok(name.clone()),
            _ => self.problem(arg, message),
        }
    }

    fn two_variables(&self, first: &Expr, second: &Expr) -> Result<(String, String), NotExpanded> {
        let message = "argument must be a simple name";
        let names = (self.variable(first, message)?, self.variable(second, message)?);
        if names.0 == names.1 {
            return self.problem(second, format!("duplicate variable name: {}", names.0));
        }
        Ok(names)
    }

    fn quantifier(&mut self, quantifier: Quantifier, target: Expr, args: Vec<Expr>) -> Expanded {
        let [variable, predicate] = arguments(args);
        let variable = self.variable(&variable, "argument must be a simple name")?;
        Ok(self.quantified(quantifier, target, variable, None, predicate))
    }

    fn two_variable(&mut self, quantifier: Quantifier, target: Expr, args: Vec<Expr>) -> Expanded {
        let [first, second, predicate] = arguments(args);
        let (variable, second) = self.two_variables(&first, &second)?;
        Ok(self.quantified(quantifier, target, variable, Some(second), predicate))
    }

    fn quantified(
        &mut self,
        quantifier: Quantifier,
        range: Expr,
        variable: String,
        second_variable: Option<String>,
        predicate: Expr,
    ) -> Expr {
        let accumulator = self.accumulator();
        let (init, condition, step, result) = match quantifier {
            Quantifier::All => {
                let init = self.literal(Literal::Bool(true));
                let condition = self.call(operator::NOT_STRICTLY_FALSE, vec![accumulator]);
                let current = self.accumulator();
                let step = self.call(operator::AND, vec![current, predicate]);
                (init, condition, step, self.accumulator())
            }
            Quantifier::Exists => {
                let init = self.literal(Literal::Bool(false));
                let negated = self.call(operator::NOT, vec![accumulator]);
                let condition = self.call(operator::NOT_STRICTLY_FALSE, vec![negated]);
                let current = self.accumulator();
                let step = self.call(operator::OR, vec![current, predicate]);
                (init, condition, step, self.accumulator())
            }
            Quantifier::ExistsOne => {
                let init = self.literal(Literal::Int(0));
                let condition = self.literal(Literal::Bool(true));
                let one = self.literal(Literal::Int(1));
                let more = self.call(operator::ADD, vec![accumulator, one]);
                let same = self.accumulator();
                let step = self.call(operator::CONDITIONAL, vec![predicate, more, same]);
                let (count, one) = (self.accumulator(), self.literal(Literal::Int(1)));
                (init, condition, step, self.call(operator::EQUALS, vec![count, one]))
            }
        };
        self.fold(range, variable, second_variable, init, condition, step, result)
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a fold")]
    fn fold(
        &mut self,
        range: Expr,
        variable: String,
        second_variable: Option<String>,
        init: Expr,
        condition: Expr,
        step: Expr,
        result: Expr,
    ) -> Expr {
        self.node(Kind::Comprehension(Box::new(Comprehension {
            range,
            variable,
            second_variable,
            accumulator: ACCUMULATOR.into(),
            init,
            condition,
            step,
            result,
        })))
    }

    /// A fold that always runs to the end, with a step that applies only where the filter holds.
    fn collect(
        &mut self,
        range: Expr,
        variables: (String, Option<String>),
        init: Kind,
        filter: Option<Expr>,
        step: Expr,
    ) -> Expr {
        let init = self.node(init);
        let condition = self.literal(Literal::Bool(true));
        let step = match filter {
            Some(filter) => {
                let same = self.accumulator();
                self.call(operator::CONDITIONAL, vec![filter, step, same])
            }
            None => step,
        };
        let result = self.accumulator();
        self.fold(range, variables.0, variables.1, init, condition, step, result)
    }

    fn append(&mut self, item: Expr) -> Expr {
        let (accumulator, item) = (self.accumulator(), self.list(vec![item]));
        self.call(operator::ADD, vec![accumulator, item])
    }

    fn map(&mut self, target: Expr, mut args: Vec<Expr>) -> Expanded {
        let filter = (args.len() == 3).then(|| args.remove(1));
        let [variable, transform] = arguments(args);
        let variable = self.variable(&variable, "argument is not an identifier")?;
        let step = self.append(transform);
        Ok(self.collect(target, (variable, None), Kind::List(Vec::new()), filter, step))
    }

    fn filter(&mut self, target: Expr, args: Vec<Expr>) -> Expanded {
        let [item, filter] = arguments(args);
        let variable = self.variable(&item, "argument is not an identifier")?;
        let step = self.append(item);
        Ok(self.collect(target, (variable, None), Kind::List(Vec::new()), Some(filter), step))
    }

    fn transform(&mut self, function: &str, target: Expr, mut args: Vec<Expr>) -> Expanded {
        let filter = (args.len() == 4).then(|| args.remove(2));
        let [first, second, transform] = arguments(args);
        let (key, value) = self.two_variables(&first, &second)?;
        let (init, step) = match function {
            "transformList" => (Kind::List(Vec::new()), self.append(transform)),
            "transformMap" => {
                let args = vec![self.accumulator(), self.ident(&key), transform];
                (Kind::Map(Vec::new()), self.call(operator::MAP_INSERT, args))
            }
            _ => {
                let args = vec![self.accumulator(), transform];
                (Kind::Map(Vec::new()), self.call(operator::MAP_INSERT, args))
            }
        };
        Ok(self.collect(target, (key, Some(value)), init, filter, step))
    }

    /// A fold over nothing, whose result sees `name` bound to `value`.
    fn bind(&mut self, name: &str, value: Expr, result: Expr) -> Expr {
        let range = self.list(Vec::new());
        let condition = self.literal(Literal::Bool(false));
        let step = self.ident(name);
        self.node(Kind::Comprehension(Box::new(Comprehension {
            range,
            variable: UNUSED.into(),
            second_variable: None,
            accumulator: name.into(),
            init: value,
            condition,
            step,
            result,
        })))
    }

    fn opt_map(&mut self, target: Expr, args: Vec<Expr>, flat: bool) -> Expanded {
        let [variable, transform] = arguments(args);
        let Kind::Ident(name) = &variable.kind else {
            let macro_name = if flat { "optFlatMap" } else { "optMap" };
            return self
                .problem(&variable, format!("{macro_name}() variable name must be a simple identifier"));
        };
        let copy = self.copy(&target);
        let value = self.member_call(copy, "value", Vec::new());
        let bound = self.bind(name, value, transform);
        let mapped = if flat { bound } else { self.call("optional.of", vec![bound]) };
        let has_value = self.member_call(target, "hasValue", Vec::new());
        let none = self.call("optional.none", Vec::new());
        Ok(self.call(operator::CONDITIONAL, vec![has_value, mapped, none]))
    }

    fn sort_by(&mut self, target: Expr, args: Vec<Expr>) -> Expanded {
        if !matches!(
            target.kind,
            Kind::List(_) | Kind::Select { .. } | Kind::Ident(_) | Kind::Comprehension(_) | Kind::Call { .. }
        ) {
            return self.problem(
                &target,
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
            );
        }
        let range = self.ident(SORT_BY_INPUT);
        let keys = self.map(range, args)?;
        let input = self.ident(SORT_BY_INPUT);
        let sorted = self.member_call(input, operator::SORT_BY_KEYS, vec![keys]);
        Ok(self.bind(SORT_BY_INPUT, target, sorted))
    }
}
