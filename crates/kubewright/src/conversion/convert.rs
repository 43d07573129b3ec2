//! One object from one version to another, so that nothing is lost on the way back.
//!
//! What the other version has no place for goes along in an annotation, with what the conversion makes of it: on the way
//! back, what is still so is put back, and what somebody changed meanwhile wins. Metadata is carried as it is.

use std::fmt::Display;

use kube::CustomResourceExt;
use serde_json::{Map, Value, json};

use super::{
    kept::{Kept, completed},
    partial::fill,
};
use crate::{
    error::{Error, Result},
    kind::Kind,
};

/// As many bytes as all annotations of an object may have.
const LARGEST: usize = 256 * 1024;

fn annotation(version: &str) -> String {
    format!("kubewright.dev/kept-from-{version}")
}

pub(super) fn convert<A, B>(object: &Value) -> Result<Value>
where
    A: Kind + CustomResourceExt + TryFrom<B, Error: Display>,
    B: Kind + CustomResourceExt + TryFrom<A, Error: Display>,
{
    let source: A = read(object)?;
    let wanted = completed(object, written(&source)?);
    let plain = written(&turned::<A, B>(source)?)?;
    let back = |made: &Value| written(&turned::<B, A>(read(made)?)?);
    let mut carried = Carried::of(object);
    let restored = carried.take(&B::version(&())).and_then(|kept| {
        let mut restored = plain.clone();
        kept.put_back(&mut restored);
        let back = back(&restored).inspect_err(|why| ignored(&annotation(&B::version(&())), why));
        back.ok().map(|back| (restored, back))
    });
    let (mut made, back) = match restored {
        Some(restored) => restored,
        None => {
            let back = back(&plain)?;
            (plain, back)
        }
    };
    carried.keep(&A::version(&()), &Kept::of(&wanted, &back))?;
    made["metadata"] = Value::Object(carried.metadata);
    Ok(made)
}

/// What `A` has and `B` has no place for, in an object of `A`.
pub(super) fn lost<A, B>(object: &A) -> Result<Kept>
where
    A: Kind + TryFrom<B, Error: Display>,
    B: Kind + TryFrom<A, Error: Display>,
{
    let back = written(&turned::<B, A>(turned::<A, B>(object.clone())?)?)?;
    Ok(Kept::of(&written(object)?, &back))
}

fn read<K: Kind + CustomResourceExt>(object: &Value) -> Result<K> {
    K::deserialize(object).or_else(|why| {
        let definition = K::crd();
        let schema = definition.spec.versions.first().and_then(|version| version.schema.as_ref());
        let mut whole = object.clone();
        fill(&mut whole, &json!(schema)["openAPIV3Schema"]);
        let whole = K::deserialize(whole);
        whole.map_err(|_| Error::new(format!("it is no {}: {why}", K::api_version(&()))))
    })
}

pub(super) fn written<K: Kind>(object: &K) -> Result<Value> {
    serde_json::to_value(object)
        .map_err(|why| Error::new(format!("as {} it can't be written: {why}", K::api_version(&()))))
}

fn turned<A: Kind, B: Kind + TryFrom<A, Error: Display>>(object: A) -> Result<B> {
    B::try_from(object)
        .map_err(|why| Error::new(format!("from {} to {}: {why}", A::version(&()), B::version(&()))))
}

/// Whatever an annotation holds, the object stays readable.
fn ignored(annotation: &str, why: &dyn Display) {
    tracing::warn!(annotation, error = %why, "what was kept of another version can't be put back");
}

/// The metadata of an object, on its way to another version.
struct Carried {
    metadata: Map<String, Value>,
}

impl Carried {
    fn of(object: &Value) -> Self {
        Self { metadata: object["metadata"].as_object().cloned().unwrap_or_default() }
    }

    /// What was kept of a version, which is no longer needed in the annotation.
    fn take(&mut self, version: &str) -> Option<Kept> {
        let annotation = annotation(version);
        let annotations = self.metadata.get_mut("annotations")?.as_object_mut()?;
        let text = annotations.remove(&annotation)?;
        if annotations.is_empty() {
            self.metadata.remove("annotations");
        }
        let kept = serde_json::from_str(text.as_str().unwrap_or_default());
        kept.inspect_err(|why| ignored(&annotation, why)).ok()
    }

    /// Keeps what was lost of a version, which the object had until now.
    fn keep(&mut self, version: &str, kept: &Kept) -> Result<()> {
        // One of that name is none of ours: it would be put into an object of this very version.
        let _ = self.take(version);
        if kept.is_empty() {
            return Ok(());
        }
        let mut annotations = match self.metadata.remove("annotations") {
            Some(Value::Object(annotations)) => annotations,
            _ => Map::new(),
        };
        annotations.insert(annotation(version), serde_json::to_string(kept)?.into());
        let size = |(name, value): (&String, &Value)| name.len() + value.as_str().unwrap_or_default().len();
        let size: usize = annotations.iter().map(size).sum();
        if size > LARGEST {
            return Err(Error::new(format!(
                "what only {version} has a place for would go into an annotation, and all annotations would have {size} \
                 bytes, more than the {LARGEST} that are allowed"
            )));
        }
        self.metadata.insert("annotations".to_owned(), annotations.into());
        Ok(())
    }
}
