//! What `metadata.managedFields` must be: readable, and about fields that the object has.

use serde_json::Value;

/// Checks all entries of an object.
pub fn check(object: &Value) -> Result<(), String> {
    for entry in object["metadata"]["managedFields"].as_array().into_iter().flatten() {
        if entry["fieldsType"] != "FieldsV1"
            || !entry["fieldsV1"].is_object()
            || !entry["manager"].is_string()
        {
            return Err(format!("an entry that says nothing: {entry}"));
        }
        if !matches!(entry["operation"].as_str(), Some("Apply" | "Update")) {
            return Err(format!("an operation nobody knows: {entry}"));
        }
        names_existing(&entry["fieldsV1"], object, entry["manager"].as_str().unwrap_or_default())?;
    }
    Ok(())
}

fn names_existing(fields: &Value, value: &Value, at: &str) -> Result<(), String> {
    for (step, below) in fields.as_object().ok_or_else(|| format!("{at} is no set of fields"))? {
        let path = format!("{at} {step}");
        let missing = || format!("{path} names what is not there, in {value}");
        let items = || value.as_array().into_iter().flatten();
        let found = match step.split_once(':') {
            None if step == "." => continue,
            Some(("f", name)) => value.get(name).ok_or_else(missing)?,
            Some(("k", keys)) => {
                let keys: Value = serde_json::from_str(keys).map_err(|error| format!("{path}: {error}"))?;
                let keys = keys.as_object().ok_or_else(|| format!("{path} has no keys"))?;
                items()
                    .find(|item| keys.iter().all(|(key, wanted)| &item[key] == wanted))
                    .ok_or_else(missing)?
            }
            Some(("v", wanted)) => {
                let wanted: Value =
                    serde_json::from_str(wanted).map_err(|error| format!("{path}: {error}"))?;
                items().find(|item| **item == wanted).ok_or_else(missing)?
            }
            _ => return Err(format!("{path} is no step")),
        };
        names_existing(below, found, &path)?;
    }
    Ok(())
}
