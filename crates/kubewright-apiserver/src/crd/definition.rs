//! A CustomResourceDefinition (`apiextensions.k8s.io/v1`), read without copying.
//!
//! Absent fields read as empty; nothing here judges.

use serde_json::Value;

/// A view of a CustomResourceDefinition.
#[derive(Clone, Copy)]
pub(crate) struct Definition<'a>(pub &'a Value);

/// A view of one of its versions.
#[derive(Clone, Copy)]
pub(crate) struct Version<'a>(pub &'a Value);

/// A view of its names, wanted or accepted.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a>(Option<&'a Value>);

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn present<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value.get(key).filter(|value| !value.is_null())
}

fn list<'a>(value: Option<&'a Value>, key: &str) -> &'a [Value] {
    value.and_then(|value| value.get(key)?.as_array()).map(Vec::as_slice).unwrap_or_default()
}

impl<'a> Definition<'a> {
    pub(crate) fn spec(self) -> &'a Value {
        &self.0["spec"]
    }

    /// `metadata.name`.
    pub(crate) fn name(self) -> &'a str {
        text(&self.0["metadata"], "name")
    }

    /// `spec.group`.
    pub(crate) fn group(self) -> &'a str {
        text(self.spec(), "group")
    }

    /// `spec.scope`.
    pub(crate) fn scope(self) -> &'a str {
        text(self.spec(), "scope")
    }

    /// The names it asks for.
    pub(crate) fn names(self) -> Names<'a> {
        Names(self.spec().get("names"))
    }

    /// The names it has.
    pub(crate) fn accepted_names(self) -> Names<'a> {
        Names(self.0["status"].get("acceptedNames"))
    }

    /// `spec.versions`.
    pub(crate) fn versions(self) -> impl Iterator<Item = Version<'a>> + Clone {
        list(Some(self.spec()), "versions").iter().map(Version)
    }

    /// The version of that name.
    pub(crate) fn version(self, name: &str) -> Option<Version<'a>> {
        self.versions().find(|version| version.name() == name)
    }

    /// The version objects are stored in.
    pub(crate) fn storage_version(self) -> Option<Version<'a>> {
        self.versions().find(|version| version.storage())
    }

    /// Versions in which there may be stored objects.
    pub(crate) fn stored_versions(self) -> impl Iterator<Item = &'a str> {
        list(self.0.get("status"), "storedVersions").iter().filter_map(Value::as_str)
    }

    /// A condition of its status.
    pub(crate) fn condition(self, ty: &str) -> Option<&'a Value> {
        list(self.0.get("status"), "conditions").iter().find(|condition| text(condition, "type") == ty)
    }

    /// Whether a condition is there, and `True`.
    pub(crate) fn is_true(self, ty: &str) -> bool {
        self.condition(ty).is_some_and(|condition| text(condition, "status") == "True")
    }

    pub(crate) fn preserves_unknown_fields(self) -> bool {
        self.spec()["preserveUnknownFields"].as_bool().unwrap_or_default()
    }

    pub(crate) fn annotation(self, name: &str) -> &'a str {
        text(&self.0["metadata"]["annotations"], name)
    }
}

impl<'a> Version<'a> {
    /// Its name, such as `v1`.
    pub(crate) fn name(self) -> &'a str {
        text(self.0, "name")
    }

    /// Whether clients may use it.
    pub(crate) fn served(self) -> bool {
        self.0["served"].as_bool().unwrap_or_default()
    }

    /// Whether objects are stored in it.
    pub(crate) fn storage(self) -> bool {
        self.0["storage"].as_bool().unwrap_or_default()
    }

    /// Whether clients are warned that it will go.
    pub(crate) fn deprecated(self) -> bool {
        self.0["deprecated"].as_bool().unwrap_or_default()
    }

    /// The `openAPIV3Schema`.
    pub(crate) fn openapi(self) -> Option<&'a Value> {
        present(self.validation()?, "openAPIV3Schema")
    }

    pub(crate) fn validation(self) -> Option<&'a Value> {
        present(self.0, "schema")
    }

    pub(crate) fn subresources(self) -> Option<&'a Value> {
        present(self.0, "subresources")
    }

    /// Whether it has the `/status` subresource.
    pub(crate) fn has_status(self) -> bool {
        self.subresources().is_some_and(|subresources| present(subresources, "status").is_some())
    }

    /// The paths of the `/scale` subresource, if it has one.
    pub(crate) fn scale(self) -> Option<&'a Value> {
        present(self.subresources()?, "scale")
    }

    /// The columns of its tables, next to the name.
    pub(crate) fn columns(self) -> &'a [Value] {
        list(Some(self.0), "additionalPrinterColumns")
    }

    /// The paths by which its objects can be selected.
    pub(crate) fn selectable_fields(self) -> impl Iterator<Item = &'a str> {
        self.selectable().iter().map(|field| text(field, "jsonPath"))
    }

    pub(crate) fn selectable(self) -> &'a [Value] {
        list(Some(self.0), "selectableFields")
    }
}

impl<'a> Names<'a> {
    fn text(self, key: &str) -> &'a str {
        self.0.map(|names| text(names, key)).unwrap_or_default()
    }

    fn texts(self, key: &str) -> impl Iterator<Item = &'a str> + Clone {
        list(self.0, key).iter().filter_map(Value::as_str)
    }

    /// The plural, as in URLs.
    pub(crate) fn plural(self) -> &'a str {
        self.text("plural")
    }

    /// The singular.
    pub(crate) fn singular(self) -> &'a str {
        self.text("singular")
    }

    /// The kind.
    pub(crate) fn kind(self) -> &'a str {
        self.text("kind")
    }

    /// The kind of lists.
    pub(crate) fn list_kind(self) -> &'a str {
        self.text("listKind")
    }

    /// Short names.
    pub(crate) fn short_names(self) -> impl Iterator<Item = &'a str> + Clone {
        self.texts("shortNames")
    }

    /// Groups of resources it belongs to, such as `all`.
    pub(crate) fn categories(self) -> impl Iterator<Item = &'a str> + Clone {
        self.texts("categories")
    }
}
