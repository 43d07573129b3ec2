//! Which form an answer takes and which form a body has: the `Accept` and `Content-Type` headers.

use crate::{error::ApiError, table::MetaVersion};

/// The bytes on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Yaml,
    /// Read only: answers take another form.
    Protobuf,
}

/// The object that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The object itself.
    Whole,
    /// `as=Table`.
    Table,
    /// `as=PartialObjectMetadata`.
    Metadata,
    /// `as=PartialObjectMetadataList`.
    MetadataList,
    /// `as=APIGroupDiscoveryList`.
    Discovery,
}

/// What an answer looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) encoding: Encoding,
    pub(crate) shape: Shape,
    /// Version of tables and metadata.
    pub(crate) version: MetaVersion,
}

impl Accepted {
    /// The object itself, as JSON.
    pub(crate) const PLAIN: Self =
        Self { encoding: Encoding::Json, shape: Shape::Whole, version: MetaVersion::V1 };
}

/// Which representations an endpoint has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    /// Objects of built-in kinds: also as tables and metadata.
    BuiltIn,
    /// Objects of custom kinds.
    Custom,
    /// Discovery documents.
    Discovery,
}

/// Chooses the first clause of the `Accept` header, by quality, that can be served.
pub(crate) fn accept(header: Option<&str>, offer: Offer) -> Result<Accepted, ApiError> {
    let header = header.map(str::trim).filter(|text| !text.is_empty()).unwrap_or("*/*");
    let mut clauses: Vec<(f32, &str)> = header
        .split(',')
        .map(|clause| {
            let quality = clause
                .split(';')
                .skip(1)
                .filter_map(|parameter| parameter.trim().strip_prefix("q="))
                .find_map(|text| text.parse().ok())
                .unwrap_or(1.0);
            (quality, clause.trim())
        })
        .collect();
    clauses.sort_by(|a, b| b.0.total_cmp(&a.0)); // stable: equal qualities keep their order
    clauses.iter().find_map(|(_, clause)| serve(clause, offer)).ok_or_else(|| not_acceptable(offer))
}

fn serve(clause: &str, offer: Offer) -> Option<Accepted> {
    let mut parts = clause.split(';').map(str::trim);
    let encoding = match parts.next()? {
        "application/json" | "*/*" | "application/*" => Encoding::Json,
        "application/yaml" => Encoding::Yaml,
        _ => return None,
    };
    let (mut kind, mut group, mut version) = ("", "", "");
    for part in parts {
        match part.split_once('=')? {
            ("as", value) => kind = value,
            ("g", value) => group = value,
            ("v", value) => version = value,
            _ => {}
        }
    }
    if group == "meta.k8s.io" && offer != Offer::Discovery {
        let version = match version {
            "v1" => MetaVersion::V1,
            "v1beta1" => MetaVersion::V1Beta1,
            _ => return None,
        };
        let shape = match kind {
            "Table" => Shape::Table,
            "PartialObjectMetadata" => Shape::Metadata,
            "PartialObjectMetadataList" => Shape::MetadataList,
            _ => return None,
        };
        return Some(Accepted { encoding, shape, version });
    }
    let shape = match (kind, group, version, offer) {
        ("", "", "", _) => Shape::Whole,
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2", Offer::Discovery) => Shape::Discovery,
        _ => return None,
    };
    Some(Accepted { encoding, shape, version: MetaVersion::V1 })
}

fn not_acceptable(offer: Offer) -> ApiError {
    let types = match offer {
        Offer::Custom => "application/json, application/yaml, application/json;stream=watch",
        _ => {
            "application/json, application/yaml, application/vnd.kubernetes.protobuf, \
             application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
        }
    };
    ApiError::new(406, "NotAcceptable", format!("406: Not Acceptable\n\nAvailable representations: {types}"))
}

/// 415: a body in a form that is not read.
pub(crate) fn unsupported_media_type() -> ApiError {
    ApiError::new(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: \
         application/json, application/yaml, application/vnd.kubernetes.protobuf",
    )
}

/// The encoding of a request body.
pub(crate) fn content_type(header: Option<&str>) -> Result<Encoding, ApiError> {
    let media_type = header.unwrap_or("").split(';').next().unwrap_or("").trim();
    match media_type {
        "" | "application/json" => Ok(Encoding::Json),
        "application/yaml" => Ok(Encoding::Yaml),
        "application/vnd.kubernetes.protobuf" => Ok(Encoding::Protobuf),
        _ => Err(unsupported_media_type()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(header: &str) -> Option<Shape> {
        accept(Some(header), Offer::BuiltIn).ok().map(|accepted| accepted.shape)
    }

    #[test]
    fn the_first_clause_that_can_be_served_wins() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(shape(kubectl), Some(Shape::Table));
        assert_eq!(shape("application/vnd.kubernetes.protobuf,application/json"), Some(Shape::Whole));
        assert_eq!(
            shape("application/json;q=0.1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
            Some(Shape::Metadata)
        );
    }

    #[test]
    fn what_nobody_serves_is_not_acceptable() {
        let error = accept(Some("application/cbor"), Offer::BuiltIn).expect_err("cbor is not spoken");
        assert_eq!((error.code, error.reason), (406, "NotAcceptable"));
    }
}
