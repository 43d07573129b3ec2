//! `kubewright build`: the image of an operator, with a builder that is installed, or as an archive that is written
//! here: a static program and nothing else.

mod builder;
mod compile;
mod image;
mod name;
mod program;
mod registry;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    pin::pin,
};

use clap::Args;
use serde_json::{Value, json};

use self::{
    builder::{Builder, Recipe, Wanted},
    image::Image,
    name::ImageName,
    program::{Platform, Program},
};
use crate::{
    source::{About, Source},
    terminal::{Output, line, note},
};

/// Build the image of an operator
#[derive(Args)]
#[command(after_help = "\
Without a builder or without a Dockerfile, the operator is compiled to a static program, and the image is written to \
dist/NAME-TAG.tar, which is an OCI image layout and a docker archive at the same time. It contains nothing else: no \
shell, no C library, and no certificates of authorities, which an operator needs only to call what is outside of its \
cluster. The same program gives the same bytes.

Examples:
  kubewright build
      The operator in this directory, named and tagged as its crate is.

  kubewright build --image ghcr.io/team/memcached-operator:v1 --push
      And bring it to its registry, with the credentials of `docker login`.

  kubewright build --builder none --image memcached-operator:v1
  kind load image-archive dist/memcached-operator-v1.tar
      Without docker, into a kind cluster.

  kubewright build --image memcached-operator:v1 --binary out/amd64/operator --binary out/arm64/operator
      An image for two platforms, of programs that were built elsewhere.")]
pub(crate) struct Build {
    /// The directory of the operator's crate
    #[arg(default_value = ".")]
    path: PathBuf,

    /// What to call the image; the name and version of the crate without it
    #[arg(long, value_name = "NAME:TAG")]
    image: Option<ImageName>,

    /// Bring it to its registry
    #[arg(long)]
    push: bool,

    /// What it is to run on: linux/amd64, linux/arm64 or both; as this machine without it
    #[arg(long, value_name = "PLATFORM", value_delimiter = ',', conflicts_with = "binary")]
    platform: Vec<Platform>,

    /// Who builds it
    #[arg(long, value_enum, default_value_t = Wanted::Auto, conflicts_with = "binary")]
    builder: Wanted,

    /// A static program that was built before; one for each platform
    #[arg(long, value_name = "FILE")]
    binary: Vec<PathBuf>,

    /// Which of the crate's programs to build, if it has several
    #[arg(long, value_name = "NAME")]
    bin: Option<String>,

    /// A label of the image, beside those that tell of the crate
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    label: Vec<(String, String)>,

    /// Where to write the archive, if there is no builder; dist of the crate without it
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,

    /// When the image is to say it was made, in seconds since 1970
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 0,
        env = "SOURCE_DATE_EPOCH",
        hide_env_values = true
    )]
    created: u32,

    /// How to print what was built
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE".to_owned()),
    }
}

impl Build {
    pub(crate) async fn run(self, stop: impl Future<Output = ()>) -> Result<(), String> {
        tokio::select! {
            biased;
            () = pin!(stop) => Err("interrupted: nothing was built".to_owned()),
            outcome = self.build() => outcome,
        }
    }

    async fn build(self) -> Result<(), String> {
        // A program and a name are enough: then there may be no crate.
        let needs_crate = self.binary.is_empty() || self.image.is_none();
        let source = match needs_crate || self.path.join("Cargo.toml").is_file() {
            true => Some(Source::of(&self.path, self.bin.clone()).await?),
            false => None,
        };
        let about = source.as_ref().map(Source::about);
        let name = match (&self.image, about) {
            (Some(name), _) => name.clone(),
            // Metadata of a version is written with a sign that tags can't have.
            (None, Some(about)) => ImageName::new(&about.name, &about.version.replace('+', "-"))
                .map_err(|why| format!("the crate is no name for an image, {why}: name it with --image"))?,
            (None, None) => return Err("name the image with --image".to_owned()),
        };
        let labels = self.labels(&name, about);
        let programs = match &source {
            Some(source) if self.binary.is_empty() => {
                let platforms = self.platforms();
                if let Some(builder) = Builder::choose(self.builder, &self.path).await? {
                    return self.build_with(builder, &name, &platforms, labels).await;
                }
                compiled(source, &self.path, &platforms).await?
            }
            _ => read(&self.binary)?,
        };
        let image = Image::new(name, &programs, &labels, self.created);
        let image = image.map_err(|why| format!("can't make the image: {why}"))?;
        let own = self.path.join("dist");
        let directory = self.into.as_deref().unwrap_or_else(|| own.strip_prefix(".").unwrap_or(&own));
        let archive = image.write(directory)?;
        if self.push {
            registry::push(&image).await?;
        }
        self.report(&image, &programs, &archive);
        Ok(())
    }

    /// What it is built for: each platform once, in the order in which they were named.
    fn platforms(&self) -> Vec<Platform> {
        let mut platforms = Vec::new();
        for platform in &self.platform {
            if !platforms.contains(platform) {
                platforms.push(*platform);
            }
        }
        if platforms.is_empty() {
            platforms.push(Platform::here());
        }
        platforms
    }

    /// What the image tells of itself, in the words that registries show.
    fn labels(&self, name: &ImageName, about: Option<&About>) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::new();
        let mut set = |key: &str, value: Option<&str>| {
            if let Some(value) = value {
                labels.insert(format!("org.opencontainers.image.{key}"), value.to_owned());
            }
        };
        set("title", Some(about.map_or(name.title(), |about| &about.name)));
        set("version", Some(about.map_or(name.tag(), |about| &about.version)));
        if let Some(about) = about {
            set("description", about.description.as_deref());
            set("licenses", about.license.as_deref());
            set("source", about.repository.as_deref());
        }
        labels.extend(self.label.iter().cloned());
        labels
    }

    async fn build_with(
        &self,
        builder: Builder,
        name: &ImageName,
        platforms: &[Platform],
        labels: BTreeMap<String, String>,
    ) -> Result<(), String> {
        let labels: Vec<(String, String)> = labels.into_iter().collect();
        let recipe = Recipe { directory: &self.path, name, platforms, labels: &labels, push: self.push };
        builder.build(&recipe).await?;
        match self.output {
            Output::Text => line(&format!("image    {name} ({}), by {}", list(platforms), builder.name())),
            Output::Json => {
                let platforms: Vec<String> = platforms.iter().map(Platform::to_string).collect();
                line(
                    &json!({
                        "image": name.to_string(),
                        "builder": builder.name(),
                        "platforms": platforms,
                        "pushed": self.push,
                    })
                    .to_string(),
                );
            }
        }
        Ok(())
    }

    fn report(&self, image: &Image, programs: &[Program], archive: &Path) {
        let (name, digest) = (&image.name, &image.top().digest);
        let sizes = image.variants.iter().zip(programs);
        match self.output {
            Output::Text => {
                let platforms: Vec<Platform> =
                    image.variants.iter().map(|variant| variant.platform).collect();
                line(&format!("image    {name} ({})", list(&platforms)));
                for (variant, program) in sizes {
                    let (packed, unpacked) = (variant.layer.bytes.len(), program.bytes.len());
                    line(&format!("size     {}, {} unpacked", megabytes(packed), megabytes(unpacked)));
                }
                line(&format!("digest   {digest}"));
                line(&format!("archive  {}", archive.display()));
                if !self.push {
                    line("");
                    line(&format!("  docker load --input {}", archive.display()));
                    line(&format!("  kind load image-archive {}", archive.display()));
                }
            }
            Output::Json => {
                let platforms: Vec<Value> = sizes
                    .map(|(variant, program)| {
                        json!({
                            "platform": variant.platform.to_string(),
                            "digest": variant.manifest.digest,
                            "bytes": variant.layer.bytes.len(),
                            "unpackedBytes": program.bytes.len(),
                        })
                    })
                    .collect();
                line(
                    &json!({
                        "image": name.to_string(),
                        "digest": digest,
                        "archive": archive,
                        "platforms": platforms,
                        "pushed": self.push,
                    })
                    .to_string(),
                );
            }
        }
    }
}

async fn compiled(source: &Source, directory: &Path, platforms: &[Platform]) -> Result<Vec<Program>, String> {
    let mut programs = Vec::new();
    for platform in platforms {
        note(&format!("compiling a static program for {platform}"));
        programs.push(compile::compile(source, directory, *platform).await?);
    }
    Ok(programs)
}

/// Reads programs that were built before.
fn read(paths: &[PathBuf]) -> Result<Vec<Program>, String> {
    let mut programs: Vec<Program> = Vec::new();
    for path in paths {
        let program = Program::read(path)?;
        if programs.iter().any(|other| other.platform == program.platform) {
            return Err(format!("{} is the second program for {}", path.display(), program.platform));
        }
        programs.push(program);
    }
    Ok(programs)
}

fn list(platforms: &[Platform]) -> String {
    platforms.iter().map(Platform::to_string).collect::<Vec<_>>().join(", ")
}

fn megabytes(bytes: usize) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
