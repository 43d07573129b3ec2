//! The rules (`x-kubernetes-validations`) of a CustomResourceDefinition, compiled.
//!
//! In goes a schema as the definition writes it and as it was parsed; the programs are put into the nodes
//! of the latter, and what is wrong with the rules comes out. A rule that can't be compiled never keeps the
//! others from being so.

use std::sync::Arc;

use kubewright_cel::{Activation, Budget, CompileError, DeclType, Env, EvalError, Program, Type, Val};
use serde_json::Value;

use crate::{
    field::{FieldError, Path},
    schema::{
        Evaluation, ListType, OldSelf, Programs, Rule, RuleSet, Schema, SchemaRef,
        props::{Additional, Props},
    },
};

use super::internal;

/// What a rule may cost at most, given how often it can run in one object.
const RULE_LIMIT: u64 = 10_000_000;
/// What all rules of a schema may cost at most.
const SCHEMA_LIMIT: u64 = 100_000_000;

/// Compiles the rules of `schema`, which was parsed from `openapi` and stands at `path` of its definition,
/// and answers what is wrong with them. Rules of nodes that `found` errors are in are not complained about.
pub(crate) fn compile(
    openapi: Props<'_>,
    schema: &Schema,
    path: &Path,
    found: &[FieldError],
) -> Vec<FieldError> {
    let mut compiler = Compiler { found, errors: Vec::new(), total: TotalCost::default() };
    let place = Place {
        shape: shape(openapi, true),
        path: path.clone(),
        cardinality: Some(1),
        is_reached: true,
        is_in_scope: false,
        is_untyped: false,
        uncorrelatable: None,
    };
    compiler.node(openapi, schema, place);
    let Compiler { mut errors, total, .. } = compiler;
    errors.extend(total.errors(path));
    errors
}

fn shape(openapi: Props<'_>, is_resource: bool) -> Option<DeclType> {
    DeclType::from_openapi(openapi.fields(), is_resource)
}

/// What is known about a node from the way to it.
struct Place {
    /// How its values look to an expression, if they can be seen.
    shape: Option<DeclType>,
    path: Path,
    /// How often values of the node can be in one object at most; `None` if unlimited.
    cardinality: Option<u64>,
    /// All nodes above can be seen; the rules of others don't run.
    is_reached: bool,
    /// The node or one above has rules.
    is_in_scope: bool,
    /// The node, or one above that is in scope, can't be seen.
    is_untyped: bool,
    /// The nearest list above whose items can't be told which old item they come from.
    uncorrelatable: Option<Path>,
}

impl Place {
    /// The place of a child whose shape is part of this one's, unless it can't be seen from here.
    fn child(
        &self,
        openapi: Props<'_>,
        shape_here: Option<&DeclType>,
        path: Path,
        times: Option<u64>,
    ) -> Self {
        let embedded = openapi.flag("x-kubernetes-embedded-resource");
        Self {
            shape: shape_here.cloned().or_else(|| shape(openapi, embedded)),
            path,
            cardinality: self.cardinality.zip(times).map(|(outer, inner)| outer.saturating_mul(inner)),
            is_reached: self.is_reached && self.shape.is_some(),
            is_in_scope: self.is_in_scope,
            is_untyped: self.is_untyped,
            uncorrelatable: self.uncorrelatable.clone(),
        }
    }
}

struct Compiler<'a> {
    found: &'a [FieldError],
    errors: Vec<FieldError>,
    total: TotalCost,
}

impl Compiler<'_> {
    /// Children come first, as they do in the real server's errors.
    fn node(&mut self, openapi: Props<'_>, schema: &Schema, mut place: Place) {
        if !schema.below.rules {
            return;
        }
        place.is_in_scope |= schema.rules.is_some();
        place.is_untyped |= place.is_in_scope && place.shape.is_none();
        let times = most_elements(openapi);
        let element = place.shape.as_ref().and_then(DeclType::element);
        if let (Some(Additional::Schema(props)), Some(values)) =
            (openapi.additional("additionalProperties"), &schema.values)
        {
            let path = place.path.child("additionalProperties");
            self.node(props, values, place.child(props, element, path, times));
        }
        for (name, props) in openapi.named("properties") {
            let Some(field) = schema.properties.get(name).filter(|field| field.schema.below.rules) else {
                continue;
            };
            let shape = place.shape.as_ref().and_then(|shape| shape.property(name));
            let path = place.path.child("properties").key(name);
            self.node(props, &field.schema, place.child(props, shape, path, times));
        }
        if let (Some(props), Some(items)) = (openapi.item(), &schema.items) {
            self.items(props, schema, items, &place, times);
        }
        if let Some(rules) = &schema.rules {
            self.rules(openapi, rules, &place);
        }
    }

    fn items(
        &mut self,
        props: Props<'_>,
        schema: &Schema,
        items: &SchemaRef,
        place: &Place,
        times: Option<u64>,
    ) {
        let element = place.shape.as_ref().and_then(DeclType::element);
        let mut below = place.child(props, element, place.path.child("items"), times);
        if below.uncorrelatable.is_none() && !matches!(schema.list, ListType::Map(_)) {
            below.uncorrelatable = Some(place.path.clone());
        }
        self.node(props, items, below);
    }

    fn rules(&mut self, openapi: Props<'_>, set: &RuleSet, place: &Place) {
        let at = place.path.child("x-kubernetes-validations");
        let complain = !self.found.iter().any(|error| is_within(&error.path, &place.path));
        let Some(shape) = place.shape.as_ref().filter(|_| !place.is_untyped) else {
            if complain {
                self.errors.push(FieldError::internal(
                    &at,
                    "internal error: failed to construct type information for x-kubernetes-validations rules: \
                     unable to convert structural schema to CEL declarations",
                ));
            }
            return;
        };
        let compiled = CompiledRules::new(&set.rules, shape);
        if complain {
            let shown = openapi.array("x-kubernetes-validations");
            for (index, rule) in set.rules.iter().enumerate() {
                let shown = shown.get(index).unwrap_or(&Value::Null);
                self.judge(&compiled.rules[index], rule, shown, place, shape, &at.index(index));
            }
        }
        if place.is_reached {
            // Programs that are already there were compiled from the same rules.
            let _ = set.programs.set(Arc::new(compiled));
        }
    }

    /// What is wrong with a rule.
    fn judge(
        &mut self,
        compiled: &CompiledRule,
        rule: &Rule,
        shown: &Value,
        place: &Place,
        shape: &DeclType,
        at: &Path,
    ) {
        let (at_rule, at_message) = (at.child("rule"), at.child("messageExpression"));
        match &compiled.program {
            Ok(program) => {
                let times = place.cardinality.unwrap_or_else(|| shape.max_cardinality());
                let cost = program.estimate_cost().max.saturating_mul(times);
                self.cost("estimated rule cost", cost, at_rule.clone());
            }
            Err(why) => self.errors.push(internal::invalid(&at_rule, &internal::rule(shown), why)),
        }
        match &compiled.message {
            None => {}
            Some(Ok(program)) => {
                self.cost("estimated messageExpression cost", program.estimate_cost().max, at_message);
            }
            Some(Err(why)) => self.errors.push(internal::invalid(&at_message, &internal::rule(shown), why)),
        }
        if compiled.uses_old_self {
            if let Some(list) = &place.uncorrelatable {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                );
                self.errors.push(FieldError::invalid(&at_rule, rule.rule.as_str(), detail));
            }
        } else if let Some(optional) = rule.optional_old_self {
            let detail = "may not be set if oldSelf is not used in rule";
            self.errors.push(FieldError::invalid(&at.child("optionalOldSelf"), optional, detail));
        }
    }

    fn cost(&mut self, what: &str, cost: u64, at: Path) {
        if cost > RULE_LIMIT {
            self.errors.push(FieldError::forbidden(&at, over_limit(what, cost, RULE_LIMIT)));
        }
        self.total.observe(at, cost);
    }
}

/// Whether `path` leads to `node` or into it.
fn is_within(path: &Path, node: &Path) -> bool {
    path.as_str()
        .strip_prefix(node.as_str())
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// How many values a node holds for each of its own; `None` if unlimited.
fn most_elements(openapi: Props<'_>) -> Option<u64> {
    let limit = |key| openapi.integer(key).map(|most| u64::try_from(most).unwrap_or_default());
    match openapi.text("type") {
        "object" if openapi.get("additionalProperties").is_some() => limit("maxProperties"),
        "array" => limit("maxItems"),
        _ => Some(1),
    }
}

fn over_limit(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        _ if factor > 100.0 => "more than 100x".to_owned(),
        _ if factor < 1.5 => format!("{factor:.6}x"),
        _ => format!("{factor:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, \
         and maxLength where arrays, maps, and strings are declared)"
    )
}

/// What all rules of a schema cost, and the dearest of them.
#[derive(Default)]
struct TotalCost {
    total: u64,
    dearest: Vec<(Path, u64)>,
}

impl TotalCost {
    fn observe(&mut self, path: Path, cost: u64) {
        const MOST_SHOWN: usize = 4;
        self.total = self.total.saturating_add(cost);
        if cost < SCHEMA_LIMIT / 100 {
            return;
        }
        let place = self.dearest.partition_point(|(_, other)| *other >= cost);
        self.dearest.insert(place, (path, cost));
        self.dearest.truncate(MOST_SHOWN);
    }

    fn errors(self, path: &Path) -> Vec<FieldError> {
        if self.total <= SCHEMA_LIMIT {
            return Vec::new();
        }
        let contributed =
            "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        let whole = FieldError::forbidden(path, over_limit(what, self.total, SCHEMA_LIMIT));
        let single = self.dearest.iter().map(|(path, _)| FieldError::forbidden(path, contributed));
        single.chain([whole]).collect()
    }
}

/// The rules of one node, ready to run.
#[derive(Debug)]
struct CompiledRules {
    shape: Arc<DeclType>,
    rules: Vec<CompiledRule>,
}

#[derive(Debug)]
struct CompiledRule {
    program: Result<Program, String>,
    message: Option<Result<Program, String>>,
    uses_old_self: bool,
}

impl CompiledRules {
    fn new(rules: &[Rule], shape: &DeclType) -> Self {
        let shape = Arc::new(shape.clone());
        let mut plain = Env::new();
        let declared = plain.declare("selfType", shape.clone());
        plain.variable("self", declared.clone()).variable("oldSelf", declared.clone());
        let mut with_optional = None;
        let rules = rules
            .iter()
            .map(|rule| {
                let env = match rule.optional_old_self {
                    Some(true) => with_optional.get_or_insert_with(|| {
                        let mut env = plain.clone();
                        env.variable("oldSelf", declared.clone().optional());
                        env
                    }),
                    _ => &plain,
                };
                CompiledRule::new(rule, env)
            })
            .collect();
        Self { shape, rules }
    }

    fn run<T>(
        &self,
        program: &Program,
        value: &Value,
        old: OldSelf<'_>,
        read: impl FnOnce(&Val<'_>) -> Option<T>,
    ) -> Evaluation<T> {
        let mut budget = Budget::new(Budget::PER_CALL);
        let result = self.activation(value, old).and_then(|activation| {
            let value = program.eval(&activation, &mut budget)?;
            read(&value).ok_or_else(|| EvalError::new("no such overload"))
        });
        Evaluation { result: result.map_err(|error| error.to_string()), cost: budget.used() }
    }

    fn activation<'a>(&'a self, value: &'a Value, old: OldSelf<'a>) -> Result<Activation<'a>, EvalError> {
        let read = |value| Val::from_json(value, &self.shape);
        let activation = Activation::new().with("self", read(value)?);
        Ok(match old {
            OldSelf::Absent => activation,
            OldSelf::Value(old) => activation.with("oldSelf", read(old)?),
            OldSelf::Optional(old) => {
                let old = old.map(|old| read(old).map(Arc::new)).transpose()?;
                activation.with("oldSelf", Val::Optional(old))
            }
        })
    }
}

impl CompiledRule {
    fn new(rule: &Rule, env: &Env) -> Self {
        let program = match env.compile(&rule.rule) {
            Ok(program) if *program.return_type() != Type::Bool => {
                return Self::refused("cel expression must evaluate to a bool".to_owned());
            }
            Ok(program) => program,
            Err(error) => return Self::refused(failure("compilation", "program instantiation", &error)),
        };
        let text = &rule.message_expression;
        let message = (!text.is_empty()).then(|| match env.compile(text) {
            Ok(program) if *program.return_type() != Type::String => {
                Err("messageExpression must evaluate to a string".to_owned())
            }
            Ok(program) => Ok(program),
            Err(error) => {
                Err(failure("messageExpression compilation", "messageExpression instantiation", &error))
            }
        });
        Self { uses_old_self: program.uses_variable("oldSelf"), program: Ok(program), message }
    }

    fn refused(why: String) -> Self {
        Self { program: Err(why), message: None, uses_old_self: false }
    }
}

fn failure(compilation: &str, instantiation: &str, error: &CompileError) -> String {
    let step = if error.is_instantiation() { instantiation } else { compilation };
    format!("{step} failed: {error}")
}

impl Programs for CompiledRules {
    fn problem(&self, rule: usize) -> Option<&str> {
        self.rules[rule].program.as_ref().err().map(String::as_str)
    }

    fn uses_old_self(&self, rule: usize) -> bool {
        self.rules[rule].uses_old_self
    }

    fn evaluate(&self, rule: usize, value: &Value, old: OldSelf<'_>) -> Evaluation<bool> {
        match &self.rules[rule].program {
            Ok(program) => self.run(program, value, old, |value| value.as_bool()),
            Err(why) => Evaluation { result: Err(why.clone()), cost: 0 },
        }
    }

    fn message(&self, rule: usize, value: &Value, old: OldSelf<'_>) -> Option<Evaluation<String>> {
        let program = self.rules[rule].message.as_ref()?.as_ref().ok()?;
        Some(self.run(program, value, old, |value| value.as_str().map(str::to_owned)))
    }
}

#[cfg(test)]
mod tests;
