//! An image of one static program, as bytes that depend on nothing but what it is made of, and the archive of it.
//!
//! The archive is an OCI image layout and what `docker load` reads at the same time: both are tables of contents over
//! the same blobs, as `docker save` writes them.

use std::{
    collections::BTreeMap,
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
    process,
};

use flate2::{Compression, GzBuilder};
use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::{
    name::ImageName,
    program::{Platform, Program},
};

/// Where the program is in the image, as those who come from kubebuilder expect it.
const PROGRAM: &str = "manager";
/// Who it runs as: the one that distroless images call nonroot. As a number, so that a kubelet sees that it is not
/// root.
const USER: &str = "65532:65532";

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// A piece of an image, known by what it contains.
pub(super) struct Blob {
    pub(super) media_type: &'static str,
    /// `sha256:` and sixty-four digits.
    pub(super) digest: String,
    pub(super) bytes: Vec<u8>,
}

/// An image for one platform.
pub(super) struct Variant {
    pub(super) platform: Platform,
    pub(super) layer: Blob,
    pub(super) config: Blob,
    pub(super) manifest: Blob,
}

/// An image for one or more platforms.
pub(super) struct Image {
    pub(super) name: ImageName,
    pub(super) variants: Vec<Variant>,
    /// The list of the variants, if there are several.
    pub(super) index: Option<Blob>,
    /// When it says it was made, in seconds since 1970.
    created: u32,
}

impl Blob {
    fn new(media_type: &'static str, bytes: Vec<u8>) -> Self {
        Self { media_type, digest: sha256(&bytes), bytes }
    }

    fn json(media_type: &'static str, value: &Value) -> Self {
        Self::new(media_type, value.to_string().into_bytes())
    }

    fn descriptor(&self) -> Value {
        json!({"mediaType": self.media_type, "digest": self.digest, "size": self.bytes.len()})
    }

    /// Where it is in an archive.
    fn path(&self) -> String {
        format!("blobs/{}", self.digest.replace(':', "/"))
    }
}

fn sha256(bytes: &[u8]) -> String {
    let digest = digest(&SHA256, bytes);
    digest.as_ref().iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

impl Variant {
    fn new(program: &Program, labels: &BTreeMap<String, String>, created: u32) -> io::Result<Self> {
        let layer = archive(&[(PROGRAM, &program.bytes)], 0o755, created)?;
        let mut packed = GzBuilder::new().write(Vec::new(), Compression::best());
        packed.write_all(&layer)?;
        let diff_id = sha256(&layer);
        let layer = Blob::new(LAYER, packed.finish()?);
        let time = timestamp(created);
        let config = Blob::json(
            CONFIG,
            &json!({
                "architecture": program.platform.architecture(),
                "os": "linux",
                "created": time,
                "config": {
                    "User": USER,
                    "Entrypoint": [format!("/{PROGRAM}")],
                    "WorkingDir": "/",
                    "Labels": labels,
                },
                "rootfs": {"type": "layers", "diff_ids": [diff_id]},
                "history": [{"created": time, "created_by": "kubewright build"}],
            }),
        );
        let manifest = Blob::json(
            MANIFEST,
            &json!({
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": config.descriptor(),
                "layers": [layer.descriptor()],
            }),
        );
        Ok(Self { platform: program.platform, layer, config, manifest })
    }

    fn descriptor(&self) -> Value {
        let mut descriptor = self.manifest.descriptor();
        descriptor["platform"] = json!({"architecture": self.platform.architecture(), "os": "linux"});
        descriptor
    }
}

impl Image {
    /// An image of programs, each for a platform of its own.
    pub(super) fn new(
        name: ImageName,
        programs: &[Program],
        labels: &BTreeMap<String, String>,
        created: u32,
    ) -> io::Result<Self> {
        let variants = programs.iter().map(|program| Variant::new(program, labels, created));
        let variants = variants.collect::<io::Result<Vec<Variant>>>()?;
        let index = (variants.len() > 1).then(|| {
            let manifests: Vec<Value> = variants.iter().map(Variant::descriptor).collect();
            Blob::json(INDEX, &json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}))
        });
        Ok(Self { name, variants, index, created })
    }

    /// What the name of the image stands for: its manifest, or the list of its manifests.
    pub(super) fn top(&self) -> &Blob {
        self.index.as_ref().unwrap_or_else(|| &self.variants[0].manifest)
    }

    /// Writes the archive into a directory: all of it, or nothing.
    pub(super) fn write(&self, directory: &Path) -> Result<PathBuf, String> {
        let path = directory.join(format!("{}-{}.tar", self.name.title(), self.name.tag()));
        let beside = path.with_added_extension(process::id().to_string());
        let written = self.archive().and_then(|bytes| {
            fs::create_dir_all(directory)?;
            let mut file = fs::File::create(&beside)?;
            file.write_all(&bytes)?;
            // A disk that is full may say so only now.
            file.sync_all()?;
            fs::rename(&beside, &path)
        });
        if let Err(why) = written {
            // If it is not even there, so much the better.
            let _ = fs::remove_file(&beside);
            return Err(format!("can't write the image {}: {why}", path.display()));
        }
        Ok(path)
    }

    fn archive(&self) -> io::Result<Vec<u8>> {
        let mut entry = self.top().descriptor();
        entry["annotations"] = json!({
            "io.containerd.image.name": self.name.full(),
            "org.opencontainers.image.ref.name": self.name.tag(),
        });
        let layout = json!({"imageLayoutVersion": "1.0.0"}).to_string();
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]}).to_string();
        // Docker's own table has room for one platform: the first that was asked for.
        let first = &self.variants[0];
        let docker = json!([{
            "Config": first.config.path(),
            "RepoTags": [self.name.to_string()],
            "Layers": [first.layer.path()],
        }]);
        let docker = docker.to_string();

        let pieces =
            self.variants.iter().flat_map(|variant| [&variant.layer, &variant.config, &variant.manifest]);
        let mut blobs: Vec<(String, &[u8])> =
            pieces.chain(&self.index).map(|blob| (blob.path(), blob.bytes.as_slice())).collect();
        blobs.sort_unstable();
        let mut files: Vec<(&str, &[u8])> =
            blobs.iter().map(|(path, bytes)| (path.as_str(), *bytes)).collect();
        files.extend([
            ("index.json", index.as_bytes()),
            ("manifest.json", docker.as_bytes()),
            ("oci-layout", layout.as_bytes()),
        ]);
        archive(&files, 0o644, self.created)
    }
}

/// A tar archive in which nothing tells of the machine it was made on.
fn archive(files: &[(&str, &[u8])], mode: u32, time: u32) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, bytes) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(mode);
        header.set_mtime(u64::from(time));
        header.set_uid(0);
        header.set_gid(0);
        archive.append_data(&mut header, path, *bytes)?;
    }
    archive.into_inner()
}

fn timestamp(seconds: u32) -> String {
    let time = Timestamp::from_second(i64::from(seconds)).expect("it is before the year 9999");
    time.to_string()
}
