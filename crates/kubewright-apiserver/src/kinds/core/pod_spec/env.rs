//! Environment variables of a container and where their values come from.

use super::super::super::{
    checks::{self, quantity},
    report::{At, Errors},
};

const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const VOLUME_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// `env` and `envFrom` of a container.
pub(super) fn of_container(container: &At<'_, '_>, errors: &mut Errors) {
    for variable in container.field("env").items() {
        let name = variable.field("name");
        if name.str().is_empty() {
            errors.required(&name, "");
        } else {
            errors.each(&name, checks::env_name(name.str()));
        }
        value_from(&variable, errors);
    }
    let all = container.field("envFrom");
    for source in all.items() {
        let prefix = source.field("prefix");
        if !prefix.str().is_empty() {
            errors.each(&prefix, checks::env_name(prefix.str()));
        }
        let mut sources = 0;
        for kind in ["configMapRef", "secretRef"] {
            let reference = source.field(kind);
            if reference.exists() {
                sources += 1;
                let name = reference.field("name");
                if name.str().is_empty() {
                    errors.required(&name, "");
                } else {
                    errors.each(&name, checks::dns_subdomain(name.str()));
                }
            }
        }
        if sources == 0 {
            errors.invalid(&all, "", "must specify one of: `configMapRef` or `secretRef`");
        } else if sources > 1 {
            errors.invalid(&all, "", "may not have more than one field specified at a time");
        }
    }
}

fn value_from(variable: &At<'_, '_>, errors: &mut Errors) {
    let from = variable.field("valueFrom");
    if !from.exists() {
        return;
    }
    let mut sources = 0;
    let field = from.field("fieldRef");
    if field.exists() {
        sources += 1;
        field_reference(&field, &ENV_FIELDS, errors);
    }
    let resource = from.field("resourceFieldRef");
    if resource.exists() {
        sources += 1;
        resource_reference(&resource, errors);
    }
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        let reference = from.field(kind);
        if reference.exists() {
            sources += 1;
            let name = reference.field("name");
            errors.each(&name, checks::dns_subdomain(name.str()));
            let key = reference.field("key");
            if key.str().is_empty() {
                errors.required(&key, "");
            } else {
                errors.each(&key, checks::config_key(key.str()));
            }
        }
    }
    let file = from.field("fileKeyRef");
    if file.exists() {
        sources += 1;
        file_reference(&file, errors);
    }
    if sources == 0 {
        errors.invalid(
            &from,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        );
    } else if !variable.field("value").str().is_empty() {
        errors.invalid(&from, "", "may not be specified when `value` is not empty");
    } else if sources > 1 {
        errors.invalid(&from, "", "may not have more than one field specified at a time");
    }
}

fn file_reference(file: &At<'_, '_>, errors: &mut Errors) {
    let (key, volume, path) = (file.field("key"), file.field("volumeName"), file.field("path"));
    if key.str().is_empty() {
        errors.required(&key, "");
    } else {
        errors.each(&key, checks::env_name(key.str()));
    }
    if volume.str().is_empty() {
        errors.required(&volume, "");
    } else {
        errors.each(&volume, checks::dns_label(volume.str()));
    }
    if path.str().is_empty() {
        errors.required(&path, "");
    } else {
        checks::no_backsteps(&path, path.str(), errors);
    }
}

/// A file of a downward API volume.
pub(super) fn downward_file(file: &At<'_, '_>, errors: &mut Errors) {
    let path = file.field("path");
    if path.str().is_empty() {
        errors.required(&path, "");
    }
    checks::projected_path(&path, errors);
    let (field, resource) = (file.field("fieldRef"), file.field("resourceFieldRef"));
    if field.exists() {
        field_reference(&field, &VOLUME_FIELDS, errors);
        if resource.exists() {
            errors.invalid(
                file,
                "resource",
                "fieldRef and resourceFieldRef can not be specified simultaneously",
            );
        }
    } else if resource.exists() {
        if resource.field("containerName").str().is_empty() {
            errors.required(&resource.field("containerName"), "");
        } else {
            resource_reference(&resource, errors);
        }
    } else {
        errors.required(file, "one of fieldRef and resourceFieldRef is required");
    }
    super::file_mode(&file.field("mode"), errors);
}

fn field_reference(reference: &At<'_, '_>, known: &[&str], errors: &mut Errors) {
    let (version, field) = (reference.field("apiVersion"), reference.field("fieldPath"));
    if version.str().is_empty() {
        return errors.required(&version, "");
    }
    if field.str().is_empty() {
        return errors.required(&field, "");
    }
    let text = field.str();
    let unconvertible = |errors: &mut Errors, why: String| {
        errors.invalid(&field, text, format!("error converting fieldPath: {why}"));
    };
    if version.str() != "v1" {
        return unconvertible(errors, format!("unsupported pod version: {}", version.str()));
    }
    let subscripted =
        text.strip_suffix("']").and_then(|rest| rest.split_once("['")).filter(|(path, _)| !path.is_empty());
    match subscripted {
        Some(("metadata.annotations", key)) => {
            for reason in checks::qualified_name(&key.to_lowercase()) {
                errors.invalid(reference, key.to_lowercase(), reason);
            }
        }
        Some(("metadata.labels", key)) => {
            for reason in checks::qualified_name(key) {
                errors.invalid(reference, key, reason);
            }
        }
        Some(_) => unconvertible(errors, format!("field label does not support subscript: {text}")),
        None => {
            let convertible = ENV_FIELDS.contains(&text)
                || VOLUME_FIELDS.contains(&text)
                || matches!(text, "spec.restartPolicy" | "spec.schedulerName" | "status.phase");
            if !convertible {
                unconvertible(errors, format!("field label not supported: {text}"));
            } else if !known.contains(&text) {
                errors.not_supported(&field, text, known);
            }
        }
    }
}

fn resource_reference(reference: &At<'_, '_>, errors: &mut Errors) {
    let resource = reference.field("resource");
    let name = resource.str();
    let huge = name.starts_with("requests.hugepages-") || name.starts_with("limits.hugepages-");
    if name.is_empty() {
        errors.required(&resource, "");
    } else if !RESOURCES.contains(&name) && !huge {
        errors.not_supported(&resource, name, &RESOURCES);
    }
    let divisor = reference.field("divisor");
    if quantity(divisor.str()).is_zero() {
        return;
    }
    let what = match name {
        "limits.cpu" | "requests.cpu" => {
            if !matches!(divisor.str(), "1m" | "1") {
                let text = "only divisor's values 1m and 1 are supported with the cpu resource";
                errors.invalid(&divisor, name, text);
            }
            return;
        }
        "limits.memory" | "requests.memory" => "memory",
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => "local ephemeral storage",
        _ if huge => "hugepages",
        _ => return,
    };
    const UNITS: [&str; 13] =
        ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    if !UNITS.contains(&divisor.str()) {
        let units = UNITS.join(", ");
        errors.invalid(
            &divisor,
            name,
            format!("only divisor's values {units} are supported with the {what} resource"),
        );
    }
}
