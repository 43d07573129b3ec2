//! Conversion of custom resources: how a version becomes another, and what the answer of a webhook is worth.
//!
//! A webhook may change everything of an object but its identity, and of its metadata labels and annotations
//! only. What it does wrong is said in the words of the real server.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::Definition;
use crate::{
    decode::{
        self,
        go::{json_kind, quote, type_of},
    },
    field::Path,
    kinds::access,
    names,
    webhook::{CallError, Endpoint},
};

const GROUP: &str = "apiextensions.k8s.io";

/// A conversion webhook, ready to be called.
#[derive(Debug)]
pub(crate) struct Conversion {
    pub(crate) endpoint: Endpoint,
    /// The first version of ConversionReview it understands that is known here.
    review_version: &'static str,
}

/// What is wrong with an answer, which is the end of a sentence that begins with the kind it was to convert.
type Refusal = String;

impl Conversion {
    /// The webhook of a definition, if it has one.
    pub(crate) fn of(definition: Definition<'_>) -> Option<Self> {
        let conversion = &definition.spec()["conversion"];
        if conversion["strategy"] != "Webhook" {
            return None;
        }
        let versions = access::items(conversion, &["webhook", "conversionReviewVersions"]);
        let review_version = versions.iter().find_map(|version| match version.as_str() {
            Some("v1") => Some("v1"),
            Some("v1beta1") => Some("v1beta1"),
            _ => None,
        });
        Some(Self {
            endpoint: Endpoint::read(&conversion["webhook"]["clientConfig"]),
            review_version: review_version?, // validated: there is one
        })
    }

    /// The review that asks for `objects`, each as JSON, in another version.
    pub(crate) fn review<'o>(
        &self,
        uid: &str,
        desired: &str,
        objects: impl IntoIterator<Item = &'o [u8]>,
    ) -> Bytes {
        let text = |text: &str| Value::from(text).to_string();
        let mut out = format!(
            r#"{{"kind":"ConversionReview","apiVersion":"{GROUP}/{}","request":{{"uid":{},"desiredAPIVersion":{},"objects":["#,
            self.review_version,
            text(uid),
            text(desired),
        )
        .into_bytes();
        for (index, object) in objects.into_iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(object);
        }
        out.extend_from_slice(
            br#"]},"response":{"uid":"","convertedObjects":null,"result":{"metadata":{}}}}"#,
        );
        out.into()
    }

    /// The objects in the answer to the review of `uid`, each in the place of its original.
    pub(crate) fn converted(
        &self,
        uid: &str,
        answer: Result<Value, CallError>,
        originals: &[&mut Value],
        desired: &str,
    ) -> Result<Vec<Value>, String> {
        let about = |why: String| match originals.first() {
            Some(first) => format!("conversion webhook for {} {why}", kind_of(first)),
            None => why,
        };
        let answer = answer.map_err(|why| why.to_string());
        let objects = answer.and_then(|answer| self.objects(uid, answer));
        let objects = objects.map_err(|why| about(format!("failed: {why}")))?;
        if objects.len() != originals.len() {
            return Err(about(format!("returned {} objects, expected {}", objects.len(), originals.len())));
        }
        objects
            .into_iter()
            .zip(originals)
            .map(|(mut object, original)| {
                check_decodable(&object)?;
                let about =
                    |why| format!("conversion webhook for {} returned invalid {why}", kind_of(original));
                check_identity(&object, original, desired).map_err(about)?;
                restore_metadata(&mut object, original).map_err(|why| about(format!("metadata: {why}")))?;
                Ok(object)
            })
            .collect()
    }

    fn objects(&self, uid: &str, mut answer: Value) -> Result<Vec<Value>, Refusal> {
        let (api_version, kind) = decode::type_meta(&answer)?;
        let expected = format!("{GROUP}/{}", self.review_version);
        match (api_version, kind) {
            ("", "") => {}
            (version, "ConversionReview") if version == expected => {}
            ("apiextensions.k8s.io/v1" | "apiextensions.k8s.io/v1beta1", "ConversionReview") => {
                let version = api_version.rsplit('/').next().unwrap_or_default();
                let wanted = self.review_version;
                return Err(format!(
                    "converting ({version}.ConversionReview) to ({wanted}.ConversionReview): unknown conversion"
                ));
            }
            (version, kind) => {
                return Err(format!(
                    "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
                    quote(kind),
                    quote(version)
                ));
            }
        }
        // The older form was never checked for whose answer it is.
        let strict = self.review_version == "v1";
        if strict && api_version.is_empty() {
            return Err(format!(
                "expected webhook response of {expected}, Kind=ConversionReview, got /, Kind="
            ));
        }
        let response = answer.get_mut("response").filter(|response| response.is_object());
        let response = response.ok_or("no response provided")?;
        let given = access::get_str(response, &["uid"]);
        if strict && given != uid {
            return Err(format!("expected response.uid={}, got {}", quote(uid), quote(given)));
        }
        let status = access::get_str(response, &["result", "status"]);
        if status != "Success" {
            let message = access::get_str(response, &["result", "message"]);
            return Err(match message {
                "" => format!("response.result.status was '{status}', not 'Success'"),
                message => message.to_owned(),
            });
        }
        Ok(match response["convertedObjects"].take() {
            Value::Array(objects) => objects,
            _ => Vec::new(),
        })
    }
}

/// `group/version, Kind=kind` of an object.
fn kind_of(object: &Value) -> String {
    format!("{}, Kind={}", access::get_str(object, &["apiVersion"]), access::get_str(object, &["kind"]))
}

fn check_decodable(object: &Value) -> Result<(), String> {
    if !object.is_object() {
        let found = json_kind(object);
        return Err(format!(
            "json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        ));
    }
    if access::get_str(object, &["kind"]).is_empty() {
        return Err(format!("Object 'Kind' is missing in '{object}'"));
    }
    Ok(())
}

fn check_identity(object: &Value, original: &Value, desired: &str) -> Result<(), Refusal> {
    let version = access::get_str(object, &["apiVersion"]);
    if version != desired {
        return Err(format!(
            "object at index 0: invalid groupVersion (expected {desired}, received {version})"
        ));
    }
    let (expected, found) = (access::get_str(original, &["kind"]), access::get_str(object, &["kind"]));
    if expected != found {
        return Err(format!("object at index 0: invalid kind (expected {expected}, received {found})"));
    }
    for (what, field) in [("name", "name"), ("namespace", "namespace"), ("UID", "uid")] {
        let [expected, found] = [original, object].map(|one| access::get_str(one, &["metadata", field]));
        if expected != found {
            return Err(format!("object: must have the same {what}: {expected} != {found}"));
        }
    }
    Ok(())
}

/// Gives a converted object the metadata of its original, but for labels and annotations.
fn restore_metadata(object: &mut Value, original: &Value) -> Result<(), Refusal> {
    let given = match object.get_mut("metadata").map(Value::take) {
        Some(Value::Object(given)) => given,
        Some(other) => {
            return Err(format!("invalid metadata of type {} in converted object", type_of(&other)));
        }
        None => return Err("missing metadata in converted object".to_owned()),
    };
    let mut metadata = match original.get("metadata") {
        Some(Value::Object(metadata)) => metadata.clone(),
        Some(other) => return Err(format!("invalid metadata of type {} in input object", type_of(other))),
        None => Map::new(),
    };
    for field in ["labels", "annotations"] {
        let before = metadata.remove(field);
        match given.get(field) {
            None | Some(Value::Null) => {}
            Some(Value::Object(now)) => {
                check_strings(field, now)?;
                if before.as_ref() != Some(&given[field]) {
                    check_changed(field, now)?;
                }
                metadata.insert(field.to_owned(), now.clone().into());
            }
            Some(other) => {
                return Err(format!(
                    "invalid metadata.{field} of type {} in converted object",
                    type_of(other)
                ));
            }
        }
    }
    object["metadata"] = metadata.into();
    Ok(())
}

fn check_strings(field: &str, values: &Map<String, Value>) -> Result<(), Refusal> {
    match values.iter().find(|(_, value)| !value.is_string()) {
        None => Ok(()),
        Some((name, value)) => Err(format!(
            "metadata.{field}[{name}] must be a string, but is {} in converted object",
            type_of(value)
        )),
    }
}

fn check_changed(field: &str, values: &Map<String, Value>) -> Result<(), Refusal> {
    let metadata = Path::new("metadata");
    let errors = match field {
        "labels" => names::validate_labels(Some(values), &metadata.child("labels")),
        _ => names::validate_annotations(Some(values), &metadata.child("annotation")),
    };
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}
