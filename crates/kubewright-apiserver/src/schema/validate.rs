//! Whether a custom resource fulfils its schema, in the words of kube-openapi's validator.
//!
//! A valid value costs one walk and no allocation: places are a chain on the stack that is only spelled
//! out for an error. Errors of a value that an update has left alone are forgiven.

use std::collections::BTreeSet;

use serde_json::{Map, Number, Value};

use crate::field::{FieldError, Path, Problem, quoted};

use super::{
    Bound, Checks, Schema, Type,
    correlate::{OldItems, correlated_field, unchanged},
    numbers::{in_range, is_json_integer, is_multiple, named, number_format, same_value, shown, truncated},
    object_meta::object_meta,
};

/// What is wrong with `value`, which stands at `at` of its object.
pub(crate) fn validate(value: &Value, schema: &Schema, at: &Path) -> Vec<FieldError> {
    Validator { at }.ratcheted(value, None, schema, schema, None).into_errors()
}

/// The same for an update of `old` to `value`: what has not changed is not looked at again.
pub(crate) fn validate_update(value: &Value, old: &Value, schema: &Schema, at: &Path) -> Vec<FieldError> {
    Validator { at }.ratcheted(value, Some(old), schema, schema, None).into_errors()
}

/// The failures of one value against one schema, and how many checks went well: among alternatives
/// that all fail, the one with most successes is the one to report.
#[derive(Default)]
struct Outcome {
    failures: Vec<Failure>,
    matches: u32,
}

/// An error, and the text by which two errors are the same.
struct Failure {
    text: String,
    error: FieldError,
}

impl Outcome {
    fn push(&mut self, failure: Failure) {
        self.failures.push(failure);
    }

    fn merge(&mut self, other: Self) {
        self.matches += other.matches;
        self.failures.extend(other.failures);
    }

    fn is_valid(&self) -> bool {
        self.failures.is_empty()
    }

    fn into_errors(self) -> Vec<FieldError> {
        let mut said = BTreeSet::new();
        let new = self
            .failures
            .into_iter()
            .filter_map(|failure| said.insert(failure.text).then_some(failure.error));
        new.collect()
    }
}

/// A place inside the validated value.
#[derive(Clone, Copy)]
struct Place<'a> {
    parent: Option<&'a Place<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    Value(&'a str),
    Item(usize),
}

fn spell(place: Option<&Place<'_>>) -> String {
    let Some(place) = place else { return String::new() };
    let parent = spell(place.parent);
    match place.step {
        Step::Field(name) if parent.is_empty() => name.to_owned(),
        Step::Field(name) | Step::Value(name) => format!("{parent}.{name}"),
        Step::Item(index) => format!("{parent}[{index}]"),
    }
}

#[derive(Clone, Copy)]
struct Validator<'a> {
    at: &'a Path,
}

impl Validator<'_> {
    /// `structure` is the node of the schema's spine the value belongs to; it differs from `schema`
    /// below `allOf` and its like.
    fn ratcheted(
        self,
        value: &Value,
        old: Option<&Value>,
        schema: &Schema,
        structure: &Schema,
        place: Option<&Place<'_>>,
    ) -> Outcome {
        let mut outcome = self.check(value, old, schema, structure, place);
        if !outcome.is_valid() && old.is_some_and(|old| unchanged(value, old, structure)) {
            outcome.failures.clear();
        }
        outcome
    }

    fn check(
        self,
        value: &Value,
        old: Option<&Value>,
        schema: &Schema,
        structure: &Schema,
        place: Option<&Place<'_>>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        if value.is_null() {
            match schema.ty {
                Type::Any => outcome.matches += 1,
                _ if schema.nullable => outcome.matches += 1,
                _ => outcome.push(self.wrong_type(place, types(schema), "null")),
            }
            self.check_enum(value, schema, place, &mut outcome);
            return outcome;
        }
        if schema.ty != Type::Any || schema.format.is_some() {
            outcome.matches += 1;
            match type_problem(value, schema) {
                Some((wanted, found)) => outcome.push(self.wrong_type(place, wanted, found)),
                None => outcome.matches += 1,
            }
        }
        outcome.matches += 2; // alternatives: applied, and counted once themselves
        if let Some(checks) = &schema.checks {
            self.check_alternatives(value, old, checks, structure, place, &mut outcome);
        }
        match value {
            Value::String(text) => {
                outcome.matches += 1;
                self.check_string(text, schema, place, &mut outcome);
            }
            Value::Number(number) => {
                outcome.matches += 2;
                self.check_number(number, schema, place, &mut outcome);
            }
            Value::Array(list) => {
                outcome.matches += 2;
                self.check_list(list, old, schema, structure, place, &mut outcome);
            }
            _ => {}
        }
        outcome.matches += 1;
        self.check_enum(value, schema, place, &mut outcome);
        if let Value::Object(map) = value {
            outcome.matches += 1;
            self.check_object(map, old, schema, structure, place, &mut outcome);
        }
        outcome.matches += 1;
        outcome
    }

    fn check_alternatives(
        self,
        value: &Value,
        old: Option<&Value>,
        checks: &Checks,
        structure: &Schema,
        place: Option<&Place<'_>>,
        outcome: &mut Outcome,
    ) {
        let try_one = |schema: &Schema| self.check(value, old, schema, structure, place);
        if !checks.any_of.is_empty() {
            let mut best: Option<Outcome> = None;
            let mut success = None;
            for schema in &checks.any_of {
                let tried = try_one(schema);
                if tried.is_valid() {
                    success = Some(tried);
                    break;
                }
                if best.as_ref().is_none_or(|best| tried.matches > best.matches) {
                    best = Some(tried);
                }
            }
            if success.is_none() {
                outcome.push(self.broken(place, "must validate at least one schema (anyOf)"));
            }
            success.or(best).into_iter().for_each(|chosen| outcome.merge(chosen));
        }
        if !checks.one_of.is_empty() {
            let mut best: Option<Outcome> = None;
            let mut successes: Vec<Outcome> = Vec::new();
            for schema in &checks.one_of {
                let tried = try_one(schema);
                if tried.is_valid() {
                    successes.push(tried);
                } else if best.as_ref().is_none_or(|best| tried.matches > best.matches) {
                    best = Some(tried);
                }
            }
            const ONE_OF: &str = "must validate one and only one schema (oneOf).";
            match successes.len() {
                1 => successes.into_iter().for_each(|only| outcome.merge(only)),
                0 => {
                    outcome.push(self.broken(place, &format!("{ONE_OF} Found none valid")));
                    best.into_iter().for_each(|best| outcome.merge(best));
                }
                many => {
                    outcome.push(self.broken(place, &format!("{ONE_OF} Found {many} valid alternatives")));
                }
            }
        }
        if !checks.all_of.is_empty() {
            let mut valid = 0;
            for schema in &checks.all_of {
                let tried = try_one(schema);
                valid += usize::from(tried.is_valid());
                outcome.merge(tried);
            }
            if valid < checks.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                outcome.push(self.broken(place, &format!("must validate all the schemas (allOf){none}")));
            }
        }
        if let Some(schema) = &checks.not
            && try_one(schema).is_valid()
        {
            outcome.push(self.broken(place, "must not validate the schema (not)"));
        }
    }

    /// Of length and pattern only the first failure counts; the format is looked at in any case.
    fn check_string(self, text: &str, schema: &Schema, place: Option<&Place<'_>>, outcome: &mut Outcome) {
        let Some(checks) = &schema.checks else { return };
        let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        let failure = if let Some(most) = checks.max_length.filter(|most| length() > *most) {
            Some(self.too_long(place, most))
        } else if let Some(least) = checks.min_length.filter(|least| length() < *least) {
            Some(self.invalid(place, text.into(), &format!("should be at least {least} chars long")))
        } else {
            let broken = checks.pattern.as_ref().filter(|pattern| !pattern.is_match(text));
            broken.map(|pattern| {
                let source = match pattern.problem() {
                    Some(why) => format!("{}, but pattern is invalid: {why}", pattern.source()),
                    None => pattern.source().to_owned(),
                };
                self.invalid(place, text.into(), &format!("should match '{source}'"))
            })
        };
        failure.into_iter().for_each(|failure| outcome.push(failure));
        if let Some(has_format) = checks.format {
            outcome.matches += 1;
            if !has_format(text) {
                let format = schema.format.as_deref().unwrap_or_default();
                outcome.push(self.wrong_type(place, format, text));
            }
        }
    }

    fn check_number(
        self,
        number: &Number,
        schema: &Schema,
        place: Option<&Place<'_>>,
        outcome: &mut Outcome,
    ) {
        let whole = number.as_i64();
        let float = number.as_f64().unwrap_or_default();
        if !in_range(whole, float, schema) {
            outcome.push(self.out_of_range(place, schema, "Checked"));
        }
        let Some(checks) = &schema.checks else { return };
        let found = || shown(whole, float);
        if let Some(factor) = checks.multiple_of {
            let representable = in_range(None, factor, schema);
            if !representable {
                outcome.push(self.out_of_range(place, schema, "MultipleOf"));
            }
            let (positive, multiple, factor) = match whole.filter(|_| representable) {
                Some(whole) => {
                    let factor = truncated(factor);
                    (factor > 0, factor > 0 && whole % factor == 0, Value::from(factor))
                }
                None => (factor > 0.0, is_multiple(float, factor), shown(None, factor)),
            };
            if !positive {
                let place = spell(place);
                let text =
                    format!("factor MultipleOf declared for {place} must be positive: {}", named(&factor));
                outcome.push(self.failure(Problem::Invalid, &place, Some(factor), text));
            } else if !multiple {
                outcome.push(self.invalid(
                    place,
                    found(),
                    &format!("should be a multiple of {}", named(&factor)),
                ));
            }
        }
        let mut limit = |bound: Option<Bound>, what: &str, words: [&str; 2], breaks: fn(f64, f64) -> bool| {
            let Some(Bound { limit, exclusive }) = bound else { return };
            let representable = in_range(None, limit, schema);
            if !representable {
                outcome.push(self.out_of_range(place, schema, what));
            }
            let (broken, limit) = match whole.filter(|_| representable) {
                Some(whole) => {
                    let limit = truncated(limit);
                    let difference = i128::from(whole) - i128::from(limit);
                    let sign = f64::from(i8::try_from(difference.signum()).unwrap_or_default());
                    (breaks(sign, 0.0) || (exclusive && difference == 0), Value::from(limit))
                }
                #[expect(clippy::float_cmp, reason = "an exclusive bound excludes exactly itself")]
                None => (breaks(float, limit) || (exclusive && float == limit), shown(None, limit)),
            };
            if broken {
                let words = words[usize::from(exclusive)];
                outcome.push(self.invalid(place, found(), &format!("should be {words} {}", named(&limit))));
            }
        };
        let least = ["greater than or equal to", "greater than"];
        limit(checks.minimum, "Minimum boundary", least, |found, limit| found < limit);
        let most = ["less than or equal to", "less than"];
        limit(checks.maximum, "Maximum boundary", most, |found, limit| found > limit);
    }

    fn check_list(
        self,
        list: &[Value],
        old: Option<&Value>,
        schema: &Schema,
        structure: &Schema,
        place: Option<&Place<'_>>,
        outcome: &mut Outcome,
    ) {
        if let Some(items) = &schema.items {
            let old_items = OldItems::of(old, structure);
            let item_structure = structure.items.as_ref().unwrap_or(items);
            for (index, item) in list.iter().enumerate() {
                let old = old_items.as_ref().and_then(|items| items.get(item));
                let place = Place { parent: place, step: Step::Item(index) };
                outcome.merge(self.ratcheted(item, old, items, item_structure, Some(&place)));
            }
        }
        let Some(checks) = &schema.checks else { return };
        let size = i64::try_from(list.len()).unwrap_or(i64::MAX);
        if let Some(least) = checks.min_items.filter(|least| size < *least) {
            outcome.push(self.invalid(place, size.into(), &format!("should have at least {least} items")));
        }
        if let Some(most) = checks.max_items.filter(|most| size > *most) {
            outcome.push(self.too_many(place, size, most, "items"));
        }
        let repeats = |(index, item): (usize, &Value)| list[..index].contains(item);
        if checks.unique_items && list.iter().enumerate().any(repeats) {
            outcome.push(self.invalid(place, "".into(), "shouldn't contain duplicates"));
        }
    }

    fn check_object(
        self,
        map: &Map<String, Value>,
        old: Option<&Value>,
        schema: &Schema,
        structure: &Schema,
        place: Option<&Place<'_>>,
        outcome: &mut Outcome,
    ) {
        let closed = schema.checks.as_ref().is_some_and(|checks| checks.closed);
        if let Some(checks) = &schema.checks {
            let size = i64::try_from(map.len()).unwrap_or(i64::MAX);
            if let Some(least) = checks.min_properties.filter(|least| size < *least) {
                let words = format!("should have at least {least} properties");
                outcome.push(self.invalid(place, size.into(), &words));
            }
            if let Some(most) = checks.max_properties.filter(|most| size > *most) {
                outcome.push(self.too_many(place, size, most, "properties"));
            }
        }
        for (name, value) in map {
            let (field, step) = match (schema.properties.get(name), &schema.values) {
                (Some(field), _) => (&field.schema, Step::Field(name)),
                (None, _) if closed => {
                    let place = spell(place);
                    let text = format!("{place}.{name} in body is a forbidden property");
                    outcome.push(self.failure(Problem::Invalid, &place, Some(name.as_str().into()), text));
                    continue;
                }
                (None, Some(values)) => (values, Step::Value(name)),
                (None, None) => continue,
            };
            if field.same(object_meta()) {
                continue; // decoding has seen to it
            }
            let is_type = place.is_none() && matches!(name.as_str(), "apiVersion" | "kind");
            let field_structure = correlated_field(structure, name);
            let old = old.filter(|_| !is_type && field_structure.is_some()).and_then(|old| old.get(name));
            let place = Place { parent: place, step };
            outcome.merge(self.ratcheted(value, old, field, field_structure.unwrap_or(field), Some(&place)));
        }
        for name in &schema.required {
            if !map.contains_key(name) {
                let place = format!("{}.{name}", spell(place));
                let text = format!("{place} in body is required");
                let error = FieldError::required(&self.path(&place), "");
                outcome.push(Failure { text, error });
            }
        }
    }

    fn check_enum(self, value: &Value, schema: &Schema, place: Option<&Place<'_>>, outcome: &mut Outcome) {
        let allowed = &schema.one_of_values;
        if allowed.is_empty() || (!value.is_null() && allowed.iter().any(|one| same_value(value, one))) {
            return;
        }
        let words: Vec<String> =
            allowed.iter().map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned)).collect();
        let place = spell(place);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let text = format!("{place} in body should be one of {words:?}");
        let error = FieldError::not_supported(&self.path(&place), value.clone(), &words);
        outcome.push(Failure { text, error });
    }

    fn path(self, place: &str) -> Path {
        match place.strip_prefix('.').unwrap_or(place) {
            "" => self.at.clone(),
            name => self.at.child(name),
        }
    }

    fn failure(self, problem: Problem, place: &str, value: Option<Value>, text: String) -> Failure {
        let error = FieldError { problem, path: self.path(place), value, detail: text.clone() };
        Failure { text, error }
    }

    fn invalid(self, place: Option<&Place<'_>>, value: Value, words: &str) -> Failure {
        let place = spell(place);
        self.failure(Problem::Invalid, &place, Some(value), format!("{place} in body {words}"))
    }

    fn wrong_type(self, place: Option<&Place<'_>>, wanted: &str, found: &str) -> Failure {
        let place = spell(place);
        let text = format!("{place} in body must be of type {wanted}: {}", quoted(found));
        self.failure(Problem::TypeInvalid, &place, Some(found.into()), text)
    }

    fn too_long(self, place: Option<&Place<'_>>, most: i64) -> Failure {
        let place = spell(place);
        let text = format!("{place} in body should be at most {most} chars long");
        let path = self.path(&place);
        let error = match usize::try_from(most) {
            Ok(most) => FieldError::too_long(&path, most),
            Err(_) => FieldError {
                problem: Problem::TooLong,
                path,
                value: None,
                detail: "value is too long".to_owned(),
            },
        };
        Failure { text, error }
    }

    fn too_many(self, place: Option<&Place<'_>>, size: i64, most: i64, what: &str) -> Failure {
        let place = spell(place);
        let text = format!("{place} in body should have at most {most} {what}");
        let path = self.path(&place);
        let error = match (usize::try_from(size), usize::try_from(most)) {
            (Ok(size), Ok(most)) => FieldError::too_many(&path, size, most),
            _ => FieldError {
                problem: Problem::TooMany,
                path,
                value: Some(size.into()),
                detail: "has too many items".to_owned(),
            },
        };
        Failure { text, error }
    }

    /// A complaint that names its place in words only, and so is reported on the object as a whole.
    fn nameless(self, text: String) -> Failure {
        self.failure(Problem::Invalid, "", Some("".into()), text)
    }

    fn broken(self, place: Option<&Place<'_>>, words: &str) -> Failure {
        self.nameless(format!("{} {words}", quoted(&spell(place))))
    }

    fn out_of_range(self, place: Option<&Place<'_>>, schema: &Schema, what: &str) -> Failure {
        let ty = schema.type_name();
        let place = spell(place);
        self.nameless(match number_format(schema) {
            Some(format) => format!("{what} value must be of type {ty} with format {format} in {place}"),
            None => format!("{what} value must be of type {ty} (default format) in {place}"),
        })
    }
}

fn types(schema: &Schema) -> &'static str {
    match schema.ty {
        Type::IntOrString => "integer,string",
        _ => schema.type_name(),
    }
}

/// The type a value should have and the one it has, if they differ.
fn type_problem<'a>(value: &Value, schema: &'a Schema) -> Option<(&'a str, &'static str)> {
    let (found, found_format) = match value {
        Value::Null => return None,
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        Value::Number(number) if number.is_i64() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    };
    let wants_integer = matches!(schema.ty, Type::Integer | Type::IntOrString);
    let whole_float = found == "number" && wants_integer && value.as_f64().is_some_and(is_json_integer);
    let fits = whole_float
        || match schema.ty {
            Type::Any => false,
            Type::IntOrString => matches!(found, "integer" | "string"),
            Type::Number => matches!(found, "integer" | "number"),
            _ => schema.type_name() == found,
        };
    if let Some(format) = &schema.format {
        let textual = matches!(found, "string" | "array");
        if !textual && !fits && found_format != format {
            return Some((format, found_format));
        }
        if textual && !wants_integer && schema.ty != Type::Number {
            return None;
        }
    }
    if fits { None } else { Some((types(schema), found)) }
}
