//! Runs a program, counting what it costs.
//!
//! Costs follow cel-go's tracker step by step, quirks included, since limits are part of what users see.
//! Nothing here reads the clock, files or the network; only an authorizer or a lazy object that the
//! caller supplies can do so.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    cost::runtime::{call_cost, equality_cost},
    library::Implementation,
    plan::{Call, Fold, Node},
    value::{Evaluated, Items, Key, List, Map, Val},
};

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EvalError {
    message: String,
    exceeds_budget: bool,
}

impl EvalError {
    /// An error of an expression.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), exceeds_budget: false }
    }

    pub(crate) fn no_such_overload() -> Self {
        Self::new("no such overload")
    }

    fn over_budget() -> Self {
        Self { message: "operation cancelled: actual cost limit exceeded".into(), exceeds_budget: true }
    }

    /// Whether the expression was stopped because it cost too much.
    pub fn exceeds_budget(&self) -> bool {
        self.exceeds_budget
    }
}

/// What expressions may cost, and what they have cost.
#[derive(Debug, Clone)]
pub struct Budget {
    limit: u64,
    used: u64,
}

impl Budget {
    /// What one call of an expression may cost.
    pub const PER_CALL: u64 = 1_000_000;

    /// A budget.
    pub const fn new(limit: u64) -> Self {
        Self { limit, used: 0 }
    }

    /// What has been used of it.
    pub fn used(&self) -> u64 {
        self.used
    }

    fn spend(&mut self, cost: u64) -> Result<(), EvalError> {
        self.used = self.used.saturating_add(cost);
        if self.used > self.limit { Err(EvalError::over_budget()) } else { Ok(()) }
    }
}

/// Values of variables.
#[derive(Debug, Clone, Default)]
pub struct Activation<'a> {
    values: Vec<(&'a str, Val<'a>)>,
}

impl<'a> Activation<'a> {
    /// No values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the value of a variable.
    pub fn with(mut self, name: &'a str, value: Val<'a>) -> Self {
        self.values.push((name, value));
        self
    }

    fn get(&self, name: &str) -> Evaluated<'a> {
        match self.values.iter().find(|(variable, _)| *variable == name) {
            Some((_, value)) => Ok(value.clone()),
            None => Err(EvalError::new(format!("no such attribute(s): {name}"))),
        }
    }
}

pub(crate) fn evaluate<'a>(node: &Node, activation: &Activation<'a>, budget: &mut Budget) -> Evaluated<'a> {
    Run { activation, budget, locals: Vec::new() }.eval(node)
}

struct Run<'r, 'a> {
    activation: &'r Activation<'a>,
    budget: &'r mut Budget,
    locals: Vec<Result<Val<'a>, EvalError>>,
}

impl<'a> Run<'_, 'a> {
    fn eval(&mut self, node: &Node) -> Evaluated<'a> {
        match node {
            Node::Const(value) => Ok(value.clone()),
            Node::Variable(name) => {
                self.budget.spend(1)?;
                self.activation.get(name)
            }
            Node::Local(slot) => {
                self.budget.spend(1)?;
                self.locals[*slot].clone()
            }
            Node::Select { operand, field, optional } => {
                let value = self.operand(operand)?;
                self.qualify(&value, field, *optional)
            }
            Node::Index { operand, index, optional } => {
                let value = self.operand(operand)?;
                let key = self.eval(index)?;
                if index.is_attribute() {
                    // The index was paid for when it was evaluated.
                    let before = self.budget.used;
                    let found = self.qualify(&value, &key, *optional);
                    self.budget.used = before;
                    return found;
                }
                self.qualify(&value, &key, *optional)
            }
            Node::Has { operand, field } => {
                let value = self.eval(operand)?;
                if !operand.is_attribute() {
                    self.budget.spend(1)?;
                }
                let value = match &value {
                    Val::Optional(None) => return Ok(Val::Bool(false)),
                    Val::Optional(Some(value)) => value,
                    value => value,
                };
                Ok(Val::Bool(value.get(field)?.is_some()))
            }
            Node::Conditional(parts) => {
                let (condition, yes, no) = (&parts.0, &parts.1, &parts.2);
                let branch = match self.eval(condition)? {
                    Val::Bool(true) => yes,
                    Val::Bool(false) => no,
                    _ => return Err(EvalError::no_such_overload()),
                };
                let value = self.eval(branch);
                // An attribute that a conditional resolves costs only its selections.
                self.budget.used = self.budget.used.saturating_sub(branch.root_cost());
                value
            }
            Node::And(terms) => self.logical(&terms.0, &terms.1, false),
            Node::Or(terms) => self.logical(&terms.0, &terms.1, true),
            Node::NotStrictlyFalse(operand) => {
                let value = self.eval(operand);
                if value.as_ref().is_err_and(EvalError::exceeds_budget) {
                    return value;
                }
                self.budget.spend(1)?;
                Ok(match value {
                    Ok(Val::Bool(value)) => Val::Bool(value),
                    _ => Val::Bool(true),
                })
            }
            Node::Equal { operands, negated } => {
                let (one, two) = match (self.eval(&operands.0), self.eval(&operands.1)) {
                    (Ok(one), Ok(two)) => (one, two),
                    (Err(error), _) | (_, Err(error)) => return self.failed(error),
                };
                self.budget.spend(equality_cost(&one, &two, *negated))?;
                Ok(Val::Bool(one.equal(&two)? != *negated))
            }
            Node::InConstant { value, list } => {
                let value = self.eval(value)?;
                let mut found = false;
                for item in list {
                    found |= item.equal(&value)?;
                }
                Ok(Val::Bool(found))
            }
            Node::OrElse { optional, other, unwrap } => match self.eval(optional)? {
                Val::Optional(None) => self.eval(other),
                Val::Optional(Some(value)) if *unwrap => Ok(value.as_ref().clone()),
                value => Ok(value),
            },
            Node::List(elements) => self.list(elements),
            Node::Map(entries) => self.map(entries),
            Node::Call(call) => self.call(call),
            Node::Fold(fold) => self.fold(fold),
        }
    }

    /// A list literal, which is paid for even if an item has an error.
    fn list(&mut self, elements: &[(Node, bool)]) -> Evaluated<'a> {
        let mut collect = || {
            let mut items = Vec::with_capacity(elements.len());
            for (element, optional) in elements {
                items.extend(given(self.eval(element)?, *optional, || "list element".to_owned())?);
            }
            Ok(items)
        };
        let items = collect();
        self.budget.spend(10)?;
        items.map(Val::from)
    }

    /// A map literal, which is paid for even if an entry has an error.
    fn map(&mut self, entries: &[(Node, Node, bool)]) -> Evaluated<'a> {
        let mut collect = || {
            let mut map = BTreeMap::new();
            for (key, value, optional) in entries {
                let key = self.eval(key)?;
                let part = || format!("entry '{}'", key.shown());
                if let Some(value) = given(self.eval(value)?, *optional, part)? {
                    map.insert(Key::from_val(&key)?, value);
                }
            }
            Ok(map)
        };
        let map = collect();
        self.budget.spend(30)?;
        map.map(|map| Val::Map(Map::from_entries(map)))
    }

    /// A step whose operands were all evaluated, one of them with an error. It costs nevertheless.
    fn failed(&mut self, error: EvalError) -> Evaluated<'a> {
        self.budget.spend(1)?;
        Err(error)
    }

    /// The value that a selection or index is applied to.
    fn operand(&mut self, operand: &Node) -> Evaluated<'a> {
        let value = self.eval(operand)?;
        if !operand.is_attribute() {
            self.budget.spend(1)?;
        }
        Ok(value)
    }

    fn qualify(&mut self, value: &Val<'a>, key: &Val<'a>, optional: bool) -> Evaluated<'a> {
        let (value, optional) = match value {
            Val::Optional(None) => return Ok(Val::Optional(None)),
            Val::Optional(Some(value)) => (value.as_ref(), true),
            value => (value, optional),
        };
        match value.get(key)? {
            Some(found) => {
                self.budget.spend(1)?;
                Ok(if optional { Val::optional(found) } else { found })
            }
            None if optional => Ok(Val::Optional(None)),
            None => {
                self.budget.spend(1)?;
                Err(value.missing(key))
            }
        }
    }

    /// `&&` (decided by false) or `||` (decided by true); a decisive side wins over an error of the other.
    fn logical(&mut self, one: &Node, two: &Node, decisive: bool) -> Evaluated<'a> {
        let first = match self.eval(one) {
            Ok(Val::Bool(value)) if value == decisive => return Ok(Val::Bool(decisive)),
            Ok(Val::Bool(_)) => None,
            Ok(_) => Some(EvalError::no_such_overload()),
            Err(error) if error.exceeds_budget => return Err(error),
            Err(error) => Some(error),
        };
        match self.eval(two) {
            Ok(Val::Bool(value)) if value == decisive => Ok(Val::Bool(decisive)),
            Ok(Val::Bool(_)) => first.map_or(Ok(Val::Bool(!decisive)), Err),
            Ok(_) => Err(first.unwrap_or_else(EvalError::no_such_overload)),
            Err(error) if error.exceeds_budget => Err(error),
            Err(error) => Err(first.unwrap_or(error)),
        }
    }

    fn call(&mut self, call: &Call) -> Evaluated<'a> {
        if let Some(slot) = call.appends_to {
            return self.append(call, slot);
        }
        let mut args = Vec::with_capacity(call.args.len());
        let mut problem = None;
        for arg in &call.args {
            match self.eval(arg) {
                Ok(value) => args.push(value),
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        if let Some(error) = problem {
            return self.failed(error);
        }
        let result = match (&call.function.implementation, &call.pattern) {
            (Implementation::Plain(run), _) => run(&args),
            (Implementation::Pattern(run), Some(pattern)) => run(pattern, &args),
            (Implementation::Pattern(run), None) => {
                crate::library::dynamic_pattern(&args).and_then(|pattern| run(&pattern, &args))
            }
            (Implementation::Special, _) => Err(EvalError::no_such_overload()),
        };
        self.budget.spend(call_cost(call.function.name, call.overload, &args, result.as_ref().ok()))?;
        result
    }

    /// `accumulator + [item]` without copying what was accumulated.
    fn append(&mut self, call: &Call, slot: usize) -> Evaluated<'a> {
        self.budget.spend(1)?;
        if let Err(error) = &self.locals[slot] {
            return Err(error.clone());
        }
        let addition = self.eval(&call.args[1])?;
        self.budget.spend(1)?;
        let accumulated = std::mem::replace(&mut self.locals[slot], Ok(Val::Null))?;
        match (accumulated, addition) {
            (Val::List(List { items: Items::Owned(mut items), identity }), Val::List(addition)) => {
                let own = Arc::make_mut(&mut items);
                for item in addition.iter() {
                    own.push(item?);
                }
                Ok(Val::List(List { items: Items::Owned(items), identity }))
            }
            _ => Err(EvalError::no_such_overload()),
        }
    }

    fn fold(&mut self, fold: &Fold) -> Evaluated<'a> {
        let range = self.eval(&fold.range)?;
        let accumulator = self.locals.len();
        let init = self.eval(&fold.init);
        if init.as_ref().is_err_and(EvalError::exceeds_budget) {
            return init;
        }
        self.locals.push(init);
        let outcome = self.iterate(fold, &range, accumulator);
        self.locals.truncate(accumulator + 1);
        let result = outcome.and_then(|()| self.eval(&fold.result));
        self.locals.truncate(accumulator);
        result
    }

    fn iterate(&mut self, fold: &Fold, range: &Val<'a>, accumulator: usize) -> Result<(), EvalError> {
        match range {
            Val::List(list) => {
                for position in 0..list.len() {
                    let item = list.get(position);
                    let (first, second) = match fold.two_variables {
                        true => (Ok(Val::Int(position as i64)), Some(item)),
                        false => (item, None),
                    };
                    if !self.step(fold, accumulator, first, second)? {
                        break;
                    }
                }
            }
            Val::Map(map) => {
                for key in map.keys() {
                    let second = fold
                        .two_variables
                        .then(|| map.get(&key).and_then(|found| found.ok_or_else(|| range.missing(&key))));
                    if !self.step(fold, accumulator, Ok(key), second)? {
                        break;
                    }
                }
            }
            other => {
                return Err(EvalError::new(format!("got '{}', expected iterable type", go_type_name(other))));
            }
        }
        Ok(())
    }

    /// One step of a fold; whether to go on.
    fn step(
        &mut self,
        fold: &Fold,
        accumulator: usize,
        first: Evaluated<'a>,
        second: Option<Evaluated<'a>>,
    ) -> Result<bool, EvalError> {
        self.locals.truncate(accumulator + 1);
        self.locals.push(first);
        self.locals.extend(second);
        match self.eval(&fold.condition) {
            Ok(Val::Bool(false)) => return Ok(false),
            Err(error) if error.exceeds_budget => return Err(error),
            _ => {}
        }
        let next = self.eval(&fold.step);
        if let Err(error) = &next
            && error.exceeds_budget
        {
            return Err(error.clone());
        }
        self.locals[accumulator] = next;
        Ok(true)
    }
}

/// The value of a part of a literal, which an optional part may not have.
fn given<'a>(
    value: Val<'a>,
    optional: bool,
    part: impl FnOnce() -> String,
) -> Result<Option<Val<'a>>, EvalError> {
    match value {
        value if !optional => Ok(Some(value)),
        Val::Optional(value) => Ok(value.map(|value| value.as_ref().clone())),
        value => Err(EvalError::new(format!(
            "cannot initialize optional {} from non-optional value {}",
            part(),
            value.shown()
        ))),
    }
}

/// The name cel-go's own type of a value has, which one of its messages shows.
fn go_type_name(value: &Val<'_>) -> &'static str {
    match value {
        Val::Null => "types.Null",
        Val::Bool(_) => "types.Bool",
        Val::Int(_) => "types.Int",
        Val::Uint(_) => "types.Uint",
        Val::Double(_) => "types.Double",
        Val::String(_) => "types.String",
        Val::Bytes(_) => "types.Bytes",
        Val::Timestamp(_) => "types.Timestamp",
        Val::Duration(_) => "types.Duration",
        Val::Type(_) => "*types.Type",
        Val::Optional(_) => "*types.Optional",
        Val::List(_) | Val::Map(_) | Val::Extension(_) | Val::Lazy(_) => "ref.Val",
    }
}
