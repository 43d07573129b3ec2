//! The Helm chart of an operator: its own manifests, with holes where a user may choose.
//!
//! Nothing of what is installed is written here: the manifests are asked for with marks in place of values, and once
//! for each choice that changes more than a value; templates are made of where they differ. So a chart can't drift from
//! what `deploy` installs.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use similar::{DiffTag, TextDiff};

use crate::{
    generate::header,
    program::{Installation, Program},
};

/// Stands for the namespace until it is a template.
const NAMESPACE: &str = "kubewright-chart-namespace";
/// Stand for what a user sets of the Deployment.
const IMAGE: &str = "kubewright-chart-image";
const RESOURCES: &str = "kubewright-chart-resources";
const REPLICAS: &str = "kubewright-chart-replicas";

/// The namespace in a template.
const IN_NAMESPACE: &str = "{{ .Values.namespace.name | default .Release.Namespace }}";
const IN_IMAGE: &str = "\"{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}\
                        {{ else }}:{{ .Values.image.tag }}{{ end }}\"";
/// What a user may add to the pod, and nothing sets by default.
const OF_POD: [&str; 4] = ["affinity", "imagePullSecrets", "nodeSelector", "tolerations"];

/// The files of the chart.
pub(super) async fn files(
    program: &Program,
    installation: &Installation,
) -> Result<BTreeMap<String, String>, String> {
    let (name, version) = program.version().await?;
    let marked = |metrics_secure| Installation {
        image: Some(IMAGE.to_owned()),
        namespace: Some(NAMESPACE.to_owned()),
        watch_namespace: installation.watch_namespace.clone(),
        metrics_secure,
    };
    let plain = program.manifests(&marked(false).arguments()).await?;
    let secure = program.manifests(&marked(true).arguments()).await?;
    // Its own image and resources, as it has them without marks.
    let own = Installation { image: installation.image.clone(), ..Installation::default() };
    let defaults = program.manifests(&own.arguments()).await?;
    let container = container(&defaults);

    let mut files = templates(&plain, &secure)?;
    files.insert("Chart.yaml".to_owned(), description(&name, version.as_deref()));
    files.insert("values.yaml".to_owned(), values(&container, installation)?);
    files.insert("values.schema.json".to_owned(), format!("{:#}\n", schema()));
    files.insert("templates/NOTES.txt".to_owned(), notes(&plain));
    Ok(files.into_iter().map(|(path, content)| (format!("chart/{path}"), content)).collect())
}

fn container(documents: &[Value]) -> Value {
    let deployment = documents.iter().find(|document| document["kind"] == "Deployment");
    deployment
        .map(|deployment| deployment["spec"]["template"]["spec"]["containers"][0].clone())
        .unwrap_or_default()
}

/// A template for each definition, and one for all other objects of a kind.
fn templates(plain: &[Value], secure: &[Value]) -> Result<BTreeMap<String, String>, String> {
    let (mut plain, mut secure) = (by_file(plain)?, by_file(secure)?);
    let paths: Vec<String> = plain.keys().chain(secure.keys()).cloned().collect();
    let mut templates = BTreeMap::new();
    for path in paths {
        let (one, other) = (plain.remove(&path), secure.remove(&path));
        let text = match (one, other) {
            (Some(one), Some(other)) => merged(&one, &other, ".Values.metrics.secure"),
            (None, Some(other)) => within(".Values.metrics.secure", &other),
            (Some(one), None) => within("not .Values.metrics.secure", &one),
            // Its path was there twice.
            (None, None) => continue,
        };
        let text = match path.as_str() {
            "templates/namespace.yaml" => within(".Values.namespace.create", &text),
            "templates/service.yaml" => within(".Values.metrics.enabled", &text),
            "templates/networkpolicy.yaml" => {
                within("and .Values.metrics.enabled .Values.metrics.networkPolicy", &text)
            }
            path if path.starts_with("templates/crds/") => within(".Values.crds.install", &text),
            path if path.contains("webhook") => within(".Values.webhook.enabled", &text),
            _ => text,
        };
        templates.insert(path, format!("# {}\n{}", header("kubewright package"), filled(&text)));
    }
    Ok(templates)
}

fn by_file(documents: &[Value]) -> Result<BTreeMap<String, String>, String> {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for document in documents {
        let text = |document: &Value| {
            let yaml = kubewright::to_yaml(std::slice::from_ref(document)).map_err(|why| why.to_string());
            yaml.map(|yaml| escaped(&yaml))
        };
        let kind = document["kind"].as_str().unwrap_or_default().to_lowercase();
        if kind == "customresourcedefinition" {
            let name = document["metadata"]["name"].as_str().unwrap_or_default();
            let mut lasting = document.clone();
            lasting["metadata"]["annotations"]["helm.sh/resource-policy"] = json!("keep");
            let both = merged(&text(document)?, &text(&lasting)?, ".Values.crds.keep");
            files.insert(format!("templates/crds/{name}.yaml"), both);
            continue;
        }
        // Those of webhooks have switches of their own.
        let is_of_webhooks =
            document["metadata"]["name"].as_str().is_some_and(|name| name.ends_with("-webhook"));
        let document = if kind == "deployment" { marked(document) } else { document.clone() };
        let path = match is_of_webhooks {
            true => format!("templates/webhook-{kind}.yaml"),
            false => format!("templates/{kind}.yaml"),
        };
        let file = files.entry(path).or_default();
        if !file.is_empty() {
            *file += "---\n";
        }
        *file += &text(&document)?;
    }
    Ok(files)
}

/// A Deployment with marks where values belong.
fn marked(deployment: &Value) -> Value {
    let mut deployment = deployment.clone();
    deployment["spec"]["replicas"] = REPLICAS.into();
    deployment["spec"]["template"]["spec"]["containers"][0]["resources"] = RESOURCES.into();
    deployment
}

/// Text that a template gives as it is.
fn escaped(text: &str) -> String {
    text.replace("{{", "{{ \"{{\" }}")
}

/// Lines that are there under a condition.
fn within(condition: &str, text: &str) -> String {
    format!("{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n")
}

/// A template that gives `other` under a condition, and else `text`: what both have stands in it once.
fn merged(text: &str, other: &str, condition: &str) -> String {
    let difference = TextDiff::from_lines(text, other);
    let joined = |lines: &[&str]| lines.concat();
    let mut template = String::new();
    for operation in difference.ops() {
        let old = joined(&difference.old_slices()[operation.old_range()]);
        let new = joined(&difference.new_slices()[operation.new_range()]);
        template += &match operation.tag() {
            DiffTag::Equal => old,
            DiffTag::Insert => within(condition, &new),
            DiffTag::Delete => within(&format!("not {condition}"), &old),
            DiffTag::Replace => within(condition, &format!("{new}{{{{- else }}}}\n{old}")),
        };
    }
    template
}

/// A template with values in place of the marks.
fn filled(text: &str) -> String {
    let mut template = String::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let space = &line[..indent];
        match line.trim_start() {
            "app.kubernetes.io/managed-by: kubewright" => {
                template += &format!("{space}app.kubernetes.io/managed-by: {{{{ .Release.Service }}}}\n");
                continue;
            }
            first if first.starts_with("serviceAccountName:") => {
                for field in OF_POD {
                    template += &format!(
                        "{space}{{{{- with .Values.{field} }}}}\n{space}{field}: {{{{- toYaml . | nindent {} }}}}\n{space}{{{{- end }}}}\n",
                        indent + 2
                    );
                }
            }
            first if first == format!("resources: {RESOURCES}") => {
                template += &format!(
                    "{space}resources: {{{{- toYaml .Values.resources | nindent {} }}}}\n",
                    indent + 2
                );
                continue;
            }
            first if first == format!("image: {IMAGE}") => {
                template += &format!(
                    "{space}image: {IN_IMAGE}\n{space}{{{{- with .Values.image.pullPolicy }}}}\n\
                     {space}imagePullPolicy: {{{{ . }}}}\n{space}{{{{- end }}}}\n"
                );
                continue;
            }
            _ => {}
        }
        template += &match line.split_once("--metrics-bind-address=") {
            Some((before, address)) => format!(
                "{before}--metrics-bind-address={{{{ if .Values.metrics.enabled }}}}{address}{{{{ else }}}}0{{{{ end }}}}\n"
            ),
            None => line.replace(NAMESPACE, IN_NAMESPACE).replace(REPLICAS, "{{ .Values.replicas }}") + "\n",
        };
    }
    template
}

fn description(name: &str, version: Option<&str>) -> String {
    let version = version.unwrap_or("0.0.0");
    format!(
        "# {}\napiVersion: v2\nname: {name}\ndescription: The Kubernetes operator {name}\ntype: application\n\
         version: {version:?}\nappVersion: {version:?}\n",
        header("kubewright package")
    )
}

/// The parts of an image's name: where it is, its tag, and its digest.
fn parts(image: &str) -> (&str, &str, &str) {
    let (named, digest) = image.split_once('@').unwrap_or((image, ""));
    match named.rsplit_once(':') {
        // What is behind the colon of a port has a slash.
        Some((repository, tag)) if !tag.contains('/') => (repository, tag, digest),
        _ => (named, "latest", digest),
    }
}

fn values(container: &Value, installation: &Installation) -> Result<String, String> {
    let (repository, tag, digest) = parts(container["image"].as_str().unwrap_or_default());
    let resources = kubewright::to_yaml(&[container["resources"].clone()]).map_err(|why| why.to_string())?;
    let resources: String = resources.lines().map(|line| format!("  {line}\n")).collect();
    Ok(format!(
        "\
# {header}

image:
  repository: {repository:?}
  tag: {tag:?}
  # Takes the place of the tag, as in sha256:...
  digest: {digest:?}
  # Always, IfNotPresent or Never; what Kubernetes chooses if empty.
  pullPolicy: \"\"

imagePullSecrets: []

# One works at a time; others stand by.
replicas: 1

resources:
{resources}
namespace:
  # Where the operator lives; the namespace of the release if empty.
  name: {namespace:?}
  # Whether the chart makes it, with the restricted Pod Security Standard.
  create: false

crds:
  # Whether the definitions of its kinds come with the chart.
  install: true
  # Whether they, and all resources of these kinds, stay if the chart is uninstalled.
  keep: true

metrics:
  enabled: true
  # Over TLS, and only to those who have the right to read them.
  secure: {secure}
  # Let in only namespaces with the label metrics=enabled.
  networkPolicy: true

webhook:
  # Whether the API server asks the operator before it stores objects, if it has webhooks. Kinds in several versions need it.
  enabled: true

nodeSelector: {{}}
tolerations: []
affinity: {{}}
",
        header = header("kubewright package"),
        namespace = installation.namespace.as_deref().unwrap_or_default(),
        secure = installation.metrics_secure,
    ))
}

/// What values may be.
fn schema() -> Value {
    let object = |properties: Value| json!({"type": "object", "additionalProperties": false, "properties": properties});
    let (text, flag) = (json!({"type": "string"}), json!({"type": "boolean"}));
    let mut schema = object(json!({
        "global": {"type": "object"},
        "image": object(json!({
            "repository": {"type": "string", "minLength": 1},
            "tag": text,
            "digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
            "pullPolicy": {"enum": ["", "Always", "IfNotPresent", "Never"]},
        })),
        "imagePullSecrets": {"type": "array", "items": {"type": "object"}},
        "replicas": {"type": "integer", "minimum": 0},
        "resources": {"type": "object"},
        "namespace": object(json!({"name": text, "create": flag})),
        "crds": object(json!({"install": flag, "keep": flag})),
        "metrics": object(json!({"enabled": flag, "secure": flag, "networkPolicy": flag})),
        "webhook": object(json!({"enabled": flag})),
        "nodeSelector": {"type": "object", "additionalProperties": text},
        "tolerations": {"type": "array", "items": {"type": "object"}},
        "affinity": {"type": "object"},
    }));
    schema["$comment"] = header("kubewright package").into();
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema
}

/// What a user reads after the installation.
fn notes(documents: &[Value]) -> String {
    let definitions = documents.iter().filter(|document| document["kind"] == "CustomResourceDefinition");
    let kinds: String = definitions
        .map(|definition| {
            let names = &definition["spec"]["names"];
            let text = |name: &Value| name.as_str().unwrap_or_default().to_owned();
            format!("  kubectl get {} --all-namespaces\n", text(&names["plural"]))
        })
        .collect();
    let what = if kinds.is_empty() { String::new() } else { format!("\nWhat it looks after:\n\n{kinds}") };
    format!(
        "{{{{- /* {} */ -}}}}\n{{{{ .Chart.Name }}}} {{{{ .Chart.AppVersion }}}} is in namespace {IN_NAMESPACE}:\n\n  \
         kubectl --namespace {IN_NAMESPACE} rollout status deployment {{{{ .Chart.Name }}}}\n{what}",
        header("kubewright package")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_taken_apart_where_their_parts_meet() {
        assert_eq!(parts("memcached-operator:0.1.0"), ("memcached-operator", "0.1.0", ""));
        assert_eq!(parts("localhost:5000/operator"), ("localhost:5000/operator", "latest", ""));
        assert_eq!(parts("localhost:5000/operator:1"), ("localhost:5000/operator", "1", ""));
        assert_eq!(parts("registry/operator@sha256:ab"), ("registry/operator", "latest", "sha256:ab"));
    }

    #[test]
    fn what_two_texts_share_stands_once() {
        assert_eq!(
            merged("a\nb\nd\n", "a\nc\nd\ne\n", ".x"),
            "a\n{{- if .x }}\nc\n{{- else }}\nb\n{{- end }}\nd\n{{- if .x }}\ne\n{{- end }}\n"
        );
    }

    #[test]
    fn braces_of_a_definition_are_no_template() {
        assert_eq!(escaped("as in {{ name }}"), "as in {{ \"{{\" }} name }}");
    }
}
