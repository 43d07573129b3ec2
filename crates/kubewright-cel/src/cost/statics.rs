//! The estimate of what an expression can cost, before it runs.
//!
//! Follows cel-go's estimator and Kubernetes' own for its libraries: sizes come from literals, from what
//! functions return, and from the declared shapes along the path by which a value is reached.

use std::collections::BTreeMap;

use super::{
    CostRange,
    functions::{extension, or_unknown},
};
use crate::{
    ast::{Comprehension, Expr, Id, Kind, Literal},
    checker::{Checked, Reference},
    env::Env,
    macros,
    parser::Parsed,
    schema::{DeclType, Shape},
    types::Type,
};

/// Estimates the cost of an expression.
pub(crate) fn estimate(env: &Env, parsed: &Parsed, checked: &Checked) -> CostRange {
    Estimator {
        env,
        checked,
        paths: BTreeMap::new(),
        locals: Vec::new(),
        sizes: BTreeMap::new(),
        entries: BTreeMap::new(),
    }
    .cost(&parsed.expr)
}

/// How a value is reached: a variable, then fields, `@items`, `@keys` and `@values`.
type Path = Vec<String>;

/// Whether a container is a list, and how large its keys and values can be.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntrySizes {
    is_list: bool,
    key: CostRange,
    value: CostRange,
}

impl EntrySizes {
    pub(super) fn union(self, other: Self) -> Self {
        Self { is_list: self.is_list, key: self.key.union(other.key), value: self.value.union(other.value) }
    }
}

struct Local {
    name: String,
    path: Path,
    size: Option<CostRange>,
    entries: Option<EntrySizes>,
}

/// An argument of a call.
pub(super) struct Operand<'e> {
    pub(super) expr: &'e Expr,
    pub(super) path: Path,
    pub(super) ty: Type,
    pub(super) size: Option<CostRange>,
}

/// What a call costs by itself, and how large its result is if that is known.
pub(super) struct CallCost {
    pub(super) cost: CostRange,
    pub(super) result: Option<CostRange>,
}

impl CallCost {
    pub(super) fn of(cost: CostRange) -> Option<Self> {
        Some(Self { cost, result: None })
    }

    pub(super) fn sized(cost: CostRange, result: CostRange) -> Option<Self> {
        Some(Self { cost, result: Some(result) })
    }
}

/// Walks an expression and adds up.
pub(super) struct Estimator<'a> {
    env: &'a Env,
    checked: &'a Checked,
    paths: BTreeMap<Id, Path>,
    locals: Vec<Local>,
    sizes: BTreeMap<Id, CostRange>,
    pub(super) entries: BTreeMap<Id, EntrySizes>,
}

impl Estimator<'_> {
    fn cost(&mut self, expr: &Expr) -> CostRange {
        if let Kind::Select { .. } = &expr.kind
            && self.checked.reference(expr).is_some()
        {
            // A name with dots.
            self.paths.insert(expr.id, expr.qualified_name().into_iter().collect());
            return CostRange::fixed(1);
        }
        match &expr.kind {
            Kind::Error | Kind::Literal(_) => CostRange::ZERO,
            Kind::Ident(name) => {
                let path = self.local(name).map_or_else(|| vec![name.clone()], |local| local.path.clone());
                self.paths.insert(expr.id, path);
                CostRange::fixed(1)
            }
            Kind::Select { operand, test_only: true, .. } => self.cost(operand),
            Kind::Select { operand, field, .. } => {
                let mut sum = self.cost(operand);
                if matches!(self.checked.type_of(operand), Type::Map(..) | Type::Object(_)) {
                    sum = sum.add(CostRange::fixed(1));
                }
                self.extend_path(expr, operand, field);
                sum
            }
            Kind::Call { target, function, args } => self.call(expr, target.as_deref(), function, args),
            Kind::List(elements) => {
                let mut sum = CostRange::ZERO;
                let mut items: Option<CostRange> = None;
                for element in elements {
                    sum = sum.add(self.cost(&element.value));
                    let size = self.size_or_unknown(&element.value);
                    items = Some(items.map_or(size, |items| items.union(size)));
                }
                let value = items.unwrap_or(CostRange::ZERO);
                self.entries.insert(expr.id, EntrySizes { is_list: true, key: CostRange::fixed(1), value });
                sum.add(CostRange::fixed(10))
            }
            Kind::Map(entries) => {
                let mut sum = CostRange::ZERO;
                let mut sizes: Option<(CostRange, CostRange)> = None;
                for entry in entries {
                    sum = sum.add(self.cost(&entry.key)).add(self.cost(&entry.value));
                    let (key, value) = (self.size_or_unknown(&entry.key), self.size_or_unknown(&entry.value));
                    sizes = Some(
                        sizes.map_or((key, value), |(keys, values)| (keys.union(key), values.union(value))),
                    );
                }
                let (key, value) = sizes.unwrap_or((CostRange::ZERO, CostRange::ZERO));
                self.entries.insert(expr.id, EntrySizes { is_list: false, key, value });
                sum.add(CostRange::fixed(30))
            }
            Kind::Struct { fields, .. } => {
                let sum = fields.iter().fold(CostRange::ZERO, |sum, field| sum.add(self.cost(&field.value)));
                sum.add(CostRange::fixed(40))
            }
            Kind::Comprehension(fold) if is_bind(fold) => {
                let mut sum = self.cost(&fold.range).add(self.cost(&fold.init));
                self.push_bound(&fold.accumulator, &fold.init);
                sum = sum.add(self.cost(&fold.result));
                self.copy_sizes(expr, &fold.result);
                self.locals.pop();
                sum
            }
            Kind::Comprehension(fold) => self.fold(expr, fold),
        }
    }

    fn fold(&mut self, expr: &Expr, fold: &Comprehension) -> CostRange {
        let mut sum = self.cost(&fold.range).add(self.cost(&fold.init));
        self.push_bound(&fold.accumulator, &fold.init);
        let entries = self.entry_sizes(&fold.range);
        let is_list = entries
            .map_or_else(|| matches!(self.checked.type_of(&fold.range), Type::List(_)), |it| it.is_list);
        let path = self.path(&fold.range);
        let push = |locals: &mut Vec<Local>, name: &String, step: &str, size: Option<CostRange>| {
            let mut path = path.clone();
            path.push(step.into());
            locals.push(Local { name: name.clone(), path, size, entries: None });
        };
        let (keys, values) = (entries.map(|it| it.key), entries.map(|it| it.value));
        match (&fold.second_variable, is_list) {
            (Some(second), true) => {
                push(&mut self.locals, &fold.variable, "@indices", keys);
                push(&mut self.locals, second, "@items", values);
            }
            (Some(second), false) => {
                push(&mut self.locals, &fold.variable, "@keys", keys);
                push(&mut self.locals, second, "@values", values);
            }
            (None, true) => push(&mut self.locals, &fold.variable, "@items", values),
            (None, false) => push(&mut self.locals, &fold.variable, "@keys", keys),
        }
        let each = self.cost(&fold.condition).add(self.cost(&fold.step));
        let step_entries = self.entry_sizes(&fold.step);
        self.locals.pop();
        if fold.second_variable.is_some() {
            self.locals.pop();
        }
        sum = sum.add(self.cost(&fold.result));
        self.locals.pop();
        let count = self.size_or_unknown(&fold.range);
        match &fold.init.kind {
            Kind::Literal(_) => {
                if let Some(size) = self.size(&fold.init) {
                    self.sizes.insert(expr.id, size);
                }
            }
            Kind::List(_) | Kind::Map(_) => {
                self.sizes.insert(expr.id, count);
                if let Some(entries) = step_entries {
                    self.entries.insert(expr.id, entries);
                }
            }
            _ => {}
        }
        sum.add(count.multiply(each))
    }

    fn push_bound(&mut self, name: &str, value: &Expr) {
        let local = Local {
            name: name.into(),
            path: self.path(value),
            size: self.size(value),
            entries: self.entry_sizes(value),
        };
        self.locals.push(local);
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn path(&self, expr: &Expr) -> Path {
        if let Kind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_default()
    }

    fn extend_path(&mut self, expr: &Expr, from: &Expr, step: &str) {
        let mut path = self.path(from);
        path.push(step.into());
        self.paths.insert(expr.id, path);
    }

    fn copy_sizes(&mut self, to: &Expr, from: &Expr) {
        if let Some(size) = self.size(from) {
            self.sizes.insert(to.id, size);
        }
        if let Some(entries) = self.entry_sizes(from) {
            self.entries.insert(to.id, entries);
        }
    }

    pub(super) fn entry_sizes(&self, expr: &Expr) -> Option<EntrySizes> {
        self.entries.get(&expr.id).copied().or_else(|| match &expr.kind {
            Kind::Ident(name) => self.local(name)?.entries,
            _ => None,
        })
    }

    /// The declared size at a path. Where the path starts does not matter, see [`Env::variable`].
    pub(super) fn declared(&self, path: &[String]) -> Option<CostRange> {
        let (_, steps) = path.split_first()?;
        let mut shape: &DeclType = self.env.root_shape()?;
        for step in steps {
            shape = match (&shape.shape, step.as_str()) {
                (Shape::List { items, .. }, "@items" | "@values") => items,
                (Shape::Map { values }, "@items" | "@values") => values,
                (Shape::Map { .. }, "@keys") => return Some(CostRange { min: 0, max: 0 }),
                (Shape::Object(object), field) => &object.fields.get(field)?.ty,
                _ => return None,
            };
        }
        Some(CostRange { min: 0, max: shape.max_elements })
    }

    fn size(&mut self, expr: &Expr) -> Option<CostRange> {
        if let Some(size) = self.sizes.get(&expr.id) {
            return Some(*size);
        }
        let of_literal = match &expr.kind {
            Kind::Literal(Literal::String(text)) => Some(text.chars().count()),
            Kind::Literal(Literal::Bytes(bytes)) => Some(bytes.len()),
            Kind::Literal(_) => Some(1),
            Kind::List(elements) => Some(elements.len()),
            Kind::Map(entries) => Some(entries.len()),
            _ => None,
        };
        if let Some(size) = of_literal {
            return Some(CostRange::fixed(size as u64));
        }
        if let Some(size) = self.declared(&self.path(expr)) {
            self.sizes.insert(expr.id, size);
            return Some(size);
        }
        if is_scalar(self.checked.type_of(expr)) {
            return Some(CostRange::fixed(1));
        }
        match &expr.kind {
            Kind::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> CostRange {
        self.size(expr).unwrap_or(CostRange::UNKNOWN)
    }

    fn operand<'e>(&mut self, expr: &'e Expr) -> Operand<'e> {
        let mut path = self.path(expr);
        if path.first().is_some_and(|start| start == macros::ACCUMULATOR) {
            path.clear();
        }
        Operand { expr, path, ty: self.checked.type_of(expr).clone(), size: self.size(expr) }
    }

    fn call(&mut self, expr: &Expr, target: Option<&Expr>, name: &str, args: &[Expr]) -> CostRange {
        let (function, overloads, namespaced) = match self.checked.reference(expr) {
            Some(Reference::Function { function, overloads, namespaced }) => {
                (function.name, overloads.as_slice(), *namespaced)
            }
            _ => (name, &["select_optional_field"][..], false),
        };
        if function == "dyn"
            && let [arg] = args
        {
            let cost = self.cost(arg).add(CostRange::fixed(1));
            self.copy_sizes(expr, arg);
            return cost;
        }
        let mut arg_costs = Vec::with_capacity(args.len());
        let mut operands = Vec::with_capacity(args.len());
        for arg in args {
            arg_costs.push(self.cost(arg));
            operands.push(self.operand(arg));
        }
        let mut sum = CostRange::ZERO;
        let mut receiver = None;
        if let Some(target) = target
            && !namespaced
        {
            sum = self.cost(target);
            receiver = Some(self.operand(target));
        }
        let mut cost: Option<CostRange> = None;
        let mut result: Option<CostRange> = None;
        for overload in overloads {
            let estimated = self.function(expr, function, overload, receiver.as_ref(), &operands, &arg_costs);
            cost = Some(cost.map_or(estimated.cost, |cost| cost.union(estimated.cost)));
            result = match (result, estimated.result) {
                (Some(one), Some(two)) => Some(one.union(two)),
                (one, two) => one.or(two),
            };
            match (*overload, args.first()) {
                ("index_list", Some(list)) => {
                    result = self.entry_sizes(list).map(|entries| entries.value);
                    self.extend_path(expr, list, "@items");
                }
                ("index_map", Some(map)) => {
                    result = self.entry_sizes(map).map(|entries| entries.value);
                    self.extend_path(expr, map, "@values");
                }
                _ => {}
            }
            if result.is_none() {
                result = self.size(expr);
            }
        }
        if let Some(size) = result {
            self.sizes.insert(expr.id, size);
        }
        sum.add(cost.unwrap_or(CostRange::ZERO))
    }

    fn function(
        &mut self,
        expr: &Expr,
        function: &str,
        overload: &str,
        target: Option<&Operand<'_>>,
        args: &[Operand<'_>],
        arg_costs: &[CostRange],
    ) -> CallCost {
        let all_args = arg_costs.iter().fold(CostRange::ZERO, |sum, cost| sum.add(*cost));
        let known = extension(overload, target, args)
            .or_else(|| self.kubernetes(function, overload, target, args))
            .or_else(|| self.standard(expr, overload, target, args));
        match (overload, known) {
            // What is not evaluated is not paid for.
            ("logical_and" | "logical_or", _) => CallCost {
                cost: CostRange { min: arg_costs[0].min, max: arg_costs[0].add(arg_costs[1]).max },
                result: None,
            },
            ("conditional", _) => {
                let size = or_unknown(args[1].size).union(or_unknown(args[2].size));
                if let (Some(yes), Some(no)) =
                    (self.entry_sizes(args[1].expr), self.entry_sizes(args[2].expr))
                {
                    self.entries.insert(expr.id, yes.union(no));
                }
                let cost = arg_costs[0].add(arg_costs[1].union(arg_costs[2]));
                CallCost { cost, result: Some(size) }
            }
            (_, Some(known)) => CallCost { cost: known.cost.add(all_args), result: known.result },
            (_, None) => CallCost { cost: CostRange::fixed(1).add(all_args), result: None },
        }
    }
}

fn is_scalar(ty: &Type) -> bool {
    match ty {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(value) => is_scalar(value),
        _ => false,
    }
}

fn is_bind(fold: &Comprehension) -> bool {
    matches!(&fold.range.kind, Kind::List(elements) if elements.is_empty())
        && matches!(fold.condition.kind, Kind::Literal(Literal::Bool(false)))
        && fold.accumulator != macros::ACCUMULATOR
}
