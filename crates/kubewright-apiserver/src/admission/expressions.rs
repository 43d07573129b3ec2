//! Expressions of policies and match conditions: compiled once, run against requests.
//!
//! A text becomes an [`Expression`] in a [`Compiler`], which knows which variables there are. An
//! [`Activation`](kubewright_cel::Activation) of a request's [`Input`] gives them values; a [`Run`] counts what
//! a set of expressions costs. The wording of every failure is that of kube-apiserver.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock, OnceLock},
};

use kubewright_cel::{
    Activation, AuthorizationDecision, AuthorizationRequest, Authorizer, Budget, Env, EvalError, Lazy,
    Program, Type, Val,
};
use parking_lot::Mutex;
use serde_json::Value;

use super::attributes::Attributes;
use crate::{
    auth::{
        UserInfo,
        rbac::{self, ResourceTarget, Rules, Target},
        user,
    },
    field::{FieldError, Path},
    registry::Resource,
};

/// What the expressions of a policy may cost together.
pub(super) const BUDGET: u64 = 10_000_000;
/// What the match conditions of a webhook or policy may cost together.
pub(super) const MATCH_BUDGET: u64 = 2_500_000;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// Which of the variables that are not always there an expression may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Available {
    pub(crate) params: bool,
    pub(crate) authorizer: bool,
}

/// Compiles the expressions of one webhook configuration or policy.
#[derive(Debug, Clone, Default)]
pub(crate) struct Compiler {
    /// The types of the variables the policy itself defines; nothing if it can't define any.
    variables: Option<BTreeMap<String, Type>>,
}

/// Why an expression can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unusable {
    detail: String,
    /// Whether the server is to blame and not the author.
    internal: bool,
}

impl Unusable {
    /// The error of the field that holds the expression.
    pub(crate) fn at(self, path: &Path, text: &str) -> FieldError {
        if self.internal {
            FieldError::internal(path, self.detail)
        } else {
            FieldError::invalid(path, text, self.detail)
        }
    }
}

/// An expression that is ready to run, or what is wrong with it.
#[derive(Debug)]
pub(super) struct Expression {
    text: String,
    program: Result<Program, Unusable>,
}

impl Compiler {
    /// One for expressions that may use `variables`.
    pub(crate) fn composing() -> Self {
        Self { variables: Some(BTreeMap::new()) }
    }

    /// Compiles an expression that returns one of `types`; any type if there are none.
    pub(crate) fn compile(
        &self,
        text: &str,
        available: Available,
        types: &[Type],
    ) -> Result<Program, Unusable> {
        let program = self.env(text, available).compile(text).map_err(|why| {
            let internal = why.is_instantiation();
            let what = if internal { "program instantiation failed" } else { "compilation failed" };
            Unusable { detail: format!("{what}: {why}"), internal }
        })?;
        let returned = program.return_type();
        if !types.is_empty() && !types.contains(returned) {
            let names: Vec<String> = types.iter().map(declared_name).collect();
            let expected = match names.as_slice() {
                [one] => one.clone(),
                many => format!("one of [{}]", many.join(" ")),
            };
            let detail = format!("must evaluate to {expected} but got {}", declared_name(returned));
            return Err(Unusable { detail, internal: false });
        }
        Ok(program)
    }

    /// Compiles a variable, which later expressions may use.
    pub(crate) fn define(
        &mut self,
        name: &str,
        text: &str,
        available: Available,
    ) -> Result<Program, Unusable> {
        let program = self.compile(text, available, &[]);
        let ty = program.as_ref().map_or(Type::Dyn, |program| program.return_type().clone());
        self.variables.get_or_insert_default().insert(name.to_owned(), ty);
        program
    }

    pub(super) fn expression(&self, text: &str, available: Available, types: &[Type]) -> Expression {
        Expression { text: text.to_owned(), program: self.compile(text, available, types) }
    }

    /// What `text` may use. Of the variables, those it names: there may be thousands.
    fn env(&self, text: &str, available: Available) -> Env {
        let mut env = BASE.clone();
        if available.params {
            env = env.with_params();
        }
        if available.authorizer {
            env = env.with_authorizer();
        }
        if let Some(variables) = &self.variables {
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let named = words.filter_map(|word| variables.get_key_value(word));
            let named = named.map(|(name, ty)| (name.clone(), ty.clone())).collect::<BTreeMap<_, _>>();
            env = env.with_variables(named);
        }
        env
    }
}

/// The name under which messages about return types show a type.
fn declared_name(ty: &Type) -> String {
    match ty {
        Type::Null => "null_type".to_owned(),
        Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
        Type::Duration => "google.protobuf.Duration".to_owned(),
        Type::List(items) => format!("list({})", declared_name(items)),
        Type::Map(keys, values) => format!("map({}, {})", declared_name(keys), declared_name(values)),
        Type::Optional(value) => format!("optional_type({})", declared_name(value)),
        other => other.to_string(),
    }
}

/// What every expression may use.
static BASE: LazyLock<Env> = LazyLock::new(Env::for_admission);

/// What expressions are run against.
pub(super) struct Input<'a> {
    pub(super) object: &'a Value,
    pub(super) old: &'a Value,
    pub(super) request: &'a Value,
    pub(super) namespace: &'a Value,
    pub(super) params: &'a Value,
    pub(super) authorizer: &'a UserAuthorizer,
}

impl<'a> Input<'a> {
    pub(super) fn activation(&self) -> Activation<'a> {
        Activation::new()
            .with("object", Val::from_dyn_json(self.object))
            .with("oldObject", Val::from_dyn_json(self.old))
            .with("request", Val::from_dyn_json(self.request))
            .with("namespaceObject", Val::from_dyn_json(self.namespace))
            .with("params", Val::from_dyn_json(self.params))
            .with("authorizer", Val::authorizer(self.authorizer))
            .with(
                "authorizer.requestResource",
                Val::resource_check(self.authorizer, self.authorizer.request.clone()),
            )
    }
}

/// What the user of a request may do, by RBAC.
#[derive(Debug)]
pub(super) struct UserAuthorizer {
    rules: Rules,
    user: Arc<UserInfo>,
    /// The request itself, as a question without a verb.
    request: AuthorizationRequest,
}

impl UserAuthorizer {
    pub(super) fn of(attributes: &Attributes<'_>, matched: &Resource) -> Self {
        Self {
            rules: attributes.scope.server.rules(),
            user: attributes.scope.user.clone(),
            request: AuthorizationRequest {
                group: matched.group.to_string(),
                resource: matched.plural.to_string(),
                subresource: attributes.subresource().to_owned(),
                namespace: attributes.namespace.clone(),
                name: attributes.name.clone(),
                ..AuthorizationRequest::default()
            },
        }
    }
}

impl Authorizer for UserAuthorizer {
    fn authorize(&self, request: &AuthorizationRequest) -> AuthorizationDecision {
        let account = request.service_account.as_ref().map(|(namespace, name)| {
            UserInfo::new(
                user::service_account_username(namespace, name),
                user::service_account_groups(namespace),
            )
        });
        let target = match &request.path {
            Some(path) => Target::Path(path),
            None => Target::Resource(ResourceTarget {
                group: &request.group,
                resource: &request.resource,
                subresource: &request.subresource,
                namespace: &request.namespace,
                name: &request.name,
            }),
        };
        let user = account.as_ref().unwrap_or(&self.user);
        let decision = self.rules.authorize(&rbac::Attributes { user, verb: &request.verb, target });
        AuthorizationDecision { allowed: decision.is_allowed(), reason: decision.reason(), error: None }
    }
}

/// A variable that a policy defines.
#[derive(Debug)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) program: Result<Program, Unusable>,
}

impl Variable {
    pub(super) fn new(name: &str, program: Result<Program, Unusable>) -> Self {
        Self { name: name.to_owned(), program }
    }
}

/// The values of a policy's variables, each computed from the ones before it.
#[derive(Debug)]
pub(super) struct Variables<'a> {
    definitions: &'a [Variable],
    values: &'a [OnceLock<Computed<'a>>],
    /// Which ones were asked for since this was last taken.
    read: Mutex<BTreeSet<usize>>,
}

#[derive(Debug)]
pub(super) struct Computed<'a> {
    value: Result<Val<'a>, EvalError>,
    cost: u64,
    /// The variables it asked for itself.
    reads: BTreeSet<usize>,
}

/// Room for the values of `definitions`.
pub(super) fn room<'a>(definitions: &[Variable]) -> Vec<OnceLock<Computed<'a>>> {
    definitions.iter().map(|_| OnceLock::new()).collect()
}

impl<'a> Variables<'a> {
    pub(super) fn new(definitions: &'a [Variable], values: &'a [OnceLock<Computed<'a>>]) -> Self {
        Self { definitions, values, read: Mutex::default() }
    }

    /// Computes all of them. Nothing is charged before a variable is read.
    pub(super) fn compute(&'a self, activation: &Activation<'a>) {
        let mut spent = 0_u64;
        for (definition, room) in self.definitions.iter().zip(self.values) {
            let name = &definition.name;
            let mut budget = Budget::new(Budget::PER_CALL);
            let value = match &definition.program {
                _ if spent > BUDGET => Err(EvalError::new(OUT_OF_BUDGET)),
                Ok(program) => program.eval(activation, &mut budget).map_err(|why| {
                    EvalError::new(format!("composited variable {name:?} fails to evaluate: {why}"))
                }),
                Err(why) => Err(EvalError::new(format!(
                    "composited variable {name:?} fails to compile: {}",
                    why.detail
                ))),
            };
            spent = spent.saturating_add(budget.used());
            let reads = std::mem::take(&mut *self.read.lock());
            // Each is computed once: the rooms are as fresh as the variables.
            let _ = room.set(Computed { value, cost: budget.used(), reads });
        }
    }

    /// What the variables cost that were read since, directly or not, and are not yet in `charged`.
    fn charge(&self, charged: &mut BTreeSet<usize>) -> u64 {
        let mut open: Vec<usize> = std::mem::take(&mut *self.read.lock()).into_iter().collect();
        let mut cost = 0_u64;
        while let Some(index) = open.pop() {
            if charged.insert(index)
                && let Some(computed) = self.values.get(index).and_then(OnceLock::get)
            {
                cost = cost.saturating_add(computed.cost);
                open.extend(&computed.reads);
            }
        }
        cost
    }
}

impl Lazy for Variables<'_> {
    fn field(&self, name: &str) -> Option<Result<Val<'_>, EvalError>> {
        // Of two with the same name the later one counts.
        let index = self.definitions.iter().rposition(|one| one.name == name)?;
        let computed = self.values.get(index)?.get()?;
        self.read.lock().insert(index);
        Some(computed.value.clone())
    }
}

/// Runs a set of expressions within one budget.
pub(super) struct Run<'r, 'a> {
    activation: &'r Activation<'a>,
    variables: Option<&'r Variables<'a>>,
    charged: BTreeSet<usize>,
    left: u64,
}

/// The budget is used up; no further expression is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{OUT_OF_BUDGET}")]
pub(super) struct OutOfBudget;

impl<'r, 'a> Run<'r, 'a> {
    pub(super) fn new(
        activation: &'r Activation<'a>,
        variables: Option<&'r Variables<'a>>,
        budget: u64,
    ) -> Self {
        Self { activation, variables, charged: BTreeSet::new(), left: budget }
    }

    /// What is left of the budget.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// The value of an expression, or why it has none.
    pub(super) fn evaluate(
        &mut self,
        expression: &Expression,
    ) -> Result<Result<Val<'a>, String>, OutOfBudget> {
        let program = match &expression.program {
            Ok(program) => program,
            Err(why) => return Ok(Err(format!("compilation error: {}", why.detail))),
        };
        let mut budget = Budget::new(Budget::PER_CALL);
        let outcome = program.eval(self.activation, &mut budget);
        let variables = self.variables.map_or(0, |variables| variables.charge(&mut self.charged));
        let cost = variables.saturating_add(budget.used());
        self.left = self.left.checked_sub(cost).ok_or(OutOfBudget)?;
        Ok(outcome.map_err(|why| format!("expression '{}' resulted in error: {why}", expression.text)))
    }
}

/// Conditions that must all hold for a webhook or a policy to apply.
#[derive(Debug)]
pub(super) struct Conditions {
    conditions: Vec<Expression>,
    /// Whether a failing condition refuses the request rather than lets it pass.
    pub(super) fail: bool,
}

impl Conditions {
    pub(super) fn compile(compiler: &Compiler, object: &Value, params: bool, fail: bool) -> Self {
        let available = Available { params, authorizer: true };
        let conditions = crate::kinds::access::items(object, &["matchConditions"])
            .iter()
            .map(|one| one.get("expression").and_then(Value::as_str).unwrap_or_default())
            .map(|text| compiler.expression(text, available, &[Type::Bool]))
            .collect();
        Self { conditions, fail }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Whether all hold; the error says why that can't be told.
    pub(super) fn hold<'a>(
        &self,
        activation: &Activation<'a>,
        variables: Option<&Variables<'a>>,
    ) -> Result<bool, String> {
        let mut run = Run::new(activation, variables, MATCH_BUDGET);
        let mut errors = Vec::new();
        for condition in &self.conditions {
            match run.evaluate(condition) {
                Ok(Ok(value)) if value.as_bool() == Some(false) => return Ok(false),
                Ok(Ok(_)) => {}
                Ok(Err(why)) => errors.push(why),
                Err(out) => {
                    errors = vec![out.to_string()];
                    break;
                }
            }
        }
        match errors.is_empty() {
            true => Ok(true),
            false if self.fail => Err(rbac::aggregate(errors)),
            false => Ok(false),
        }
    }
}
