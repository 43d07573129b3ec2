//! The rules (`x-kubernetes-validations`) of a custom resource, and the seam to the language they are
//! written in.
//!
//! Whoever knows CEL compiles the rules of each node into a [`Programs`] and puts it into the node's
//! [`RuleSet`]. Everything else is here: which rule sees which value and which old value, the budget, the
//! wording, and that errors of unchanged values are forgiven.

use std::fmt;

use serde_json::Value;

use crate::field::{FieldError, Path, Problem};

use super::{
    Rule, RuleSet, Schema, Type,
    correlate::{OldItems, correlated_field, unchanged},
    object_meta::object_meta,
};

/// The compiled rules of one schema node.
pub(crate) trait Programs: fmt::Debug + Send + Sync {
    /// Why the rule can't be evaluated at all, if so.
    fn problem(&self, rule: usize) -> Option<&str>;

    /// Whether the rule mentions `oldSelf`, and so only holds for updates.
    fn uses_old_self(&self, rule: usize) -> bool;

    /// Evaluates a rule.
    fn evaluate(&self, rule: usize, value: &Value, old: OldSelf<'_>) -> Evaluation<bool>;

    /// Evaluates a rule's message expression; `None` if it has none.
    fn message(&self, rule: usize, value: &Value, old: OldSelf<'_>) -> Option<Evaluation<String>>;
}

/// What `oldSelf` stands for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OldSelf<'a> {
    /// Nothing; the variable does not exist.
    Absent,
    /// The old value.
    Value(&'a Value),
    /// An optional of the old value, where the rule says `optionalOldSelf`.
    Optional(Option<&'a Value>),
}

/// What an evaluation came to, and what it cost.
#[derive(Debug, Clone)]
pub(crate) struct Evaluation<T> {
    /// The result, or the words of the evaluation's failure.
    pub result: Result<T, String>,
    /// Its cost, to be taken from the budget.
    pub cost: u64,
}

/// What evaluating the rules of an object came to.
#[derive(Debug, Default)]
pub(crate) struct RuleReport {
    /// Rules that do not hold.
    pub errors: Vec<FieldError>,
    /// Rules that do not hold, but for values that an update has left alone.
    pub warnings: Vec<String>,
    /// What is left of the budget; negative if it ran out.
    pub budget: i64,
}

/// What all rules of one object may cost (`RuntimeCELCostBudget`).
pub(crate) const BUDGET: i64 = 10_000_000;

/// The error that stands for the rules when [`blocking`] errors have kept them from being evaluated.
pub(crate) fn skipped_rules() -> FieldError {
    FieldError::invalid(
        &Path::default(),
        Value::Null,
        "some validation rules were not checked because the object was invalid; correct the existing errors to \
         complete validation",
    )
}

/// Whether errors are such that rules can't be evaluated on the object.
pub(crate) fn blocking(errors: &[FieldError]) -> bool {
    errors.iter().any(|error| {
        matches!(
            error.problem,
            Problem::NotSupported
                | Problem::Required
                | Problem::TooLong
                | Problem::TooMany
                | Problem::TypeInvalid
        )
    })
}

/// Evaluates all rules of `schema` on `value`, which stands at `path` and replaces `old`.
pub(crate) fn check_rules(value: &Value, old: Option<&Value>, schema: &Schema, path: &Path) -> RuleReport {
    let mut walk = Walk { report: RuleReport { budget: BUDGET, ..RuleReport::default() } };
    let lineage = Lineage { current: old.map(|old| (value, old, schema)), nearest: None };
    walk.node(value, old, schema, lineage, path);
    walk.report
}

type Pair<'a> = (&'a Value, &'a Value, &'a Schema);

/// Where a value comes from: its old self, or else the nearest ancestor that has one.
#[derive(Clone, Copy)]
struct Lineage<'a> {
    current: Option<Pair<'a>>,
    nearest: Option<Pair<'a>>,
}

impl<'a> Lineage<'a> {
    fn forgives(self) -> bool {
        let pair = self.current.or(self.nearest);
        pair.is_some_and(|(new, old, schema)| unchanged(new, old, schema))
    }

    fn below(self, child: impl FnOnce(Pair<'a>) -> Option<Pair<'a>>) -> Self {
        match self.current {
            Some(current) => Self { current: child(current), nearest: Some(current) },
            None => self,
        }
    }

    fn field(self, name: &str) -> Self {
        if self.nearest.is_none() && matches!(name, "apiVersion" | "kind") {
            return Self { current: None, nearest: None };
        }
        self.below(|(new, old, schema)| {
            Some((new.get(name)?, old.get(name)?, correlated_field(schema, name)?))
        })
    }
}

struct Walk {
    report: RuleReport,
}

impl Walk {
    /// Whether to go on: not once the budget is spent.
    fn node<'a>(
        &mut self,
        value: &'a Value,
        old: Option<&'a Value>,
        schema: &'a Schema,
        lineage: Lineage<'a>,
        path: &Path,
    ) -> bool {
        if !schema.below.rules || value.is_null() {
            return true;
        }
        if let Some(rules) = &schema.rules
            && !self.rules(value, old.filter(|old| !old.is_null()), schema, rules, lineage, path)
        {
            return false;
        }
        match value {
            Value::Object(map) => map.iter().all(|(name, value)| {
                let (field, path) = match (schema.properties.get(name), &schema.values) {
                    (Some(field), _) if !field.schema.below.rules => return true,
                    (Some(field), _) if field.schema.same(object_meta()) => return true,
                    (Some(field), _) => (&field.schema, path.child(name)),
                    (None, Some(values)) => (values, path.key(name)),
                    (None, None) => return true,
                };
                let old = old.and_then(|old| old.get(name));
                self.node(value, old, field, lineage.field(name), &path)
            }),
            Value::Array(list) => {
                let Some(items) = schema.items.as_deref().filter(|items| items.below.rules) else {
                    return true;
                };
                let old_items = OldItems::of(old, schema);
                list.iter().enumerate().all(|(index, item)| {
                    let old = old_items.as_ref().and_then(|items| items.get(item));
                    let lineage = lineage.below(|_| Some((item, old?, items)));
                    self.node(item, old, items, lineage, &path.index(index))
                })
            }
            _ => true,
        }
    }

    fn rules(
        &mut self,
        value: &Value,
        old: Option<&Value>,
        schema: &Schema,
        set: &RuleSet,
        lineage: Lineage<'_>,
        path: &Path,
    ) -> bool {
        const SPENT: &str =
            "validation failed due to running out of cost budget, no further validation rules will be run";
        let Some(programs) = set.programs.get() else { return true };
        let ty = schema.type_name();
        if self.report.budget <= 0 {
            self.report.errors.push(FieldError::invalid(path, ty, SPENT));
            self.report.budget = -1;
            return false;
        }
        // A message sees the old value, as such, only if some rule of the node does.
        let has_transition = (0..set.rules.len()).any(|index| programs.uses_old_self(index));
        let plain = old.filter(|_| has_transition).map_or(OldSelf::Absent, OldSelf::Value);
        for (index, rule) in set.rules.iter().enumerate() {
            if let Some(why) = programs.problem(index) {
                let detail = format!("rule compile error: {why}");
                self.report.errors.push(FieldError::invalid(path, ty, detail));
                continue;
            }
            let optional = rule.optional_old_self.unwrap_or_default();
            let transition = programs.uses_old_self(index);
            if transition && old.is_none() && !optional {
                continue;
            }
            let old_self = if optional { OldSelf::Optional(old) } else { plain };
            let Evaluation { result, cost } = programs.evaluate(index, value, old_self);
            if !self.spend(cost) {
                self.report.errors.push(FieldError::invalid(path, ty, SPENT));
                return false;
            }
            match result {
                Ok(true) => continue,
                Ok(false) => {}
                Err(why) => {
                    if !self.failed(&why, rule, ty, path) {
                        return false;
                    }
                    continue;
                }
            }
            let place = match set.error_paths.get(index).map(String::as_str) {
                None | Some("") => path.clone(),
                Some(below) => path.child(below),
            };
            let forgiven = !transition && lineage.forgives();
            let detail = match programs.message(index, value, plain) {
                None => None,
                Some(Evaluation { result, cost }) => {
                    const OUT_OF_COST: &str = "operation cancelled: actual cost limit exceeded";
                    let fatal = if !self.spend(cost) {
                        Some(format!(
                            "messageExpression evaluation failed due to {}",
                            &SPENT["validation failed due to ".len()..]
                        ))
                    } else if result.as_ref().is_err_and(|why| why.starts_with(OUT_OF_COST)) {
                        Some(format!(
                            "no further validation rules will be run due to call cost exceeds limit for messageExpression: {:?}",
                            rule.message_expression
                        ))
                    } else {
                        None
                    };
                    if let Some(why) = fatal {
                        self.add(FieldError::invalid(&place, ty, why), forgiven);
                        self.report.budget = -1;
                        return false;
                    }
                    result.ok().and_then(|message| usable_message(&message))
                }
            };
            let detail = detail.unwrap_or_else(|| {
                if rule.message.is_empty() {
                    format!("failed rule: {}", said(rule))
                } else {
                    said(rule).to_owned()
                }
            });
            let shown = Some(value).filter(|_| !matches!(schema.ty, Type::Object | Type::Array));
            self.add(error_of(rule, &place, shown, detail), forgiven);
        }
        true
    }

    fn spend(&mut self, cost: u64) -> bool {
        let cost = i64::try_from(cost).unwrap_or(i64::MAX);
        if cost > self.report.budget {
            self.report.budget = -1;
            return false;
        }
        self.report.budget -= cost;
        true
    }

    fn failed(&mut self, why: &str, rule: &Rule, ty: &str, path: &Path) -> bool {
        let rule = said(rule);
        let spent = why.starts_with("operation cancelled: actual cost limit exceeded");
        let detail = if why.starts_with("no such overload") {
            format!(
                "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {rule}"
            )
        } else if spent {
            format!(
                "'{why}': no further validation rules will be run due to call cost exceeds limit for rule: {rule}"
            )
        } else {
            format!("{why} evaluating rule: {rule}")
        };
        self.report.errors.push(FieldError::invalid(path, ty, detail));
        if spent {
            self.report.budget = -1;
        }
        !spent
    }

    fn add(&mut self, error: FieldError, forgiven: bool) {
        if forgiven {
            self.report.warnings.push(error.to_string());
        } else {
            self.report.errors.push(error);
        }
    }
}

fn said(rule: &Rule) -> &str {
    if rule.message.is_empty() { rule.rule.trim() } else { rule.message.trim() }
}

/// The message an expression came to, if it is fit to be shown.
fn usable_message(message: &str) -> Option<String> {
    const LONGEST: usize = 5 * 1024;
    let message = message.trim();
    let fit = !message.is_empty() && message.len() <= LONGEST && !message.contains('\n');
    fit.then(|| message.to_owned())
}

fn error_of(rule: &Rule, path: &Path, value: Option<&Value>, detail: String) -> FieldError {
    let problem = match rule.reason.as_deref() {
        Some("FieldValueForbidden") => return FieldError::forbidden(path, detail),
        Some("FieldValueRequired") => return FieldError::required(path, detail),
        Some("FieldValueDuplicate") => {
            let value = value.cloned();
            return FieldError {
                problem: Problem::Duplicate,
                path: path.clone(),
                value,
                detail: String::new(),
            };
        }
        _ => Problem::Invalid,
    };
    FieldError { problem, path: path.clone(), value: value.cloned(), detail }
}
