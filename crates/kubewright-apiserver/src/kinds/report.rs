//! Walking an object to check it: [`At`] is a value together with its path, [`Errors`] collects what is
//! wrong.
//!
//! Paths are links to the parent on the stack and become text only once something is wrong, so that
//! checking a valid object allocates next to nothing.

use serde_json::Value;

use crate::field::{FieldError, Path};

/// A value inside an object, perhaps absent, and where it is.
#[derive(Clone, Copy)]
pub(crate) struct At<'v, 'p> {
    value: Option<&'v Value>,
    step: Step<'p>,
    parent: Option<&'p At<'v, 'p>>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Root(&'p str),
    Field(&'p str),
    Index(usize),
    Key(&'p str),
}

impl<'v, 'p> At<'v, 'p> {
    /// The whole object.
    pub(crate) fn root(object: &'v Value) -> Self {
        Self::rooted(object, "")
    }

    /// A value that is part of a larger object, at `path` there.
    pub(crate) fn rooted(value: &'v Value, path: &'p str) -> Self {
        Self { value: Some(value), step: Step::Root(path), parent: None }
    }

    fn below<'c>(&'c self, step: Step<'c>, value: Option<&'v Value>) -> At<'v, 'c>
    where
        'p: 'c,
    {
        At { value: value.filter(|value| !value.is_null()), step, parent: Some(self) }
    }

    /// The field `name` of this object.
    pub(crate) fn field<'c>(&'c self, name: &'c str) -> At<'v, 'c>
    where
        'p: 'c,
    {
        self.below(Step::Field(name), self.value.and_then(|value| value.get(name)))
    }

    /// The value of `key` in this map.
    pub(crate) fn key<'c>(&'c self, key: &'c str) -> At<'v, 'c>
    where
        'p: 'c,
    {
        self.below(Step::Key(key), self.value.and_then(|value| value.get(key)))
    }

    /// The item at `index` of this list.
    pub(crate) fn index<'c>(&'c self, index: usize) -> At<'v, 'c>
    where
        'p: 'c,
    {
        self.below(Step::Index(index), self.value.and_then(|value| value.get(index)))
    }

    /// This place, holding another value: for rules that report an item's problems at its list.
    pub(crate) fn holding(&self, value: Option<&'v Value>) -> Self {
        Self { value, ..*self }
    }

    /// The items of this list.
    pub(crate) fn items<'c>(&'c self) -> impl DoubleEndedIterator<Item = At<'v, 'c>>
    where
        'p: 'c,
    {
        (0..self.len()).map(|index| self.index(index))
    }

    /// The values of this map with their names, ordered by name.
    pub(crate) fn entries<'c>(&'c self) -> impl Iterator<Item = (&'v str, At<'v, 'c>)>
    where
        'p: 'c,
        'v: 'c,
    {
        let map = self.value.and_then(Value::as_object);
        map.into_iter()
            .flatten()
            .map(|(name, value)| (name.as_str(), self.below(Step::Key(name), Some(value))))
    }

    /// The value, if there is one.
    pub(crate) fn value(&self) -> Option<&'v Value> {
        self.value
    }

    /// A copy of the value for a message; `null` if there is none.
    pub(crate) fn shown(&self) -> Value {
        self.value.cloned().unwrap_or(Value::Null)
    }

    /// The value as the real server shows a struct of its own: by the names of Go, in their order, with
    /// `null` for what is absent.
    pub(crate) fn as_go(&self, fields: &[(&str, &str)]) -> String {
        let shown = fields.iter().map(|(go, name)| format!("\"{go}\":{}", self.field(name).shown()));
        format!("{{{}}}", shown.collect::<Vec<_>>().join(","))
    }

    /// Whether there is a value.
    pub(crate) fn exists(&self) -> bool {
        self.value.is_some()
    }

    /// Number of items or entries.
    pub(crate) fn len(&self) -> usize {
        match self.value {
            Some(Value::Array(list)) => list.len(),
            Some(Value::Object(map)) => map.len(),
            _ => 0,
        }
    }

    /// Whether there are no items or entries.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The string, or `""`.
    pub(crate) fn str(&self) -> &'v str {
        self.value.and_then(Value::as_str).unwrap_or_default()
    }

    /// The whole number, if there is one.
    pub(crate) fn number(&self) -> Option<i64> {
        self.value.and_then(Value::as_i64)
    }

    /// The whole number, or 0.
    pub(crate) fn int(&self) -> i64 {
        self.number().unwrap_or_default()
    }

    /// Whether the value is `true`.
    pub(crate) fn bool(&self) -> bool {
        self.value.and_then(Value::as_bool).unwrap_or_default()
    }

    /// The strings of this list.
    pub(crate) fn strings(&self) -> impl Iterator<Item = &'v str> {
        let list = self.value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        list.iter().map(|item| item.as_str().unwrap_or_default())
    }

    /// The path as text.
    pub(crate) fn path(&self) -> Path {
        let above = || self.parent.map(At::path).unwrap_or_default();
        match self.step {
            Step::Root(path) => Path::new(path),
            Step::Field(name) => above().child(name),
            Step::Index(index) => above().index(index),
            Step::Key(key) => above().key(key),
        }
    }
}

/// What is wrong with an object so far.
#[derive(Default)]
pub(crate) struct Errors(Vec<FieldError>);

impl Errors {
    /// Checks `object` with `check` and hands out what it found.
    pub(crate) fn of(object: &Value, check: impl FnOnce(&At<'_, '_>, &mut Self)) -> Vec<FieldError> {
        let mut errors = Self::default();
        check(&At::root(object), &mut errors);
        errors.0
    }

    /// Number of problems so far, to see whether a check found one.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The value must be there.
    pub(crate) fn required(&mut self, at: &At<'_, '_>, detail: impl Into<String>) {
        self.0.push(FieldError::required(&at.path(), detail));
    }

    /// `value` is not allowed at this place.
    pub(crate) fn invalid(&mut self, at: &At<'_, '_>, value: impl Into<Value>, detail: impl Into<String>) {
        self.0.push(FieldError::invalid(&at.path(), value, detail));
    }

    /// This place is wrong in a way that shows no value.
    pub(crate) fn invalid_unshown(&mut self, at: &At<'_, '_>, detail: impl Into<String>) {
        let mut error = FieldError::invalid(&at.path(), Value::Null, detail);
        error.value = None;
        self.0.push(error);
    }

    /// This string is not allowed, for each of these reasons.
    pub(crate) fn each(&mut self, at: &At<'_, '_>, reasons: Vec<String>) {
        for reason in reasons {
            self.invalid(at, at.str(), reason);
        }
    }

    /// Like [`Errors::invalid`], with the value as text. For values that the real server shows as its own
    /// types, see [`At::as_go`].
    pub(crate) fn invalid_text(&mut self, at: &At<'_, '_>, shown: &str, detail: &str) {
        self.invalid_unshown(at, format!("{shown}: {detail}"));
    }

    /// The value may not be set or changed.
    pub(crate) fn forbidden(&mut self, at: &At<'_, '_>, detail: impl Into<String>) {
        self.0.push(FieldError::forbidden(&at.path(), detail));
    }

    /// `value` is none of `supported`.
    pub(crate) fn not_supported(&mut self, at: &At<'_, '_>, value: impl Into<Value>, supported: &[&str]) {
        self.0.push(FieldError::not_supported(&at.path(), value, supported));
    }

    /// Like [`Errors::not_supported`], with the value as text.
    pub(crate) fn not_supported_text(&mut self, at: &At<'_, '_>, shown: &str, supported: &[&str]) {
        let mut error = FieldError::not_supported(&at.path(), Value::Null, supported);
        error.value = None;
        error.detail = format!("{shown}: {}", error.detail);
        self.0.push(error);
    }

    /// `value` appears twice.
    pub(crate) fn duplicate(&mut self, at: &At<'_, '_>, value: impl Into<Value>) {
        self.0.push(FieldError::duplicate(&at.path(), value));
    }

    /// Like [`Errors::duplicate`], with the value as text.
    pub(crate) fn duplicate_text(&mut self, at: &At<'_, '_>, shown: impl Into<String>) {
        let mut error = FieldError::duplicate(&at.path(), Value::Null);
        error.value = None;
        error.detail = shown.into();
        self.0.push(error);
    }

    /// `value` names something that does not exist.
    pub(crate) fn not_found(&mut self, at: &At<'_, '_>, value: impl Into<Value>) {
        self.0.push(FieldError::not_found(&at.path(), value));
    }

    /// The value is longer than `max` bytes.
    pub(crate) fn too_long(&mut self, at: &At<'_, '_>, max: usize) {
        self.0.push(FieldError::too_long(&at.path(), max));
    }

    /// The list has more than `max` items.
    pub(crate) fn too_many(&mut self, at: &At<'_, '_>, max: usize) {
        self.0.push(FieldError::too_many(&at.path(), at.len(), max));
    }

    /// Anything others found.
    pub(crate) fn extend(&mut self, errors: Vec<FieldError>) {
        self.0.extend(errors);
    }

    /// Anything else.
    pub(crate) fn push(&mut self, error: FieldError) {
        self.0.push(error);
    }

    /// A number, if given, may not be negative.
    pub(crate) fn non_negative(&mut self, at: &At<'_, '_>) {
        if at.int() < 0 {
            self.invalid(at, at.int(), "must be greater than or equal to 0");
        }
    }

    /// A string must be given and be one of `supported`.
    pub(crate) fn one_of(&mut self, at: &At<'_, '_>, supported: &[&str]) {
        if at.str().is_empty() {
            self.required(at, "");
        } else {
            self.optional_one_of(at, supported);
        }
    }

    /// A string, if given, must be one of `supported`.
    pub(crate) fn optional_one_of(&mut self, at: &At<'_, '_>, supported: &[&str]) {
        if at.exists() && !supported.contains(&at.str()) {
            self.not_supported(at, at.str(), supported);
        }
    }

    /// The value may not differ from `old`.
    pub(crate) fn immutable(&mut self, at: &At<'_, '_>, old: &At<'_, '_>) {
        if at.value() != old.value() {
            self.invalid(at, at.shown(), "field is immutable");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_problem_is_reported_with_its_whole_path() {
        let object = json!({"spec": {"ports": [{"port": 1}], "labels": {"a/b": "c"}}});
        let errors = Errors::of(&object, |object, errors| {
            let spec = object.field("spec");
            let ports = spec.field("ports");
            for port in ports.items() {
                errors.required(&port.field("name"), "");
            }
            for (_, label) in spec.field("labels").entries() {
                errors.invalid(&label, label.str(), "odd");
            }
        });
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            ["spec.ports[0].name: Required value", "spec.labels[a/b]: Invalid value: \"c\": odd"]
        );
    }
}
