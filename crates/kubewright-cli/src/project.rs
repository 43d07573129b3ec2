//! `PROJECT`: what a project was scaffolded as, so that more can be added to it. People may read it; only the
//! commands that scaffold write it.

use std::{collections::BTreeMap, fs, io, path::Path};

use ring::digest;
use serde::{Deserialize, Serialize};

use crate::names;

/// The name of the file, in the directory of the project.
pub(crate) const FILE: &str = "PROJECT";
/// Where a project keeps the definitions of kinds of others, for its tests and for local clusters.
pub(crate) const DEFINITIONS: &str = "tests/operator/definitions";
/// The only version of its form so far.
const FORM: &str = "1";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Project {
    version: String,
    pub(crate) domain: String,
    pub(crate) project_name: String,
    pub(crate) license: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    pub(crate) sdk: Sdk,
    /// The version of the command that scaffolded last.
    cli_version: String,
    #[serde(default)]
    pub(crate) resources: Vec<Resource>,
    /// The SHA-256 of each file as it was scaffolded.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, String>,
}

/// Where the SDK comes from.
#[derive(Serialize, Deserialize, Clone)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sdk {
    pub(crate) version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
}

/// A kind in one version.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resource {
    /// Below the domain; the whole of it if the kind is somebody else's.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) namespaced: bool,
    /// Whether the project has its types and brings its definition along.
    pub(crate) resource: bool,
    pub(crate) controller: bool,
    /// Whether it is somebody else's.
    pub(crate) external: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) short_names: Vec<String>,
    #[serde(default, skip_serializing_if = "Webhooks::is_none")]
    pub(crate) webhooks: Webhooks,
}

/// What the API server asks about a kind.
#[derive(Serialize, Deserialize, Clone, Default, PartialEq, Debug)]
#[serde(default)]
pub(crate) struct Webhooks {
    pub(crate) defaulting: bool,
    pub(crate) validation: bool,
    /// The versions that are converted to this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) conversion: Vec<String>,
}

impl Webhooks {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl Project {
    pub(crate) fn new(domain: &str, name: &str, license: &str, owner: Option<String>, sdk: Sdk) -> Self {
        Self {
            version: FORM.to_owned(),
            domain: domain.to_owned(),
            project_name: name.to_owned(),
            license: license.to_owned(),
            owner,
            sdk,
            cli_version: env!("CARGO_PKG_VERSION").to_owned(),
            resources: Vec::new(),
            files: BTreeMap::new(),
        }
    }

    /// The project in a directory.
    pub(crate) fn read(directory: &Path) -> Result<Self, String> {
        let path = directory.join(FILE);
        let text = fs::read_to_string(&path).map_err(|why| match why.kind() {
            io::ErrorKind::NotFound => {
                let directory = directory.display();
                format!("{directory} is no project: it has no {FILE}. `kubewright init` makes one")
            }
            _ => format!("can't read {}: {why}", path.display()),
        })?;
        let mut project: Self = serde_saphyr::from_str(&text).map_err(|why| {
            let why = why.to_string();
            format!("{} can't be read: {}", path.display(), why.lines().next().unwrap_or_default())
        })?;
        if project.version != FORM {
            return Err(format!(
                "{} is of version {:?}, and this command knows only {FORM:?}: use a newer one",
                path.display(),
                project.version
            ));
        }
        env!("CARGO_PKG_VERSION").clone_into(&mut project.cli_version);
        Ok(project)
    }

    pub(crate) fn text(&self) -> Result<String, String> {
        serde_saphyr::to_string(self).map_err(|why| format!("{FILE} can't be written: {why}"))
    }

    /// The group of a kind as a cluster has it.
    pub(crate) fn api_group(&self, resource: &Resource) -> String {
        match resource.external {
            true => resource.group.clone(),
            false => format!("{}.{}", resource.group, self.domain),
        }
    }

    /// All versions of a kind.
    pub(crate) fn versions_of<'a>(&'a self, resource: &'a Resource) -> impl Iterator<Item = &'a Resource> {
        self.resources.iter().filter(|other| other.is_same_kind(resource))
    }

    /// What the files of a kind are called: after the kind, and after its group, too, if another group had a kind of
    /// that name before.
    pub(crate) fn unit(&self, resource: &Resource) -> String {
        let kind = names::module(&resource.kind);
        let mut others = self.resources.iter().take_while(|other| !other.is_same_kind(resource));
        let is_taken = others.any(|other| names::module(&other.kind) == kind);
        let unit = if is_taken { format!("{}_{kind}", resource.group_module()) } else { kind };
        names::identifier(unit)
    }

    /// Whether a file is still as it was scaffolded.
    pub(crate) fn is_untouched(&self, path: &str, content: &str) -> bool {
        self.files.get(path).is_some_and(|known| *known == checksum(content))
    }
}

impl Resource {
    pub(crate) fn is_same_kind(&self, other: &Self) -> bool {
        (&self.group, &self.kind, self.external) == (&other.group, &other.kind, other.external)
    }

    /// The module of its group.
    pub(crate) fn group_module(&self) -> String {
        names::identifier(names::module(&self.group))
    }

    /// The module of its types, below those of its group and its version.
    pub(crate) fn kind_module(&self) -> String {
        names::identifier(names::module(&self.kind))
    }
}

/// The SHA-256 of a text, in hexadecimal digits.
pub(crate) fn checksum(text: &str) -> String {
    let digest = digest::digest(&digest::SHA256, text.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
