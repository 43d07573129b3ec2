//! `kubewright build`: the archive is what the specifications say, to the last digest, whatever else happens.

use std::{
    collections::BTreeMap,
    fs,
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    registry::Registry,
    support::{error_of, kubewright},
};

pub const AMD64: u16 = 62;
pub const ARM64: u16 = 183;
/// Every image here is called so.
const IMAGE: &str = "ghcr.io/team/web-operator:v1.2";

/// As good as a static program for a processor.
pub fn program(dir: &Path, machine: u16) -> PathBuf {
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(0x12, 0);
    bytes.extend(machine.to_le_bytes());
    bytes.resize(64, 0);
    bytes.extend((0..10_000_u32).flat_map(u32::to_le_bytes));
    let path = dir.join(format!("program-{machine}"));
    fs::write(&path, bytes).expect("a file");
    path
}

/// `kubewright build`, in a directory, with the credentials and the programs that are there.
fn build(dir: &Path) -> Command {
    let mut command = kubewright();
    command.arg("build").current_dir(dir).env("DOCKER_CONFIG", dir).env_remove("SOURCE_DATE_EPOCH");
    command
}

fn build_archive(dir: &Path, machines: &[u16]) -> Command {
    let mut command = build(dir);
    command.args(["--image", IMAGE]);
    for machine in machines {
        command.arg("--binary").arg(program(dir, *machine));
    }
    command
}

fn succeeded(command: &mut Command) -> Output {
    let output = command.output().expect("the command runs");
    assert!(output.status.success(), "{}", error_of(&output));
    output
}

/// What it says when it fails.
fn refused(command: &mut Command) -> String {
    let output = command.output().expect("the command runs");
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    error_of(&output)
}

/// What is in a tar archive, by path, with the header of each.
fn unpacked(bytes: &[u8]) -> BTreeMap<String, (tar::Header, Vec<u8>)> {
    let mut archive = tar::Archive::new(bytes);
    let entries = archive.entries().expect("a tar archive").map(|entry| {
        let mut entry = entry.expect("an entry");
        let mut content = Vec::new();
        entry.read_to_end(&mut content).expect("its content");
        (entry.path().unwrap().display().to_string(), (entry.header().clone(), content))
    });
    entries.collect()
}

fn sha256(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An archive whose blobs are known to be what they are called.
struct Archive(BTreeMap<String, (tar::Header, Vec<u8>)>);

impl Archive {
    fn read(path: &Path) -> Self {
        let files = unpacked(&fs::read(path).expect("an archive"));
        for (path, (_, content)) in &files {
            if let Some(digest) = path.strip_prefix("blobs/sha256/") {
                assert_eq!(sha256(content), digest);
            }
        }
        Self(files)
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_slice(&self.0[path].1).expect("JSON")
    }

    /// The blob that a descriptor describes.
    fn blob(&self, descriptor: &Value) -> &[u8] {
        let digest = descriptor["digest"].as_str().expect("a digest").replace("sha256:", "blobs/sha256/");
        let content = &self.0[&digest].1;
        assert_eq!(descriptor["size"], content.len(), "{descriptor}");
        content
    }

    fn described(&self, descriptor: &Value, media_type: &str) -> Value {
        assert_eq!(descriptor["mediaType"], format!("application/vnd.oci.image.{media_type}.v1+json"));
        serde_json::from_slice(self.blob(descriptor)).expect("JSON")
    }
}

/// Checks an image for one platform, and gives its configuration.
fn checked(archive: &Archive, manifest: &Value, program: &Path) -> Value {
    assert_eq!(manifest["schemaVersion"], 2);
    assert_eq!(manifest["mediaType"], "application/vnd.oci.image.manifest.v1+json");
    let config = archive.described(&manifest["config"], "config");
    let layers = manifest["layers"].as_array().expect("layers");
    assert_eq!(layers.len(), 1);
    assert_eq!(layers[0]["mediaType"], "application/vnd.oci.image.layer.v1.tar+gzip");
    let mut layer = Vec::new();
    GzDecoder::new(archive.blob(&layers[0])).read_to_end(&mut layer).expect("a gzipped layer");
    assert_eq!(
        config["rootfs"],
        json!({"type": "layers", "diff_ids": [format!("sha256:{}", sha256(&layer))]})
    );
    let files = unpacked(&layer);
    assert_eq!(files.keys().collect::<Vec<_>>(), ["manager"]);
    let (header, content) = &files["manager"];
    assert_eq!(*content, fs::read(program).unwrap());
    assert_eq!((header.mode().unwrap(), header.uid().unwrap(), header.gid().unwrap()), (0o755, 0, 0));
    config
}

#[test]
fn the_archive_is_an_image_layout_and_a_docker_archive() {
    let dir = tempfile::tempdir().expect("a directory");
    let output =
        succeeded(build_archive(dir.path(), &[AMD64]).args(["--output", "json", "--label", "team=web"]));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON value");
    let archive = Archive::read(&dir.path().join("dist/web-operator-v1.2.tar"));

    assert_eq!(archive.json("oci-layout"), json!({"imageLayoutVersion": "1.0.0"}));
    let index = archive.json("index.json");
    assert_eq!(index["schemaVersion"], 2);
    let [entry] = index["manifests"].as_array().expect("manifests").as_slice() else { panic!("{index}") };
    assert_eq!(
        entry["annotations"],
        json!({"io.containerd.image.name": IMAGE, "org.opencontainers.image.ref.name": "v1.2"})
    );
    let manifest = archive.described(entry, "manifest");
    let config = checked(&archive, &manifest, &dir.path().join(format!("program-{AMD64}")));
    assert_eq!((&config["os"], &config["architecture"]), (&json!("linux"), &json!("amd64")));
    assert_eq!(config["created"], "1970-01-01T00:00:00Z");
    assert_eq!(config["history"].as_array().map(Vec::len), Some(1), "one for each layer");
    assert_eq!(
        config["config"],
        json!({
            "User": "65532:65532",
            "Entrypoint": ["/manager"],
            "WorkingDir": "/",
            "Labels": {
                "org.opencontainers.image.title": "web-operator",
                "org.opencontainers.image.version": "v1.2",
                "team": "web",
            },
        })
    );

    let path_of =
        |descriptor: &Value| descriptor["digest"].as_str().unwrap().replace("sha256:", "blobs/sha256/");
    assert_eq!(
        archive.json("manifest.json"),
        json!([{
            "Config": path_of(&manifest["config"]),
            "RepoTags": [IMAGE],
            "Layers": [path_of(&manifest["layers"][0])],
        }])
    );
    assert_eq!(archive.0.len(), 6, "three tables and three blobs: {:?}", archive.0.keys());

    assert_eq!((&report["image"], &report["digest"]), (&json!(IMAGE), &entry["digest"]));
    assert_eq!(report["platforms"][0]["platform"], "linux/amd64");
    assert_eq!(report["platforms"][0]["bytes"], manifest["layers"][0]["size"]);
}

#[test]
fn several_platforms_are_a_list_of_images() {
    let dir = tempfile::tempdir().expect("a directory");
    succeeded(&mut build_archive(dir.path(), &[ARM64, AMD64]));
    let archive = Archive::read(&dir.path().join("dist/web-operator-v1.2.tar"));
    let entry = archive.json("index.json")["manifests"][0].clone();
    let list = archive.described(&entry, "index");
    let variants = list["manifests"].as_array().expect("manifests");
    for (variant, (architecture, machine)) in variants.iter().zip([("arm64", ARM64), ("amd64", AMD64)]) {
        assert_eq!(variant["platform"], json!({"architecture": architecture, "os": "linux"}));
        let manifest = archive.described(variant, "manifest");
        let config = checked(&archive, &manifest, &dir.path().join(format!("program-{machine}")));
        assert_eq!(config["architecture"], architecture);
    }
    assert_eq!(variants.len(), 2);
    let docker = archive.json("manifest.json");
    let first = archive.described(&variants[0], "manifest")["config"]["digest"].clone();
    let digest = docker[0]["Config"].as_str().unwrap().replace("blobs/sha256/", "sha256:");
    assert_eq!(docker.as_array().map(Vec::len), Some(1));
    assert_eq!(first, digest, "docker loads the first of them");
}

#[test]
fn the_same_program_gives_the_same_bytes() {
    let archive = |name: &str| {
        let dir = tempfile::Builder::new().prefix(name).tempdir().expect("a directory");
        succeeded(build_archive(dir.path(), &[AMD64, ARM64]).args(["--into", name]));
        fs::read(dir.path().join(name).join("web-operator-v1.2.tar")).expect("an archive")
    };
    assert!(archive("here") == archive("there"));
}

#[test]
fn the_image_says_it_was_made_when_it_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    succeeded(build_archive(dir.path(), &[AMD64]).env("SOURCE_DATE_EPOCH", "1700000000"));
    let archive = Archive::read(&dir.path().join("dist/web-operator-v1.2.tar"));
    let manifest = archive.described(&archive.json("index.json")["manifests"][0], "manifest");
    let config = archive.described(&manifest["config"], "config");
    assert_eq!(config["created"], "2023-11-14T22:13:20Z");
    assert!(archive.0.values().all(|(header, _)| header.mtime().unwrap() == 1_700_000_000));
}

#[test]
fn a_name_that_no_registry_takes_is_refused_before_anything_happens() {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, reason) in [("Web:1", "write \"web\""), ("web", "it has no tag"), ("web:1 2", "is no tag")] {
        let error = refused(build(dir.path()).args(["--image", name]));
        assert!(error.contains(reason), "{name}: {error}");
    }
    let error = refused(build(dir.path()).args(["--platform", "windows/amd64"]));
    assert!(error.contains("linux/amd64 and linux/arm64"), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_program_that_would_not_run_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let build_of = |path: &Path| refused(build(dir.path()).args(["--image", IMAGE, "--binary"]).arg(path));
    let dynamic = build_of(Path::new(env!("CARGO_BIN_EXE_kubewright")));
    // On other systems than Linux it is no program of Linux at all.
    let reason = if cfg!(target_os = "linux") { "is not static" } else { "is no program for 64-bit Linux" };
    assert!(dynamic.contains(reason), "{dynamic}");
    assert!(build_of(Path::new("nowhere")).contains("can't read the program nowhere"));
    let same = refused(&mut build_archive(dir.path(), &[AMD64, AMD64]));
    assert!(same.contains("second program for linux/amd64"), "{same}");
    assert!(!dir.path().join("dist").exists());
}

#[test]
fn a_disk_that_is_full_leaves_what_was_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let old = dir.path().join("dist/web-operator-v1.2.tar");
    fs::create_dir(dir.path().join("dist")).unwrap();
    fs::write(&old, "what was there").unwrap();
    let inner = build_archive(dir.path(), &[AMD64]);
    // As on a full disk, a write fails half-way: no file may be longer than eight blocks.
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "sh"])
        .arg(inner.get_program())
        .args(inner.get_args());
    let error = refused(shell.current_dir(dir.path()));
    assert!(error.contains("can't write the image dist/web-operator-v1.2.tar"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert_eq!(fs::read_to_string(&old).unwrap(), "what was there");
    assert_eq!(fs::read_dir(dir.path().join("dist")).unwrap().count(), 1);
}

/// A crate with a Dockerfile, and programs that stand in for others and write down how they were called.
struct Workshop {
    dir: TempDir,
}

impl Workshop {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |path: &str| dir.path().join(path);
        for sub in ["src", "bin"] {
            fs::create_dir(at(sub)).unwrap();
        }
        let manifest = "[package]\nname = \"web-operator\"\nversion = \"0.3.0+meta\"\nedition = \"2024\"\n\
             license = \"MIT\"\ndescription = \"Webs\"\n[workspace]\n";
        fs::write(at("Cargo.toml"), manifest).unwrap();
        fs::write(at("src/main.rs"), "fn main() {}").unwrap();
        fs::write(at("Dockerfile"), "FROM scratch").unwrap();
        Self { dir }
    }

    /// Puts a program on the path. Its arguments come to `calls`, then the script decides.
    fn program(&self, name: &str, script: &str) {
        let path = self.dir.path().join("bin").join(name);
        let calls = self.dir.path().join("calls");
        let text = format!("#!/bin/sh\necho \"{name} $*\" >> '{}'\n{script}\n", calls.display());
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Every call, but for those that only look whether a program is there.
    fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.dir.path().join("calls")).unwrap_or_default();
        calls.lines().filter(|call| !call.ends_with(" info")).map(str::to_owned).collect()
    }

    /// Of builders, the path has only those that stand in for others.
    fn build(&self) -> Command {
        let cargo = Path::new(env!("CARGO"));
        let path = [&self.dir.path().join("bin"), cargo.parent().unwrap(), Path::new("/bin")];
        let mut command = build(self.dir.path());
        command.env("PATH", std::env::join_paths(path).unwrap()).env("CARGO", cargo);
        command
    }
}

const LABELS: &str = "--label org.opencontainers.image.description=Webs --label org.opencontainers.image.licenses=MIT \
     --label org.opencontainers.image.title=web-operator --label org.opencontainers.image.version=0.3.0+meta";

#[test]
fn a_builder_that_answers_is_taken_where_there_is_a_dockerfile() {
    let workshop = Workshop::new();
    workshop.program("docker", "test $1 != info # the client alone is of no use");
    workshop.program("podman", "");
    let output =
        succeeded(workshop.build().args(["--push", "--platform", "linux/arm64", "--output", "json"]));
    let report: Value =
        serde_json::from_slice(&output.stdout).expect("one JSON value, and nothing of the builder");
    assert_eq!(
        report,
        json!({
            "image": "web-operator:0.3.0-meta",
            "builder": "podman",
            "platforms": ["linux/arm64"],
            "pushed": true,
        })
    );
    assert_eq!(
        workshop.calls(),
        [
            format!("podman build --platform linux/arm64 {LABELS} --tag web-operator:0.3.0-meta ."),
            "podman push web-operator:0.3.0-meta".to_owned(),
        ]
    );
}

#[test]
fn a_builder_that_fails_is_told_of_and_nothing_is_pushed() {
    let workshop = Workshop::new();
    workshop.program("docker", "test $1 = info");
    let error = refused(workshop.build().args(["--push", "--builder", "docker"]));
    assert!(error.contains("error: `docker build --platform"), "{error}");
    assert_eq!(workshop.calls().len(), 1, "{:?}", workshop.calls());
}

#[test]
fn a_builder_that_is_asked_for_has_to_be_there() {
    let workshop = Workshop::new();
    workshop.program("buildah", "exit 1");
    let error = refused(workshop.build().args(["--builder", "buildah"]));
    assert!(error.contains("buildah does not answer"), "{error}");
    fs::remove_file(workshop.dir.path().join("Dockerfile")).unwrap();
    let error = refused(workshop.build().args(["--builder", "buildah"]));
    assert!(error.contains("buildah needs a Dockerfile, and . has none"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn without_a_builder_a_static_program_is_compiled() {
    let workshop = Workshop::new();
    let machine = if cfg!(target_arch = "aarch64") { ARM64 } else { AMD64 };
    let program = program(workshop.dir.path(), machine);
    let built = json!({"executable": program});
    let cargo = format!(
        "case $1 in metadata) exec {} \"$@\";; *) echo '{built}'; echo 'a warning' >&2;; esac",
        env!("CARGO")
    );
    workshop.program("cargo", &cargo);
    let cargo = workshop.dir.path().join("bin/cargo");
    let path = std::env::var_os("PATH").expect("a path");
    let output =
        succeeded(workshop.build().env("CARGO", cargo).env("PATH", path).args(["--builder", "none"]));
    assert!(error_of(&output).contains("a warning"), "what the compiler says is seen: {}", error_of(&output));

    let calls = workshop.calls();
    let call = calls.last().expect("a build");
    assert!(call.starts_with("cargo build "), "{call}");
    for part in ["--profile image", "profile.image.strip=true", "-unknown-linux-"] {
        assert!(call.contains(part), "{part}: {call}");
    }
    let archive = Archive::read(&workshop.dir.path().join("dist/web-operator-0.3.0-meta.tar"));
    let manifest = archive.described(&archive.json("index.json")["manifests"][0], "manifest");
    checked(&archive, &manifest, &program);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_pushed_without_a_builder() {
    let registry = Registry::start("ada:lovelace").await;
    let dir = tempfile::tempdir().expect("a directory");
    let auths = json!({"auths": {registry.host.clone(): {"auth": registry.credentials()}}});
    fs::write(dir.path().join("config.json"), auths.to_string()).unwrap();
    let image = format!("{}/team/web:v1", registry.host);
    let push = || {
        let mut command = build(dir.path());
        command.args(["--push", "--image", &image]);
        command
            .arg("--binary")
            .arg(program(dir.path(), AMD64))
            .arg("--binary")
            .arg(program(dir.path(), ARM64));
        succeeded(&mut command)
    };
    push();
    let archive = Archive::read(&dir.path().join("dist/web-v1.tar"));
    let top = archive.json("index.json")["manifests"][0].clone();
    let pushed = registry.manifest("v1").expect("a manifest");
    assert_eq!(pushed, ("application/vnd.oci.image.index.v1+json".to_owned(), archive.blob(&top).to_vec()));
    for variant in archive.described(&top, "index")["manifests"].as_array().unwrap() {
        let digest = variant["digest"].as_str().unwrap();
        assert_eq!(registry.manifest(digest).expect("a manifest").1, archive.blob(variant));
        let manifest = archive.described(variant, "manifest");
        for descriptor in [&manifest["config"], &manifest["layers"][0]] {
            let digest = descriptor["digest"].as_str().unwrap();
            assert_eq!(registry.blob(digest).as_deref(), Some(archive.blob(descriptor)));
        }
    }
    assert_eq!(registry.uploads(), 4);
    push();
    assert_eq!(registry.uploads(), 4, "what is there is not uploaded again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_refuses_says_why() {
    let registry = Registry::start("ada:lovelace").await;
    let dir = tempfile::tempdir().expect("a directory");
    let push = || {
        let mut command = build(dir.path());
        command.args(["--push", "--image", &format!("{}/team/web:v1", registry.host)]);
        refused(command.arg("--binary").arg(program(dir.path(), AMD64)))
    };
    let error = push();
    assert!(error.contains("401 Unauthorized: docker login first"), "{error}");
    assert!(registry.manifest("v1").is_none());
    assert!(dir.path().join("dist/web-v1.tar").is_file(), "the image is there for another try");
    fs::write(dir.path().join("config.json"), "{").unwrap();
    assert!(push().contains("can't read the credentials in"));
}
