//! ConfigMaps and Secrets: maps of keys to texts or bytes.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, value::RawValue};

use super::super::{
    Strategy,
    access::{copy_from, default_to, get_str, remove, set},
    checks,
    report::{At, Errors},
};
use crate::field::{FieldError, Path};

const MAX_SIZE: usize = 1024 * 1024;
const IMMUTABLE: &str = "field is immutable when `immutable` is set";

/// What a ConfigMap does.
pub(crate) const CONFIG_MAP: Strategy = Strategy {
    validate: |map| Errors::of(map, validate_config_map),
    validate_update: |map, old| {
        Errors::of(map, |map, errors| {
            unchanged_if_immutable(map, &At::root(old), &["data", "binaryData"], errors);
            validate_config_map(map, errors);
        })
    },
    ..Strategy::PLAIN
};

/// What a Secret does.
pub(crate) const SECRET: Strategy = Strategy {
    default: default_secret,
    prepare_update: |secret, old| {
        if get_str(secret, &["type"]).is_empty() {
            copy_from(secret, old, &["type"]);
        }
    },
    validate: |secret| Errors::of(secret, validate_secret),
    validate_update: |secret, old| {
        Errors::of(secret, |secret, errors| {
            let old = At::root(old);
            errors.immutable(&secret.field("type"), &old.field("type"));
            unchanged_if_immutable(secret, &old, &["data"], errors);
            validate_secret(secret, errors);
        })
    },
    ..Strategy::PLAIN
};

/// The size of what a base64 text stands for.
fn decoded_len(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

fn unchanged_if_immutable(now: &At<'_, '_>, old: &At<'_, '_>, data: &[&str], errors: &mut Errors) {
    if !old.field("immutable").bool() {
        return;
    }
    if !now.field("immutable").bool() {
        errors.forbidden(&now.field("immutable"), IMMUTABLE);
    }
    for field in data {
        let (now, old) = (now.field(field), old.field(field));
        let both_empty = now.is_empty() && old.is_empty();
        if now.value() != old.value() && !both_empty {
            errors.forbidden(&now, IMMUTABLE);
        }
    }
}

fn validate_config_map(map: &At<'_, '_>, errors: &mut Errors) {
    let (data, binary) = (map.field("data"), map.field("binaryData"));
    let mut size = 0;
    for (key, value) in data.entries() {
        for reason in checks::config_key(key) {
            errors.invalid(&value, key, reason);
        }
        if binary.key(key).exists() {
            errors.invalid(&value, key, "duplicate of key present in binaryData");
        }
        size += value.str().len();
    }
    for (key, value) in binary.entries() {
        for reason in checks::config_key(key) {
            errors.invalid(&value, key, reason);
        }
        size += decoded_len(value.str());
    }
    if size > MAX_SIZE {
        errors.push(FieldError::too_long(&Path::new("[]"), MAX_SIZE));
    }
}

/// `stringData` is for writing only: it becomes `data`.
fn default_secret(secret: &mut Value) {
    if let Some(Value::Object(texts)) = remove(secret, &["stringData"]) {
        for (key, text) in texts {
            let bytes = text.as_str().unwrap_or_default();
            set(secret, &["data", &key], STANDARD.encode(bytes));
        }
    }
    if get_str(secret, &["type"]).is_empty() {
        remove(secret, &["type"]);
        default_to(secret, &["type"], "Opaque");
    }
}

fn validate_secret(secret: &At<'_, '_>, errors: &mut Errors) {
    let data = secret.field("data");
    let mut size = 0;
    for (key, value) in data.entries() {
        for reason in checks::config_key(key) {
            errors.invalid(&value, key, reason);
        }
        size += decoded_len(value.str());
    }
    if size > MAX_SIZE {
        errors.too_long(&data, MAX_SIZE);
    }
    let present = |key: &str| data.value().is_some_and(|data| data.get(key).is_some());
    let required = |keys: &[&str], errors: &mut Errors| {
        for key in keys.iter().filter(|key| !present(key)) {
            errors.required(&data.key(key), "");
        }
    };
    match secret.field("type").str() {
        "kubernetes.io/service-account-token" => {
            let metadata = secret.field("metadata");
            let annotations = metadata.field("annotations");
            let account = annotations.key("kubernetes.io/service-account.name");
            if account.str().is_empty() {
                errors.required(&account, "");
            }
        }
        "kubernetes.io/dockercfg" => json_document(&data.key(".dockercfg"), present(".dockercfg"), errors),
        "kubernetes.io/dockerconfigjson" => {
            json_document(&data.key(".dockerconfigjson"), present(".dockerconfigjson"), errors);
        }
        "kubernetes.io/basic-auth" if !present("username") && !present("password") => {
            required(&["username", "password"], errors);
        }
        "kubernetes.io/ssh-auth" if data.key("ssh-privatekey").str().is_empty() => {
            errors.required(&data.key("ssh-privatekey"), "");
        }
        "kubernetes.io/tls" => required(&["tls.crt", "tls.key"], errors),
        _ => {}
    }
}

fn json_document(document: &At<'_, '_>, present: bool, errors: &mut Errors) {
    if !present {
        return errors.required(document, "");
    }
    let bytes = STANDARD.decode(document.str()).unwrap_or_default();
    let problem = match serde_json::from_slice::<&RawValue>(&bytes) {
        Err(_) if bytes.is_empty() => "unexpected end of JSON input".to_owned(),
        Err(error) if error.is_eof() => "unexpected end of JSON input".to_owned(),
        Err(error) => error.to_string(),
        Ok(raw) if matches!(raw.get().as_bytes().first(), Some(b'{' | b'n')) => return,
        Ok(raw) => {
            let kind = match raw.get().as_bytes().first() {
                Some(b'[') => "array",
                Some(b'"') => "string",
                Some(b't' | b'f') => "bool",
                _ => "number",
            };
            format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
        }
    };
    errors.invalid(document, "<secret contents redacted>", problem);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn string_data_is_folded_into_data() {
        let mut secret = json!({"data": {"a": "eA=="}, "stringData": {"a": "b", "n": "hello"}});
        (SECRET.default)(&mut secret);
        assert_eq!(secret, json!({"data": {"a": "Yg==", "n": "aGVsbG8="}, "type": "Opaque"}));
    }

    #[test]
    fn what_is_immutable_stays() {
        let old = json!({"type": "Opaque", "immutable": true, "data": {"a": "eA=="}});
        let changed = json!({"type": "Opaque", "immutable": true, "data": {"a": "eQ=="}});
        let opened = json!({"type": "x", "data": {"a": "eA=="}});
        assert_eq!(
            texts(&(SECRET.validate_update)(&changed, &old)),
            ["data: Forbidden: field is immutable when `immutable` is set"]
        );
        assert_eq!(
            texts(&(SECRET.validate_update)(&opened, &old)),
            [
                "type: Invalid value: \"x\": field is immutable",
                "immutable: Forbidden: field is immutable when `immutable` is set"
            ]
        );
    }

    #[test]
    fn typed_secrets_need_their_keys() {
        for (kind, data, expected) in [
            ("kubernetes.io/tls", json!({"tls.crt": "eA=="}), vec!["data[tls.key]: Required value"]),
            (
                "kubernetes.io/basic-auth",
                json!({}),
                vec!["data[username]: Required value", "data[password]: Required value"],
            ),
            ("kubernetes.io/ssh-auth", json!({}), vec!["data[ssh-privatekey]: Required value"]),
            ("kubernetes.io/dockerconfigjson", json!({".dockerconfigjson": "e30="}), vec![]),
            (
                "kubernetes.io/dockerconfigjson",
                json!({".dockerconfigjson": ""}),
                vec![
                    "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": unexpected end of JSON input",
                ],
            ),
        ] {
            assert_eq!(texts(&(SECRET.validate)(&json!({"type": kind, "data": data}))), expected, "{kind}");
        }
    }

    #[test]
    fn a_config_map_holds_a_mebibyte() {
        let full = json!({"data": {"a": "x".repeat(MAX_SIZE)}});
        let over = json!({"data": {"a": "x".repeat(MAX_SIZE)}, "binaryData": {"b": "eA=="}});
        assert!((CONFIG_MAP.validate)(&full).is_empty());
        assert_eq!(
            texts(&(CONFIG_MAP.validate)(&over)),
            ["[]: Too long: may not be more than 1048576 bytes"]
        );
        let twice = json!({"data": {"a": ""}, "binaryData": {"a": "eA=="}});
        assert_eq!(
            texts(&(CONFIG_MAP.validate)(&twice)),
            ["data[a]: Invalid value: \"a\": duplicate of key present in binaryData"]
        );
    }
}
