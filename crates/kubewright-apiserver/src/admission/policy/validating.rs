//! Validating policies: a request that does not fulfil the expressions of a policy in force is denied, warned
//! of, or noted.

use kubewright_cel::{Activation, Type, Val};
use serde_json::Value;

use super::{
    super::{
        attributes::Attributes,
        configurations::BoundPolicy,
        expressions::{
            Available, BUDGET, Compiler, Conditions, Expression, Input, Run, UserAuthorizer, Variable,
            Variables, room,
        },
        matching::{Matcher, Objects},
    },
    namespace_object,
    params::{ParamKind, ParamRef},
};
use crate::{
    error::{ApiError, Cause},
    kinds::access,
    registry::Resource,
};

/// Longer messages that an expression makes are not used.
const MESSAGE_MAX: usize = 5 * 1024;

/// A `ValidatingAdmissionPolicy`, compiled.
#[derive(Debug)]
pub(in super::super) struct Policy {
    name: String,
    matcher: Matcher,
    params: Option<ParamKind>,
    /// Whether what can't be evaluated denies the request.
    fail: bool,
    conditions: Conditions,
    variables: Vec<Variable>,
    validations: Vec<Validation>,
    annotations: Vec<(String, Expression)>,
}

#[derive(Debug)]
struct Validation {
    text: String,
    expression: Expression,
    message: String,
    message_expression: Option<Expression>,
    reason: &'static str,
}

/// A `ValidatingAdmissionPolicyBinding`.
#[derive(Debug)]
pub(in super::super) struct Binding {
    name: String,
    pub(in super::super) policy: String,
    matcher: Matcher,
    params: Option<ParamRef>,
    deny: bool,
    warn: bool,
}

impl Policy {
    pub(in super::super) fn read(name: &str, object: &Value) -> Self {
        let spec = &object["spec"];
        let params = ParamKind::read(spec);
        let fail = access::get_str(spec, &["failurePolicy"]) != "Ignore";
        let available = Available { params: params.is_some(), authorizer: true };
        let without_authorizer = Available { authorizer: false, ..available };
        let text = |of: &Value, field: &str| access::get_str(of, &[field]).to_owned();
        let mut compiler = Compiler::composing();
        let variables = access::items(spec, &["variables"])
            .iter()
            .map(|one| {
                let name = text(one, "name");
                let program = compiler.define(&name, &text(one, "expression"), available);
                Variable::new(&name, program)
            })
            .collect();
        let validation = |one: &Value| {
            let message_expression = text(one, "messageExpression");
            let message_expression = (!message_expression.is_empty())
                .then(|| compiler.expression(&message_expression, without_authorizer, &[Type::String]));
            Validation {
                expression: compiler.expression(&text(one, "expression"), available, &[Type::Bool]),
                text: text(one, "expression").trim().to_owned(),
                message: text(one, "message").trim().to_owned(),
                message_expression,
                reason: match access::get_str(one, &["reason"]) {
                    "Unauthorized" => "Unauthorized",
                    "Forbidden" => "Forbidden",
                    "RequestEntityTooLarge" => "RequestEntityTooLarge",
                    _ => "Invalid",
                },
            }
        };
        let annotation = |one: &Value| {
            let value = text(one, "valueExpression");
            (value.clone(), compiler.expression(&value, available, &[Type::String, Type::Null]))
        };
        Self {
            name: name.to_owned(),
            matcher: Matcher::of_resources(&spec["matchConstraints"]),
            fail,
            conditions: Conditions::compile(&compiler, spec, available.params, fail),
            validations: access::items(spec, &["validations"]).iter().map(validation).collect(),
            annotations: access::items(spec, &["auditAnnotations"]).iter().map(annotation).collect(),
            params,
            variables,
        }
    }
}

impl Binding {
    pub(in super::super) fn read(name: &str, object: &Value) -> Self {
        let spec = &object["spec"];
        let acts = |action: &str| access::items(spec, &["validationActions"]).iter().any(|one| one == action);
        Self {
            name: name.to_owned(),
            policy: access::get_str(spec, &["policyName"]).to_owned(),
            matcher: Matcher::of_resources(&spec["matchResources"]),
            params: ParamRef::read(spec),
            deny: acts("Deny"),
            warn: acts("Warn"),
        }
    }
}

/// What a policy has against a request.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Objection {
    message: String,
    reason: &'static str,
}

impl Objection {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), reason: "Invalid" }
    }
}

/// What a policy says of a request.
#[derive(Debug, Default)]
struct Verdict {
    /// For the actions of the binding.
    objections: Vec<Objection>,
    /// Refusals whatever the actions.
    refusals: Vec<Objection>,
}

/// Asks the policies whether the request may go on. Of several that deny it, the first is heard.
pub(in super::super) async fn validate(
    request: &Attributes<'_>,
    policies: &[BoundPolicy],
    objects: Objects<'_>,
) -> Result<(), ApiError> {
    let mut denied: Option<ApiError> = None;
    for (policy, bindings) in policies {
        let policy = &policy.content;
        let mut deny = |binding: Option<&Binding>, objection: Objection| {
            denied.get_or_insert_with(|| policy.denial(request, objects.object, binding, objection));
        };
        let configuration =
            |what: &str, why: String| Objection::new(format!("failed to configure {what}: {why}"));
        let matched = match policy.matcher.matches(request, objects) {
            Ok(None) => continue,
            Ok(Some(matched)) => matched,
            Err(error) => {
                if policy.fail {
                    deny(None, configuration("policy", error.message));
                }
                continue;
            }
        };
        let params =
            match policy.params.as_ref().map(|kind| kind.resource(&request.scope.registry)).transpose() {
                Ok(resource) => resource,
                Err(why) => {
                    if policy.fail {
                        deny(None, configuration("policy", why));
                    }
                    continue;
                }
            };
        for binding in bindings.iter().map(|binding| &binding.content) {
            let verdicts = async {
                if binding
                    .matcher
                    .matches(request, objects)
                    .map_err(|error| Halt::Setup(error.message))?
                    .is_none()
                {
                    return Ok(Vec::new());
                }
                let params = match (&params, &binding.params) {
                    (Some(resource), Some(reference)) => {
                        reference.collect(request, resource).await.map_err(Halt::Setup)?
                    }
                    _ => vec![Value::Null],
                };
                let namespace = namespace_object(request).map_err(Halt::Request)?;
                let verdicts = policy.evaluate(request, &matched, objects, &namespace, &params).await;
                verdicts.map_err(Halt::Setup)
            };
            match verdicts.await {
                Ok(verdicts) => {
                    for verdict in verdicts {
                        for objection in verdict.objections {
                            if binding.warn {
                                request.scope.warn(format!(
                                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                                    policy.name, binding.name, objection.message
                                ));
                            }
                            if binding.deny {
                                deny(Some(binding), objection);
                            }
                        }
                        verdict.refusals.into_iter().for_each(|refusal| deny(Some(binding), refusal));
                    }
                }
                Err(Halt::Request(error)) => return Err(error),
                Err(Halt::Setup(why)) if policy.fail => deny(Some(binding), configuration("binding", why)),
                Err(Halt::Setup(_)) => {}
            }
        }
    }
    denied.map_or(Ok(()), Err)
}

/// Why a binding could not be looked at.
enum Halt {
    /// It is not set up properly; the failure policy decides.
    Setup(String),
    /// The request itself fails.
    Request(ApiError),
}

impl Policy {
    fn denial(
        &self,
        request: &Attributes<'_>,
        object: Option<&Value>,
        binding: Option<&Binding>,
        objection: Objection,
    ) -> ApiError {
        let Objection { message, reason } = objection;
        let name = &self.name;
        let message = match binding {
            Some(binding) => format!(
                "ValidatingAdmissionPolicy '{name}' with binding '{}' denied request: {message}",
                binding.name
            ),
            None => format!("ValidatingAdmissionPolicy '{name}' denied request: {message}"),
        };
        let mut error = request.forbidden(object, &message);
        error.reason = reason;
        error.code = match reason {
            "Forbidden" => 403,
            "Unauthorized" => 401,
            "RequestEntityTooLarge" => 413,
            _ => 422,
        };
        if let Some(details) = &mut error.details {
            details.causes.push(Cause { message, ..Cause::default() });
        }
        error
    }

    /// What the policy says of a request, once for each of the parameters.
    async fn evaluate(
        &self,
        request: &Attributes<'_>,
        matched: &Resource,
        objects: Objects<'_>,
        namespace: &Value,
        params: &[Value],
    ) -> Result<Vec<Verdict>, String> {
        let failed = |error: ApiError| format!("failed to convert object version: {}", error.message);
        let from = request.resource();
        let object = request.converted(objects.object, from, matched).await.map_err(failed)?;
        let old = request.converted(objects.old, from, matched).await.map_err(failed)?;
        let (object, old) = (object.unwrap_or_default(), old.unwrap_or_default());
        let asked = Value::Object(request.request(matched));
        let authorizer = UserAuthorizer::of(request, request.resource());
        let input = |params| Input {
            object: &object,
            old: &old,
            request: &asked,
            namespace,
            params,
            authorizer: &authorizer,
        };
        Ok(params.iter().map(|params| self.judge(&input(params))).collect())
    }

    fn judge(&self, input: &Input<'_>) -> Verdict {
        let values = room(&self.variables);
        let variables = Variables::new(&self.variables, &values);
        let activation = input.activation().with("variables", Val::Lazy(&variables));
        variables.compute(&activation);
        let halted = |why: String| Verdict {
            objections: if self.fail { vec![Objection::new(why)] } else { Vec::new() },
            refusals: Vec::new(),
        };
        match self.conditions.hold(&activation, Some(&variables)) {
            Ok(true) => {}
            Ok(false) => return Verdict::default(),
            Err(why) => return halted(why),
        }
        let mut verdict = match self.validate(&activation, &variables) {
            Ok(objections) => Verdict { objections, refusals: Vec::new() },
            Err(why) => return halted(why),
        };
        let mut run = Run::new(&activation, Some(&variables), BUDGET);
        for (text, annotation) in &self.annotations {
            let refusal = match run.evaluate(annotation) {
                Err(out) => return halted(out.to_string()),
                Ok(Err(why)) if self.fail => why,
                Ok(Err(_) | Ok(Val::String(_) | Val::Null)) => continue,
                Ok(Ok(_)) => format!(
                    "valueExpression '{text}' resulted in unsupported return type. Return type must be either string or null."
                ),
            };
            verdict.refusals.push(Objection::new(refusal));
        }
        verdict
    }

    /// What the validations have against a request; an error if the budget ran out.
    fn validate<'a>(
        &self,
        activation: &Activation<'a>,
        variables: &Variables<'a>,
    ) -> Result<Vec<Objection>, String> {
        let mut run = Run::new(activation, Some(variables), BUDGET);
        let mut results = Vec::with_capacity(self.validations.len());
        for validation in &self.validations {
            results.push(run.evaluate(&validation.expression).map_err(|out| out.to_string())?);
        }
        let mut messages = Run::new(activation, Some(variables), run.left());
        let mut shown = Vec::with_capacity(self.validations.len());
        let mut out_of_budget = None;
        for validation in &self.validations {
            let message = match &validation.message_expression {
                Some(expression) if out_of_budget.is_none() => match messages.evaluate(expression) {
                    Ok(value) => value.ok(),
                    Err(out) => {
                        out_of_budget = Some(out);
                        None
                    }
                },
                _ => None,
            };
            shown.push(message);
        }
        let mut objections = Vec::new();
        for ((validation, result), shown) in self.validations.iter().zip(results).zip(shown) {
            let objection = match (result, &out_of_budget) {
                (Err(why), _) if self.fail => Objection::new(why),
                (Ok(_), Some(out)) if self.fail => Objection::new(format!("failed messageExpression: {out}")),
                (Err(_), _) | (Ok(_), Some(_)) => continue,
                (Ok(value), None) if value.as_bool() == Some(true) => continue,
                (Ok(_), None) => {
                    Objection { message: validation.message(shown.as_ref()), reason: validation.reason }
                }
            };
            objections.push(objection);
        }
        Ok(objections)
    }
}

impl Validation {
    /// The message of a denial: what the expression made, else the fixed one, else the rule itself.
    fn message(&self, made: Option<&Val<'_>>) -> String {
        let made = made.and_then(Val::as_str).map(str::trim).unwrap_or_default();
        if !made.is_empty() && made.len() <= MESSAGE_MAX && !made.contains('\n') {
            return made.to_owned();
        }
        if !self.message.is_empty() {
            return self.message.clone();
        }
        format!("failed expression: {}", self.text)
    }
}
