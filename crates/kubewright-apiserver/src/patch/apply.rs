//! The body of a server-side apply: YAML, which JSON is as well. Applying it is the work of [`crate::fields`].

use serde_json::{Map, Value};

use crate::{
    decode::{self, Parsed},
    error::ApiError,
};

/// Reads the applied object from a body.
pub(crate) fn read(body: &[u8]) -> Result<Parsed<'static>, ApiError> {
    let refuse = |why: String| ApiError::bad_request(format!("error decoding YAML: {why}"));
    let mut parsed =
        decode::yaml::parse(body).map_err(|why| refuse(format!("error converting YAML to JSON: {why}")))?;
    super::require_object(&parsed)
        .map_err(|why| refuse(format!("error unmarshaling JSON: while decoding JSON: {why}")))?;
    if parsed.value.is_null() {
        parsed.value = Value::Object(Map::new());
    }
    Ok(parsed)
}

/// 400: strict validation found keys that were set twice.
pub(crate) fn strict_error(parsed: &Parsed<'_>) -> Option<ApiError> {
    let problem = parsed.problems.first()?;
    let why = format!("error strict decoding YAML: error converting YAML to JSON: {problem}");
    Some(ApiError::bad_request(why))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_and_json_are_read_and_lists_refused() {
        assert_eq!(read(b"a: 1").unwrap().value, json!({"a": 1}));
        assert_eq!(read(b" {\"a\": 1}").unwrap().value, json!({"a": 1}));
        assert_eq!(read(b"").unwrap().value, json!({}));
        let error = read(b"[]").unwrap_err();
        assert_eq!(
            (error.code, error.message.as_str()),
            (
                400,
                "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type map[string]interface {}"
            )
        );
        assert_eq!(
            read(b"a: *x").unwrap_err().message,
            "error decoding YAML: error converting YAML to JSON: yaml: unknown anchor 'x' referenced"
        );
    }

    #[test]
    fn a_key_set_twice_is_refused_when_strict() {
        assert_eq!(strict_error(&read(b"a: 1").unwrap()), None);
        let twice = read(b"{\"a\": 1,\n\"a\": 2}").unwrap();
        assert_eq!(
            strict_error(&twice).unwrap().message,
            "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line 2: key \"a\" already set in map"
        );
    }
}
