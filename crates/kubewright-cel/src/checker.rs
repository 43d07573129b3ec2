//! Finds the type of every node and what names and calls refer to, as cel-go's checker does.
//!
//! Types that are not written down (of empty lists, of type parameters of functions) are variables that
//! assignments bind. Problems are reported; the tree is not changed.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    ast::{Comprehension, Entry, Expr, Id, Kind, Literal, operator},
    env::Env,
    library::{self, Function},
    parser::{Parsed, Positions},
    schema::field_named,
    source::{Location, Problems, Source},
    types::Type,
};

/// What the checker found out.
pub(crate) struct Checked {
    types: Vec<Option<Type>>,
    references: BTreeMap<Id, Reference>,
}

/// What a name or a call refers to.
pub(crate) enum Reference {
    /// A variable, by its full name.
    Variable(String),
    /// A type.
    Type(Type),
    /// A function, and those of its overloads whose parameters fit.
    Function { function: &'static Function, overloads: Vec<&'static str>, namespaced: bool },
    /// An optional field selection.
    OptionalSelect,
}

impl Checked {
    pub(crate) fn type_of(&self, expr: &Expr) -> &Type {
        self.types[expr.id as usize].as_ref().unwrap_or(&Type::Dyn)
    }

    pub(crate) fn reference(&self, expr: &Expr) -> Option<&Reference> {
        self.references.get(&expr.id)
    }

    /// Whether an expression reads a variable.
    pub(crate) fn mentions(&self, variable: &str) -> bool {
        self.references.values().any(|it| matches!(it, Reference::Variable(name) if name == variable))
    }
}

/// Checks a tree; problems tell whether it may run.
pub(crate) fn check(env: &Env, source: &Source, parsed: &Parsed, problems: &mut Problems) -> Checked {
    let mut checker = Checker {
        env,
        source,
        positions: &parsed.positions,
        problems,
        types: vec![None; parsed.positions.len()],
        references: BTreeMap::new(),
        scopes: Vec::new(),
        variables: Variables::default(),
    };
    checker.check(&parsed.expr);
    let Checker { mut types, references, variables, .. } = checker;
    for ty in types.iter_mut().flatten() {
        *ty = variables.resolve(ty, true);
    }
    Checked { types, references }
}

struct Checker<'a> {
    env: &'a Env,
    source: &'a Source,
    positions: &'a Positions,
    problems: &'a mut Problems,
    types: Vec<Option<Type>>,
    references: BTreeMap<Id, Reference>,
    scopes: Vec<(String, Type)>,
    variables: Variables,
}

impl Checker<'_> {
    fn location(&self, id: Id) -> Location {
        self.source.location(self.positions.offset(id))
    }

    fn report(&mut self, id: Id, message: String) {
        let location = self.location(id);
        self.problems.report(location, message);
    }

    fn set(&mut self, expr: &Expr, ty: Type) {
        self.types[expr.id as usize] = Some(ty);
    }

    fn get(&self, expr: &Expr) -> Type {
        self.types[expr.id as usize].clone().unwrap_or(Type::Error)
    }

    fn undeclared(&mut self, expr: &Expr, name: &str) {
        self.report(expr.id, format!("undeclared reference to '{name}' (in container '')"));
        self.set(expr, Type::Error);
    }

    fn mismatch(&mut self, id: Id, expected: &Type, actual: &Type) {
        self.report(id, format!("expected type '{expected}' but found '{actual}'"));
    }

    fn check(&mut self, expr: &Expr) {
        match &expr.kind {
            Kind::Error => self.set(expr, Type::Error),
            Kind::Literal(literal) => self.set(
                expr,
                match literal {
                    Literal::Null => Type::Null,
                    Literal::Bool(_) => Type::Bool,
                    Literal::Int(_) => Type::Int,
                    Literal::Uint(_) => Type::Uint,
                    Literal::Double(_) => Type::Double,
                    Literal::String(_) => Type::String,
                    Literal::Bytes(_) => Type::Bytes,
                },
            ),
            Kind::Ident(name) => {
                if !self.refer(expr, name) {
                    self.undeclared(expr, name);
                }
            }
            Kind::Select { operand, field, test_only } => {
                if let Some(name) = expr.qualified_name()
                    && self.refer(expr, &name)
                {
                    return;
                }
                let ty = self.field(expr, operand, field, false);
                let ty = if *test_only { Type::Bool } else { self.variables.resolve(&ty, false) };
                self.set(expr, ty);
            }
            Kind::Call { target, function, args } => self.call(expr, target.as_deref(), function, args),
            Kind::List(elements) => {
                let mut joined = None;
                for element in elements {
                    self.check(&element.value);
                    let ty = self.unwrap_optional(&element.value, element.optional);
                    joined = Some(self.join(joined, ty));
                }
                let items = joined.unwrap_or_else(|| self.variables.fresh());
                self.set(expr, Type::list(items));
            }
            Kind::Map(entries) => self.map(expr, entries),
            Kind::Struct { name, .. } => {
                // No type that can be written here has a constructor.
                match self.lookup(name) {
                    None => self.undeclared(expr, name),
                    Some(_) => {
                        self.report(expr.id, format!("'{name}' is not a message type"));
                        self.set(expr, Type::Error);
                    }
                }
            }
            Kind::Comprehension(fold) => self.fold(expr, fold),
        }
    }

    /// What a name stands for: a variable or a type.
    fn lookup(&self, name: &str) -> Option<(Type, Reference)> {
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some((_, ty)) = self.scopes.iter().rev().find(|(local, _)| local == name) {
            return Some((ty.clone(), Reference::Variable(name.into())));
        }
        if let Some(ty) = self.env.variable_type(name) {
            return Some((ty.clone(), Reference::Variable(name.into())));
        }
        let ty = library::type_named(name).or_else(|| self.env.type_named(name))?;
        Some((Type::type_of(ty.clone()), Reference::Type(ty)))
    }

    fn refer(&mut self, expr: &Expr, name: &str) -> bool {
        let Some((ty, reference)) = self.lookup(name) else { return false };
        self.set(expr, ty);
        self.references.insert(expr.id, reference);
        true
    }

    fn field(&mut self, expr: &Expr, operand: &Expr, field: &str, optional: bool) -> Type {
        self.check(operand);
        let operand_type = self.variables.resolve(&self.get(operand), false);
        let (target, was_optional) = match &operand_type {
            Type::Optional(value) => (value.as_ref(), true),
            other => (other, false),
        };
        let ty = match target {
            Type::Map(_, values) => values.as_ref().clone(),
            Type::Object(name) => match self.env.object_fields(name) {
                None => {
                    self.report(expr.id, format!("unexpected failed resolution of '{name}'"));
                    Type::Error
                }
                Some(fields) => field_named(fields, field).cloned().unwrap_or_else(|| {
                    self.report(expr.id, format!("undefined field '{field}'"));
                    Type::Error
                }),
            },
            Type::Var(_) => {
                self.variables.assign(&Type::Dyn, target);
                Type::Dyn
            }
            other => {
                if !other.is_dyn_or_error() {
                    self.report(expr.id, format!("type '{other}' does not support field selection"));
                }
                Type::Dyn
            }
        };
        if was_optional || optional { Type::optional(ty) } else { ty }
    }

    fn call(&mut self, expr: &Expr, target: Option<&Expr>, function: &str, args: &[Expr]) {
        if function == operator::OPT_SELECT
            && let [operand, Expr { kind: Kind::Literal(Literal::String(field)), .. }] = args
        {
            let ty = self.field(expr, operand, field, true);
            let ty = self.variables.resolve(&ty, false);
            self.set(expr, ty);
            self.references.insert(expr.id, Reference::OptionalSelect);
            return;
        }
        for arg in args {
            self.check(arg);
        }
        let Some(target) = target else {
            match library::function(function.strip_prefix('.').unwrap_or(function)) {
                Some(found) => self.resolve(expr, found, None, args, false),
                None => self.undeclared(expr, function),
            }
            return;
        };
        if let Some(prefix) = target.qualified_name()
            && let Some(found) = library::function(format!("{prefix}.{function}").trim_start_matches('.'))
        {
            self.resolve(expr, found, None, args, true);
            return;
        }
        self.check(target);
        match library::function(function) {
            Some(found) => self.resolve(expr, found, Some(target), args, false),
            None => self.undeclared(expr, function),
        }
    }

    /// Finds the overloads that fit.
    fn resolve(
        &mut self,
        expr: &Expr,
        function: &'static Function,
        target: Option<&Expr>,
        args: &[Expr],
        namespaced: bool,
    ) {
        let mut arg_types: Vec<Type> = target.iter().map(|target| self.get(target)).collect();
        arg_types.extend(args.iter().map(|arg| self.get(arg)));
        if matches!(function.name, operator::AND | operator::OR) {
            self.logical(expr, function, args, &arg_types);
            return;
        }
        let mut overloads = Vec::new();
        let mut result: Option<Type> = None;
        for overload in &function.overloads {
            if overload.member != target.is_some() || overload.params.len() != arg_types.len() {
                continue;
            }
            let mut bound = BTreeMap::new();
            let params: Vec<Type> =
                overload.params.iter().map(|param| self.variables.instantiate(param, &mut bound)).collect();
            if !self.variables.assign_all(&arg_types, &params) {
                continue;
            }
            overloads.push(overload.id);
            let returned = self.variables.instantiate(&overload.result, &mut bound);
            let returned = self.variables.resolve(&returned, false);
            result = Some(match result {
                None => returned,
                Some(previous) if previous == Type::Dyn || previous == returned => previous,
                Some(_) => Type::Dyn,
            });
        }
        let Some(result) = result else {
            let shown: Vec<String> =
                arg_types.iter().map(|ty| self.variables.resolve(ty, true).to_string()).collect();
            let signature = match target {
                Some(_) => format!("{}.({})", shown[0], shown[1..].join(", ")),
                None => format!("({})", shown.join(", ")),
            };
            self.report(
                expr.id,
                format!("found no matching overload for '{}' applied to '{signature}'", function.name),
            );
            self.set(expr, Type::Error);
            return;
        };
        self.set(expr, result);
        self.references.insert(expr.id, Reference::Function { function, overloads, namespaced });
    }

    fn logical(&mut self, expr: &Expr, function: &'static Function, args: &[Expr], types: &[Type]) {
        let mut fits = true;
        for (arg, ty) in args.iter().zip(types) {
            if !self.variables.assign(ty, &Type::Bool) {
                self.mismatch(arg.id, &Type::Bool, ty);
                fits = false;
            }
        }
        self.set(expr, if fits { Type::Bool } else { Type::Error });
        let overloads = vec![function.overloads[0].id];
        self.references.insert(expr.id, Reference::Function { function, overloads, namespaced: false });
    }

    /// The type inside of an optional item.
    fn unwrap_optional(&mut self, expr: &Expr, optional: bool) -> Type {
        let ty = self.get(expr);
        if !optional {
            return ty;
        }
        match &ty {
            Type::Optional(value) => value.as_ref().clone(),
            Type::Dyn => ty,
            _ => {
                self.mismatch(expr.id, &Type::optional(ty.clone()), &ty);
                ty
            }
        }
    }

    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        match previous {
            None => current,
            Some(previous) if self.variables.assign(&previous, &current) => {
                if is_equal_or_less_specific(&previous, &current) { previous } else { current }
            }
            // Whether literals are homogeneous is checked once all types are known.
            Some(_) => Type::Dyn,
        }
    }

    fn map(&mut self, expr: &Expr, entries: &[Entry]) {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            self.check(&entry.key);
            let key = self.get(&entry.key);
            keys = Some(self.join(keys, key));
            self.check(&entry.value);
            let value = self.unwrap_optional(&entry.value, entry.optional);
            values = Some(self.join(values, value));
        }
        let keys = keys.unwrap_or_else(|| self.variables.fresh());
        let values = values.unwrap_or_else(|| self.variables.fresh());
        self.set(expr, Type::map(keys, values));
    }

    fn fold(&mut self, expr: &Expr, fold: &Comprehension) {
        self.check(&fold.range);
        self.check(&fold.init);
        let range = self.variables.resolve(&self.get(&fold.range), false);
        let accumulator = self.get(&fold.init);
        let two = fold.second_variable.is_some();
        let (first, second) = match &range {
            Type::List(items) if two => (Type::Int, items.as_ref().clone()),
            Type::List(items) => (items.as_ref().clone(), Type::Dyn),
            Type::Map(keys, values) => (keys.as_ref().clone(), values.as_ref().clone()),
            Type::Dyn | Type::Error | Type::Var(_) => {
                self.variables.assign(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            _ => {
                self.report(
                    fold.range.id,
                    format!(
                        "expression of type '{range}' cannot be range of a comprehension (must be list, map, or dynamic)"
                    ),
                );
                (Type::Error, Type::Error)
            }
        };
        let outside = self.scopes.len();
        self.scopes.push((fold.accumulator.clone(), accumulator.clone()));
        let inside = self.scopes.len();
        self.scopes.push((fold.variable.clone(), first));
        if let Some(name) = &fold.second_variable {
            self.scopes.push((name.clone(), second));
        }
        self.check(&fold.condition);
        self.assert(&fold.condition, &Type::Bool);
        self.check(&fold.step);
        self.assert(&fold.step, &accumulator);
        self.scopes.truncate(inside);
        self.check(&fold.result);
        self.scopes.truncate(outside);
        let result = self.variables.resolve(&self.get(&fold.result), false);
        self.set(expr, result);
    }

    fn assert(&mut self, expr: &Expr, expected: &Type) {
        let actual = self.get(expr);
        if !self.variables.assign(expected, &actual) {
            self.mismatch(expr.id, expected, &actual);
        }
    }
}

/// Type variables and what they are bound to. A failed assignment leaves no binding behind.
#[derive(Default)]
struct Variables {
    bindings: Vec<Option<Type>>,
    undo: Vec<(u32, Option<Type>)>,
}

impl Variables {
    fn fresh(&mut self) -> Type {
        self.bindings.push(None);
        Type::Var((self.bindings.len() - 1) as u32)
    }

    fn binding(&self, variable: u32) -> Option<&Type> {
        self.bindings[variable as usize].as_ref()
    }

    fn bind(&mut self, variable: u32, ty: Type) {
        let before = self.bindings[variable as usize].replace(ty);
        self.undo.push((variable, before));
    }

    /// The type with parameters replaced by variables of their own.
    fn instantiate(&mut self, ty: &Type, bound: &mut BTreeMap<&'static str, Type>) -> Type {
        match ty {
            Type::Param(name) => bound.entry(name).or_insert_with(|| self.fresh()).clone(),
            Type::List(items) => Type::list(self.instantiate(items, bound)),
            Type::Map(keys, values) => {
                let keys = self.instantiate(keys, bound);
                Type::map(keys, self.instantiate(values, bound))
            }
            Type::Optional(value) => Type::optional(self.instantiate(value, bound)),
            Type::Type(Some(of)) => Type::type_of(self.instantiate(of, bound)),
            other => other.clone(),
        }
    }

    /// The type with bound variables replaced, and unbound ones by `dyn` if asked for.
    fn resolve(&self, ty: &Type, free_to_dyn: bool) -> Type {
        match ty {
            Type::Var(variable) => match self.binding(*variable) {
                Some(bound) => self.resolve(bound, free_to_dyn),
                None if free_to_dyn => Type::Dyn,
                None => ty.clone(),
            },
            Type::Param(_) if free_to_dyn => Type::Dyn,
            Type::List(items) => Type::List(Arc::new(self.resolve(items, free_to_dyn))),
            Type::Map(keys, values) => {
                Type::map(self.resolve(keys, free_to_dyn), self.resolve(values, free_to_dyn))
            }
            Type::Optional(value) => Type::optional(self.resolve(value, free_to_dyn)),
            Type::Type(Some(of)) => Type::type_of(self.resolve(of, free_to_dyn)),
            other => other.clone(),
        }
    }

    fn assign(&mut self, to: &Type, from: &Type) -> bool {
        self.assign_all(std::slice::from_ref(to), std::slice::from_ref(from))
    }

    fn assign_all(&mut self, to: &[Type], from: &[Type]) -> bool {
        self.undo.clear();
        let fits = to.len() == from.len() && to.iter().zip(from).all(|(to, from)| self.assignable(to, from));
        if !fits {
            while let Some((variable, before)) = self.undo.pop() {
                self.bindings[variable as usize] = before;
            }
        }
        fits
    }

    fn assignable(&mut self, to: &Type, from: &Type) -> bool {
        if let Type::Var(variable) = from {
            let bound = self.binding(*variable).is_some();
            if self.substitute(to, *variable) {
                return true;
            }
            if bound {
                return false;
            }
        }
        if let Type::Var(variable) = to {
            return self.substitute(from, *variable);
        }
        if to.is_dyn_or_error() || from.is_dyn_or_error() {
            return true;
        }
        match (to, from) {
            (Type::Null, other) | (other, Type::Null) => matches!(
                other,
                Type::Null
                    | Type::Object(_)
                    | Type::Opaque(_)
                    | Type::Optional(_)
                    | Type::Duration
                    | Type::Timestamp
            ),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(to), Type::List(from)) | (Type::Optional(to), Type::Optional(from)) => {
                self.assignable(to, from)
            }
            (Type::Map(to_keys, to_values), Type::Map(from_keys, from_values)) => {
                self.assignable(to_keys, from_keys) && self.assignable(to_values, from_values)
            }
            _ => to == from,
        }
    }

    /// Whether a variable can stand for a type; binds it if that tells something new.
    fn substitute(&mut self, ty: &Type, variable: u32) -> bool {
        if *ty == Type::Var(variable) {
            return true;
        }
        if let Some(bound) = self.binding(variable).cloned() {
            if *ty == bound {
                return true;
            }
            if !self.assignable(ty, &bound) {
                return false;
            }
            let general = if is_equal_or_less_specific(ty, &bound) { ty.clone() } else { bound };
            if !self.occurs(variable, &general) {
                self.bind(variable, general);
            }
            return true;
        }
        if self.occurs(variable, ty) {
            return false;
        }
        self.bind(variable, ty.clone());
        true
    }

    fn occurs(&self, variable: u32, within: &Type) -> bool {
        match within {
            Type::Var(other) if *other == variable => true,
            Type::Var(other) => self.binding(*other).is_some_and(|bound| self.occurs(variable, bound)),
            _ => within.parameters().into_iter().any(|parameter| self.occurs(variable, parameter)),
        }
    }
}

fn is_equal_or_less_specific(one: &Type, other: &Type) -> bool {
    match (one, other) {
        (Type::Dyn | Type::Var(_), _) => true,
        (_, Type::Dyn | Type::Var(_)) => false,
        (Type::List(one), Type::List(other)) | (Type::Optional(one), Type::Optional(other)) => {
            is_equal_or_less_specific(one, other)
        }
        (Type::Map(one_keys, one_values), Type::Map(other_keys, other_values)) => {
            is_equal_or_less_specific(one_keys, other_keys)
                && is_equal_or_less_specific(one_values, other_values)
        }
        (Type::Type(_), Type::Type(_)) => true,
        _ => one == other,
    }
}
