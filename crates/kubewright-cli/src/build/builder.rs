//! The builders of images that may be installed: docker, podman, buildah.

use std::{
    io,
    path::{Path, PathBuf},
    process::Stdio,
};

use clap::ValueEnum;
use tokio::process::Command;

use super::{name::ImageName, program::Platform};

/// Who builds an image from a Dockerfile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Builder {
    Docker,
    Podman,
    Buildah,
}

/// Which builder is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wanted {
    /// The first of docker, podman and buildah that answers, if there is a Dockerfile; none otherwise
    Auto,
    Docker,
    Podman,
    Buildah,
    /// Compile a static program here, and write the image as an archive
    None,
}

/// What an image is built from.
pub(super) struct Recipe<'a> {
    pub(super) directory: &'a Path,
    pub(super) name: &'a ImageName,
    pub(super) platforms: &'a [Platform],
    pub(super) labels: &'a [(String, String)],
    pub(super) push: bool,
}

impl Builder {
    const ALL: [Self; 3] = [Self::Docker, Self::Podman, Self::Buildah];

    /// The one that is wanted; nothing if the image is to be made without.
    pub(super) async fn choose(wanted: Wanted, directory: &Path) -> Result<Option<Self>, String> {
        let dockerfile = dockerfile(directory);
        let named = match wanted {
            Wanted::None => return Ok(None),
            Wanted::Auto => {
                for builder in Self::ALL {
                    if dockerfile.is_some() && builder.answers().await {
                        return Ok(Some(builder));
                    }
                }
                return Ok(None);
            }
            Wanted::Docker => Self::Docker,
            Wanted::Podman => Self::Podman,
            Wanted::Buildah => Self::Buildah,
        };
        let name = named.name();
        if dockerfile.is_none() {
            let directory = directory.display();
            return Err(format!(
                "{name} needs a Dockerfile, and {directory} has none: leave it out with --builder none"
            ));
        }
        match named.answers().await {
            true => Ok(Some(named)),
            false => Err(format!(
                "{name} does not answer: install or start it, or leave it out with --builder none"
            )),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Buildah => "buildah",
        }
    }

    /// Whether it is installed and, if it is but a client, its server runs.
    async fn answers(self) -> bool {
        let mut command = Command::new(self.name());
        command.arg(if self == Self::Buildah { "version" } else { "info" }).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().await.is_ok_and(|status| status.success())
    }

    /// Builds an image, and brings it to its registry if that is wanted.
    pub(super) async fn build(self, recipe: &Recipe<'_>) -> Result<(), String> {
        for arguments in self.steps(recipe) {
            self.call(&arguments).await?;
        }
        Ok(())
    }

    /// What it is called with, one call after the other. An image for several platforms is a list of images, which
    /// each builder makes in its own way.
    fn steps(self, recipe: &Recipe<'_>) -> Vec<Vec<String>> {
        let name = recipe.name.to_string();
        let several = recipe.platforms.len() > 1;
        let platforms: Vec<String> = recipe.platforms.iter().map(Platform::to_string).collect();
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();

        let mut build =
            words(if several && self == Self::Docker { &["buildx", "build"] } else { &["build"] });
        build.extend(words(&["--platform", &platforms.join(",")]));
        for (key, value) in recipe.labels {
            build.extend(words(&["--label", &format!("{key}={value}")]));
        }
        let is_manifest = several && self != Self::Docker;
        build.extend(words(&[if is_manifest { "--manifest" } else { "--tag" }, &name]));
        let mut steps = Vec::new();
        match (recipe.push, is_manifest) {
            (true, false) if several => build.push("--push".to_owned()),
            (true, true) => {
                steps.push(words(&["manifest", "push", "--all", &name, &format!("docker://{name}")]))
            }
            (true, false) => steps.push(words(&["push", &name])),
            (false, _) => {}
        }
        build.push(recipe.directory.display().to_string());
        steps.insert(0, build);
        steps
    }

    /// All that it says is for people: what the command itself has to say goes to stdout.
    async fn call(self, arguments: &[String]) -> Result<(), String> {
        let mut command = Command::new(self.name());
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::from(io::stderr())).kill_on_drop(true);
        let status = command.status().await.map_err(|why| format!("can't run {}: {why}", self.name()))?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("`{} {}` failed: {status}", self.name(), arguments.join(" "))),
        }
    }
}

fn dockerfile(directory: &Path) -> Option<PathBuf> {
    ["Dockerfile", "Containerfile"].map(|name| directory.join(name)).into_iter().find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(builder: Builder, platforms: &[Platform], push: bool) -> Vec<String> {
        let name = "ghcr.io/team/op:1".parse().expect("a name");
        let labels = [("a".to_owned(), "b c".to_owned())];
        let recipe = Recipe { directory: Path::new("."), name: &name, platforms, labels: &labels, push };
        builder.steps(&recipe).into_iter().map(|step| step.join(" ")).collect()
    }

    #[test]
    fn one_platform_is_built_and_pushed_in_the_same_way_by_all() {
        for builder in Builder::ALL {
            let expected = [
                "build --platform linux/amd64 --label a=b c --tag ghcr.io/team/op:1 .",
                "push ghcr.io/team/op:1",
            ];
            assert_eq!(steps(builder, &[Platform::Amd64], true), expected);
            assert_eq!(steps(builder, &[Platform::Amd64], false), expected[..1]);
        }
    }

    #[test]
    fn several_platforms_become_a_list_of_images() {
        let both = [Platform::Amd64, Platform::Arm64];
        assert_eq!(
            steps(Builder::Docker, &both, true),
            [
                "buildx build --platform linux/amd64,linux/arm64 --label a=b c --tag ghcr.io/team/op:1 --push ."
            ]
        );
        for builder in [Builder::Podman, Builder::Buildah] {
            assert_eq!(
                steps(builder, &both, true),
                [
                    "build --platform linux/amd64,linux/arm64 --label a=b c --manifest ghcr.io/team/op:1 .",
                    "manifest push --all ghcr.io/team/op:1 docker://ghcr.io/team/op:1",
                ]
            );
        }
    }
}
