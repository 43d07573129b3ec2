//! The templates of what is scaffolded: files of this crate, each of which a directory may replace.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::Args;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, syntax::SyntaxConfig, value::Serde};
use serde::Serialize;

/// What templates end with.
const SUFFIX: &str = ".j2";

macro_rules! templates {
    ($($name:literal)+) => {
        &[$(($name, include_str!(concat!("../../templates/", $name, ".j2")))),+]
    };
}

const TEMPLATES: &[(&str, &str)] = templates!(
    "api/controller.rs"
    "api/controller_test.rs"
    "api/module.rs"
    "api/note_controller.rs"
    "api/note_controller_test.rs"
    "api/sample.yaml"
    "api/samples.yaml"
    "api/types.rs"
    "api/types_test.rs"
    "api/version.rs"
    "api/version_test.rs"
    "init/.devcontainer/devcontainer.json"
    "init/.dockerignore"
    "init/.github/workflows/image.yml"
    "init/.github/workflows/lint.yml"
    "init/.github/workflows/test.yml"
    "init/.gitignore"
    "init/Cargo.toml"
    "init/Dockerfile"
    "init/LICENSE"
    "init/Makefile"
    "init/README.md"
    "init/deny.toml"
    "init/rustfmt.toml"
    "init/src/api/mod.rs"
    "init/src/controllers/mod.rs"
    "init/src/lib.rs"
    "init/src/main.rs"
    "init/tests/operator/main.rs"
    "webhook/conversion.rs"
    "webhook/conversion_test.rs"
    "webhook/module.rs"
    "webhook/webhook.rs"
    "webhook/webhook_test.rs"
);

/// Where templates come from.
#[derive(Args)]
pub(crate) struct Templates {
    /// Take templates from this directory, where it has one
    #[arg(long, value_name = "DIR", env = "KUBEWRIGHT_TEMPLATES")]
    templates: Option<PathBuf>,
}

/// Templates that are ready to be rendered.
pub(crate) struct Rendering(Environment<'static>);

impl Templates {
    /// Reads them all.
    pub(crate) fn open(&self) -> Result<Rendering, String> {
        let syntax =
            SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true).build();
        let mut environment = Environment::new();
        environment.set_syntax(syntax.map_err(|why| why.to_string())?);
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        for (name, text) in TEMPLATES {
            environment.add_template(name, text).map_err(|why| why.to_string())?;
        }
        if let Some(directory) = &self.templates {
            for name in names(directory, "")? {
                let path = directory.join(format!("{name}{SUFFIX}"));
                let told = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
                if !TEMPLATES.iter().any(|(known, _)| *known == name) {
                    let all: String =
                        TEMPLATES.iter().map(|(known, _)| format!(" {known}{SUFFIX}")).collect();
                    return Err(told(&format!("it replaces no template: there are{all}")));
                }
                let text = fs::read_to_string(&path).map_err(|why| told(&why))?;
                environment.add_template_owned(name, text).map_err(|why| told(&why))?;
            }
        }
        Ok(Rendering(environment))
    }
}

impl Rendering {
    /// What a template makes of some values.
    pub(crate) fn render(&self, name: &str, values: &impl Serialize) -> Result<String, String> {
        let template = self.0.get_template(name).map_err(|why| why.to_string())?;
        template.render(Serde(values)).map_err(|why| format!("template {name}{SUFFIX}: {why}"))
    }

    /// The files of a new project: path and content.
    pub(crate) fn project(&self, values: &impl Serialize) -> Result<Vec<(&'static str, String)>, String> {
        let files = TEMPLATES.iter().filter_map(|(name, _)| name.strip_prefix("init/"));
        files.map(|path| Ok((path, self.render(&format!("init/{path}"), values)?))).collect()
    }
}

/// The templates in a directory, by name; other files are left alone.
fn names(directory: &Path, parent: &str) -> Result<Vec<String>, String> {
    let told = |why: std::io::Error| format!("the templates in {}: {why}", directory.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(told)? {
        let entry = entry.map_err(told)?;
        let name = format!("{parent}{}", entry.file_name().to_string_lossy());
        match name.strip_suffix(SUFFIX) {
            _ if entry.path().is_dir() => found.extend(names(&entry.path(), &format!("{name}/"))?),
            Some(name) => found.push(name.to_owned()),
            None => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_templates_are_known() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates");
        let mut names = names(&directory, "").unwrap();
        names.sort();
        let known: Vec<&str> = TEMPLATES.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, known);
    }
}
