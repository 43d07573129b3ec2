//! What an apply would take from other managers, and the refusal that says so.

use super::{
    entries::{Entry, Operation},
    path::{PathElement, quoted},
    set::FieldSet,
};
use crate::error::{ApiError, Cause, Details};

/// Paths that belong to another manager and would change.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Conflict {
    /// Orders conflicts the way kube-apiserver does.
    identifier: String,
    /// The manager in words, such as `"kubectl" using v1`.
    manager: String,
    pub(super) paths: FieldSet,
}

impl Conflict {
    pub(super) fn new(entry: &Entry, paths: FieldSet) -> Self {
        let mut manager = quoted(&entry.manager);
        if !entry.subresource.is_empty() {
            manager = format!("{manager} with subresource {}", quoted(&entry.subresource));
        }
        if entry.operation == Operation::Update {
            manager = format!("{manager} using {}", entry.api_version);
        }
        Self { identifier: entry.identifier(), manager, paths }
    }

    fn texts(&self) -> Vec<String> {
        let mut texts = Vec::new();
        self.paths.for_each(&mut |path: &[&PathElement]| {
            texts.push(path.iter().map(ToString::to_string).collect());
        });
        texts
    }
}

/// The 409 of an apply that would change fields of others.
pub(super) fn refusal(mut conflicts: Vec<Conflict>) -> ApiError {
    conflicts.sort_by(|a, b| a.identifier.cmp(&b.identifier));
    let causes: Vec<Cause> = conflicts
        .iter()
        .flat_map(|conflict| {
            conflict.texts().into_iter().map(|field| Cause {
                reason: "FieldManagerConflict".to_owned(),
                message: format!("conflict with {}", conflict.manager),
                field,
            })
        })
        .collect();
    let message = match causes.as_slice() {
        [one] => format!("Apply failed with 1 conflict: {}: {}", one.message, one.field),
        many => {
            let mut lines = Vec::new();
            for conflict in &conflicts {
                lines.push(format!("conflicts with {}:", conflict.manager));
                lines.extend(conflict.texts().into_iter().map(|path| format!("- {path}")));
            }
            format!("Apply failed with {} conflicts: {}", many.len(), lines.join("\n"))
        }
    };
    ApiError::new(409, "Conflict", message).with_details(Details { causes, ..Details::default() })
}
