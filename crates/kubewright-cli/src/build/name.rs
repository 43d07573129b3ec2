//! The names of images, as registries have them: `[REGISTRY/]PATH:TAG`.

use std::{fmt, str::FromStr};

/// How long the tag of an image may be.
const TAG_MAX: usize = 128;
/// How long a name may be without the tag.
const NAME_MAX: usize = 255;
/// Where an image is whose name says nothing of it.
const DEFAULT_REGISTRY: &str = "docker.io";

/// The name of an image. Only names that every registry takes can be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImageName {
    /// As it was written; nothing if it was not.
    registry: Option<String>,
    path: String,
    tag: String,
}

impl ImageName {
    pub(super) fn new(path: &str, tag: &str) -> Result<Self, String> {
        format!("{path}:{tag}").parse()
    }

    pub(super) fn registry(&self) -> &str {
        self.registry.as_deref().unwrap_or(DEFAULT_REGISTRY)
    }

    /// What it is called in its registry. That of Docker has a place of its own for names without an owner.
    pub(super) fn repository(&self) -> String {
        match self.registry() == DEFAULT_REGISTRY && !self.path.contains('/') {
            true => format!("library/{}", self.path),
            false => self.path.clone(),
        }
    }

    pub(super) fn tag(&self) -> &str {
        &self.tag
    }

    /// The last part of its path.
    pub(super) fn title(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The name with everything that may be left out.
    pub(super) fn full(&self) -> String {
        format!("{}/{}:{}", self.registry(), self.repository(), self.tag)
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(registry) = &self.registry {
            write!(f, "{registry}/")?;
        }
        write!(f, "{}:{}", self.path, self.tag)
    }
}

impl FromStr for ImageName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('@') {
            return Err("an image that is built has no digest yet: write NAME:TAG".to_owned());
        }
        // The first part is a registry if it can't be anything else.
        let (registry, rest) = match text.split_once('/') {
            Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (Some(first), rest),
            _ => (None, text),
        };
        if let Some(registry) = registry.filter(|registry| !is_registry(registry)) {
            return Err(format!("{registry:?} is no registry: write HOST or HOST:PORT"));
        }
        let Some((path, tag)) = rest.split_once(':') else {
            return Err(format!("it has no tag: write {text}:0.1.0, say"));
        };
        if let Some(part) = path.split('/').find(|part| !is_path_part(part)) {
            let lower = part.to_lowercase();
            let hint = if is_path_part(&lower) { format!(": write {lower:?}") } else { String::new() };
            return Err(format!(
                "{part:?} is not allowed in a name, only lower-case letters and digits, with single '.', '_' or \
                 any '-' between them{hint}"
            ));
        }
        if !is_tag(tag) {
            return Err(format!(
                "{tag:?} is no tag: up to {TAG_MAX} letters, digits, '_', '.' and '-', the first a letter, digit \
                 or '_'"
            ));
        }
        if text.len() - tag.len() - 1 > NAME_MAX {
            return Err(format!("it is longer than {NAME_MAX} characters"));
        }
        Ok(Self { registry: registry.map(str::to_owned), path: path.to_owned(), tag: tag.to_owned() })
    }
}

fn is_registry(text: &str) -> bool {
    let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    host.split('.').all(is_label) && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

/// Words of lower-case letters and digits, with one `.`, one or two `_`, or any number of `-` between them.
fn is_path_part(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let separators = text.split(|character: char| character.is_ascii() && is_word(character as u8));
    let are_allowed = separators
        .filter(|separator| !separator.is_empty())
        .all(|separator| matches!(separator, "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-'));
    are_allowed && text.bytes().next().is_some_and(is_word) && text.bytes().next_back().is_some_and(is_word)
}

fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.len() <= TAG_MAX
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().all(|byte| is_word(byte) || byte == b'.' || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_apart() {
        for (text, registry, repository, tag, title) in [
            ("op:1", "docker.io", "library/op", "1", "op"),
            ("team/op:v1.2-rc_3", "docker.io", "team/op", "v1.2-rc_3", "op"),
            ("ghcr.io/team/web--op:1", "ghcr.io", "team/web--op", "1", "web--op"),
            ("localhost/op:1", "localhost", "op", "1", "op"),
            ("127.0.0.1:5000/a/b/c__d:1", "127.0.0.1:5000", "a/b/c__d", "1", "c__d"),
        ] {
            let name: ImageName = text.parse().expect(text);
            assert_eq!(
                (name.registry(), &*name.repository(), name.tag(), name.title()),
                (registry, repository, tag, title)
            );
            assert_eq!(name.to_string(), text);
        }
    }

    #[test]
    fn what_no_registry_takes_is_refused_with_the_reason() {
        for (text, reason) in [
            ("op", "it has no tag: write op:0.1.0"),
            ("ghcr.io:443/op", "it has no tag"),
            (
                "Op:1",
                "\"Op\" is not allowed in a name, only lower-case letters and digits, with single '.', '_' or any '-' between them: write \"op\"",
            ),
            ("team//op:1", "\"\" is not allowed"),
            ("a..b:1", "\"a..b\" is not allowed"),
            ("a___b:1", "\"a___b\" is not allowed"),
            ("-a:1", "\"-a\" is not allowed"),
            ("ö:1", "\"ö\" is not allowed"),
            ("op:", "\"\" is no tag"),
            ("op:.1", "\".1\" is no tag"),
            ("op:1:2", "\"1:2\" is no tag"),
            ("op@sha256:00", "no digest yet"),
            ("-x.io/op:1", "\"-x.io\" is no registry"),
            ("x.io:port/op:1", "\"x.io:port\" is no registry"),
        ] {
            let error = text.parse::<ImageName>().expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
        let long_tag = format!("op:{}", "a".repeat(TAG_MAX + 1));
        assert!(long_tag.parse::<ImageName>().expect_err("too long").contains("is no tag"));
        let long_name = format!("{}:1", "a".repeat(NAME_MAX + 1));
        assert!(long_name.parse::<ImageName>().expect_err("too long").contains("longer than 255"));
    }
}
