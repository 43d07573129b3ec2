//! Managed fields on the way through `/scale`: a Scale shows who owns the number of replicas, and what a
//! write to it changes is carried back to the scaled object.

use serde_json::Value;

use super::{
    entries::{Entries, Entry},
    path::PathElement,
    set::FieldSet,
};

const SCALE_VERSION: &str = "autoscaling/v1";

/// Where objects of one kind keep their number of replicas.
pub(crate) struct ScaleFields<'a> {
    /// The apiVersion the scaled object is handled in.
    pub api_version: &'a str,
    /// Each version of the kind with the field names that lead to the replicas, such as `spec`, `replicas`;
    /// none for a version without `/scale`.
    pub paths: &'a [(String, Option<Vec<String>>)],
}

impl ScaleFields<'_> {
    /// The path in a version: `None` for an unknown version, `Some(None)` for one without `/scale`.
    fn path(&self, api_version: &str) -> Option<Option<Vec<PathElement>>> {
        let (_, path) = self.paths.iter().find(|(version, _)| *version == api_version)?;
        Some(path.as_ref().map(|path| path.iter().map(|name| PathElement::field(name)).collect()))
    }

    /// `metadata.managedFields` of the Scale of an object with these managed fields.
    pub(crate) fn to_scale(&self, managed: Option<&Value>) -> Result<Option<Value>, String> {
        let mut entries = Entries::decode(managed)?;
        entries.list.retain_mut(|entry| {
            let owns = self.path(&entry.api_version).flatten().is_some_and(|path| entry.fields.has(&path));
            if owns {
                SCALE_VERSION.clone_into(&mut entry.api_version);
                entry.fields = FieldSet::of(&[&["spec", "replicas"]]);
            }
            owns
        });
        Ok(entries.encode())
    }

    /// `metadata.managedFields` of an object whose Scale was written and now has those of `scale`.
    pub(crate) fn to_object(
        &self,
        managed: Option<&Value>,
        scale: Option<&Value>,
    ) -> Result<Option<Value>, String> {
        let parent = Entries::decode(managed)?;
        let mut scale = Entries::decode(scale)?;
        let mut out = Entries::default();
        for mut entry in parent.list {
            let Some(path) = self.path(&entry.api_version) else { continue };
            if let Some(path) = path.filter(|path| entry.fields.has(path)) {
                match scale.position(&entry) {
                    Some(place) => {
                        scale.list.swap_remove(place);
                    }
                    None => {
                        let mut replicas = FieldSet::default();
                        replicas.insert(path);
                        entry.fields.remove(&replicas);
                    }
                }
            }
            if !entry.fields.is_empty() {
                out.list.push(entry);
            }
        }
        let here = self.path(self.api_version).flatten().unwrap_or_default();
        let in_scale = [PathElement::field("spec"), PathElement::field("replicas")];
        for entry in scale.list.into_iter().filter(|entry| entry.fields.has(&in_scale)) {
            let mut fields = FieldSet::default();
            fields.insert(here.clone());
            let mut back = Entry::new(&entry.manager, entry.operation, self.api_version, &entry.subresource);
            back.fields = fields;
            out.list.push(back);
        }
        Ok(out.encode())
    }
}
