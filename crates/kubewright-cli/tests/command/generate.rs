//! `kubewright generate`: files that follow from an operator's code.

use std::{fs, path::Path, process::Output};

use kubewright::{ManifestOptions, Operator};
use serde_json::{Value, json};

use crate::{
    sketch::{Sketch, printed, refusal},
    support::{error_of, kubewright},
};

fn sketch() -> Sketch {
    Sketch::of(&memcached_operator::operator(), &ManifestOptions::default())
}

fn generate(sketch: &Sketch, arguments: &[&str]) -> Output {
    sketch.command("generate").args(arguments).output().unwrap()
}

/// One part alone.
fn generate_part(sketch: &Sketch, part: &str, arguments: &[&str]) -> Output {
    let mut command = kubewright();
    command.args(["generate", part]).arg(sketch.path()).args(arguments).env_remove("CARGO_TARGET_DIR");
    command.output().unwrap()
}

fn read(sketch: &Sketch, path: &str) -> String {
    fs::read_to_string(sketch.path().join(path)).unwrap()
}

/// The files below a directory, without those that a crate has anyway.
fn files(directory: &Path, within: &str) -> Vec<String> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory.join(within)).into_iter().flatten() {
        let path = format!("{within}/{}", entry.unwrap().file_name().to_string_lossy());
        match directory.join(&path).is_dir() {
            true => all.extend(files(directory, &path)),
            false => all.push(path),
        }
    }
    all.sort();
    all
}

#[test]
fn everything_is_generated_once_and_then_up_to_date() {
    let sketch = sketch();
    let told = printed(&generate(&sketch, &[]));
    assert!(told.contains("wrote config/crd/bases/cache.example.com_memcacheds.yaml\n"), "{told}");
    assert_eq!(files(sketch.path(), "config").len(), 23);
    assert_eq!(
        files(sketch.path(), "docs"),
        [
            "docs/api.md",
            "docs/schemas/cache.example.com/memcached_v1alpha1.json",
            "docs/schemas/cache.example.com/memcached_v1beta1.json"
        ]
    );
    assert_eq!(
        files(sketch.path(), "clients"),
        [
            "clients/typescript/cache.example.com_v1alpha1.ts",
            "clients/typescript/cache.example.com_v1beta1.ts"
        ]
    );
    assert_eq!(printed(&generate(&sketch, &["--check"])), "");
    assert_eq!(printed(&generate(&sketch, &[])), "", "nothing is written twice");
}

#[test]
fn a_check_prints_what_differs_and_changes_nothing() {
    let sketch = sketch();
    printed(&generate(&sketch, &[]));
    let (role, sample) = ("config/rbac/role.yaml", "config/samples/mine.yaml");
    let changed = read(&sketch, role).replace("  - deployments\n", "  - daemonsets\n");
    fs::write(sketch.path().join(role), &changed).unwrap();
    fs::create_dir(sketch.path().join("config/samples")).unwrap();
    fs::write(sketch.path().join(sample), "mine: true\n").unwrap();
    let header = changed.lines().next().unwrap();
    fs::write(sketch.path().join("config/rbac/old_role.yaml"), format!("{header}\nold: true\n")).unwrap();
    fs::remove_file(sketch.path().join("docs/api.md")).unwrap();

    let checked = generate(&sketch, &["--check"]);
    assert_eq!(refusal(&checked), "3 generated files are not up to date: run `kubewright generate`");
    let told = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(told.contains("--- a/config/rbac/role.yaml\n+++ b/config/rbac/role.yaml\n@@ "), "{told}");
    assert!(told.contains("\n-  - daemonsets\n+  - deployments\n"), "{told}");
    assert!(told.contains("--- a/config/rbac/old_role.yaml\n+++ /dev/null\n@@ -1,2 +0,0 @@\n"), "{told}");
    assert!(told.contains("--- /dev/null\n+++ b/docs/api.md\n"), "{told}");
    assert_eq!(read(&sketch, role), changed, "nothing has changed");

    let told = printed(&generate(&sketch, &[]));
    assert_eq!(told, "removed config/rbac/old_role.yaml\nwrote config/rbac/role.yaml\nwrote docs/api.md\n");
    assert_eq!(read(&sketch, sample), "mine: true\n", "what is the author's stays");
}

#[test]
fn a_check_misses_what_is_installed_and_not_what_was_never_generated() {
    let sketch = sketch();
    let why = refusal(&generate(&sketch, &["--check"]));
    assert_eq!(why, "23 generated files are not up to date: run `kubewright generate`", "those of config");
    printed(&generate_part(&sketch, "manifests", &[]));
    let checked = generate(&sketch, &["--check"]);
    assert_eq!(printed(&checked), "");
    assert!(error_of(&checked).ends_with(
        "docs is not checked: nothing was ever generated there\nclients is not checked: nothing was ever generated there\n"
    ));
    let why = refusal(&generate_part(&sketch, "docs", &["--check"]));
    assert!(why.starts_with("3 generated files are not up to date"), "whoever asks for it wants it: {why}");
}

#[test]
fn each_part_can_be_had_alone() {
    for (part, files) in [("crds", 2), ("rbac", 11), ("manifests", 23), ("docs", 3), ("client", 2)] {
        let sketch = sketch();
        let told = printed(&generate_part(&sketch, part, &[]));
        assert_eq!(told.lines().count(), files, "{part}: {told}");
        printed(&generate_part(&sketch, part, &["--check"]));
    }
}

#[test]
fn what_is_no_operator_is_told() {
    let sketch = sketch();
    fs::write(sketch.path().join("src/main.rs"), "fn main() { println!(\"hello\") }").unwrap();
    assert!(refusal(&generate(&sketch, &[])).ends_with("has no manifests: does it call kubewright::main?"));
    assert!(!sketch.path().join("config").exists());
}

/// A definition with all that a schema can say, in two versions.
fn definition() -> Value {
    let fields = json!({
        "spec": {
            "type": "object",
            "description": "What is wanted\nof a <b>shop</b>.",
            "required": ["name"],
            "x-kubernetes-validations": [{"rule": "self.name != 'x' || self.open", "message": "x has to be open"}],
            "properties": {
                "name": {"type": "string", "pattern": "^a|b$", "maxLength": 9, "minLength": 1},
                "size": {"type": "string", "enum": ["S", "L"], "default": "S", "description": "`S` or `L`."},
                "open": {"type": "boolean", "default": false, "nullable": true},
                "share": {"type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 1},
                "port": {"x-kubernetes-int-or-string": true},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "shelves": {
                    "type": "array",
                    "maxItems": 3,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["row"],
                    "items": {"type": "object", "required": ["row"], "properties": {
                        "row": {"type": "integer", "format": "int32"},
                        "content": {"type": "array", "items": {"type": "string", "enum": ["tea", "rum"]}, "x-kubernetes-list-type": "set"},
                    }},
                },
                "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "not-a-word": {"type": "string", "format": "date-time"},
            },
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    });
    let version = |name: &str, stored: bool| {
        json!({"name": name, "served": true, "storage": stored, "schema": {"openAPIV3Schema": {
            "type": "object", "description": "A shop.", "required": ["spec"], "properties": fields,
        }}})
    };
    let mut old = version("v1", false);
    old["deprecated"] = json!(true);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "shops.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Shop", "plural": "shops", "singular": "shop", "shortNames": ["sh"]},
            "versions": [old, version("v2", true)],
        },
    })
}

#[test]
fn every_field_is_told_to_people_editors_and_clients() {
    let mut sketch = Sketch::of(&Operator::new("shop-operator"), &ManifestOptions::default());
    sketch.change(|documents| documents.push(definition()));
    printed(&generate(&sketch, &[]));
    insta::assert_snapshot!("reference", read(&sketch, "docs/api.md"));
    insta::assert_snapshot!("schema", read(&sketch, "docs/schemas/example.com/shop_v2.json"));
    insta::assert_snapshot!("typescript", read(&sketch, "clients/typescript/example.com_v2.ts"));
    assert!(sketch.path().join("docs/schemas/example.com/shop_v1.json").exists());
}
