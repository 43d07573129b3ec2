//! Security contexts of pods and containers.

use std::collections::BTreeSet;

use super::super::super::{
    checks,
    report::{At, Errors},
};

fn id(at: &At<'_, '_>, errors: &mut Errors) {
    if !(0..=i64::from(i32::MAX)).contains(&at.int()) {
        errors.invalid(at, at.int(), checks::out_of_range(0, i64::from(i32::MAX)));
    }
}

/// The fields of a container's security context as Go has them.
const CONTEXT: &[(&str, &str)] = &[
    ("Capabilities", "capabilities"),
    ("Privileged", "privileged"),
    ("SELinuxOptions", "seLinuxOptions"),
    ("WindowsOptions", "windowsOptions"),
    ("RunAsUser", "runAsUser"),
    ("RunAsGroup", "runAsGroup"),
    ("RunAsNonRoot", "runAsNonRoot"),
    ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem"),
    ("AllowPrivilegeEscalation", "allowPrivilegeEscalation"),
    ("ProcMount", "procMount"),
    ("SeccompProfile", "seccompProfile"),
    ("AppArmorProfile", "appArmorProfile"),
];

/// The security context of one container.
pub(super) fn of_container(context: &At<'_, '_>, host_users: bool, errors: &mut Errors) {
    if !context.exists() {
        return;
    }
    id(&context.field("runAsUser"), errors);
    id(&context.field("runAsGroup"), errors);
    let mount = context.field("procMount");
    errors.optional_one_of(&mount, &["Default", "Unmasked"]);
    if host_users && mount.str() == "Unmasked" {
        errors.invalid(&mount, mount.str(), "`hostUsers` must be false to use `Unmasked`");
    }
    seccomp(&context.field("seccompProfile"), errors);
    let escalation = context.field("allowPrivilegeEscalation");
    if escalation.exists() && !escalation.bool() {
        if context.field("privileged").bool() {
            let text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.invalid_text(context, &context.as_go(CONTEXT), text);
        }
        if context.field("capabilities").field("add").strings().any(|one| one == "CAP_SYS_ADMIN") {
            let text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.invalid_text(context, &context.as_go(CONTEXT), text);
        }
    }
    windows_options(&context.field("windowsOptions"), errors);
    app_armor(&context.field("appArmorProfile"), errors);
}

/// The security context of a whole pod.
pub(super) fn of_pod(spec: &At<'_, '_>, errors: &mut Errors) {
    let context = spec.field("securityContext");
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(&context.field(field), errors);
    }
    for group in context.field("supplementalGroups").items() {
        id(&group, errors);
    }
    if spec.field("shareProcessNamespace").bool() && spec.field("hostPID").bool() {
        let text = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&context.field("shareProcessNamespace"), true, text);
    }
    sysctls(spec, &context.field("sysctls"), errors);
    errors.optional_one_of(&context.field("fsGroupChangePolicy"), &["Always", "OnRootMismatch"]);
    seccomp(&context.field("seccompProfile"), errors);
    windows_options(&context.field("windowsOptions"), errors);
    app_armor(&context.field("appArmorProfile"), errors);
    errors.optional_one_of(&context.field("supplementalGroupsPolicy"), &["Merge", "Strict"]);
    errors.optional_one_of(&context.field("seLinuxChangePolicy"), &["Recursive"]);
}

fn sysctls(spec: &At<'_, '_>, sysctls: &At<'_, '_>, errors: &mut Errors) {
    const PATTERN: &str = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
    let is_name = |text: &str| {
        text.len() <= 253
            && text.split(['.', '/']).all(|part| {
                let inside = |byte: u8| {
                    byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_')
                };
                let edge = |c: char| c.is_ascii_alphanumeric();
                part.bytes().all(inside) && part.starts_with(edge) && part.ends_with(edge)
            })
    };
    let mut seen = BTreeSet::new();
    for sysctl in sysctls.items() {
        let name = sysctl.field("name");
        if name.str().is_empty() {
            errors.required(&name, "");
        } else if !is_name(name.str()) {
            let text = format!("must have at most 253 characters and match regex {PATTERN}");
            errors.invalid(&name, name.str(), text);
        } else if seen.contains(name.str()) {
            errors.duplicate(&name, name.str());
        }
        seen.insert(name.str());
        let normal = name.str().replace('/', ".");
        let ipc = ["kernel.sem", "kernel.shm", "kernel.msg", "fs.mqueue."]
            .iter()
            .any(|one| normal.starts_with(one));
        if spec.field("hostNetwork").bool() && normal.starts_with("net.") {
            errors.invalid(&name, name.str(), "may not be specified when 'hostNetwork' is true");
        } else if spec.field("hostIPC").bool() && ipc {
            errors.invalid(&name, name.str(), "may not be specified when 'hostIPC' is true");
        }
    }
}

fn seccomp(profile: &At<'_, '_>, errors: &mut Errors) {
    if !profile.exists() {
        return;
    }
    let (kind, local) = (profile.field("type"), profile.field("localhostProfile"));
    match kind.str() {
        "" => errors.required(&kind, "type is required when seccompProfile is set"),
        _ => errors.optional_one_of(&kind, &["Localhost", "RuntimeDefault", "Unconfined"]),
    }
    if kind.str() == "Localhost" {
        if local.exists() {
            checks::descending_path(&local, local.str(), errors);
        } else {
            errors.required(&local, "must be set when seccomp type is Localhost");
        }
    } else if local.exists() {
        let shown = profile.as_go(&[("Type", "type"), ("LocalhostProfile", "localhostProfile")]);
        errors.invalid_text(&local, &shown, "can only be set when seccomp type is Localhost");
    }
}

fn app_armor(profile: &At<'_, '_>, errors: &mut Errors) {
    const MISSING: &str = "must be set when AppArmor type is Localhost";
    if !profile.exists() {
        return;
    }
    let (kind, local) = (profile.field("type"), profile.field("localhostProfile"));
    match kind.str() {
        "Localhost" if !local.exists() => errors.required(&local, MISSING),
        "Localhost" => {
            if local.str().trim() != local.str() {
                errors.invalid(&local, local.str(), "must not be padded with whitespace");
            } else if local.str().is_empty() {
                errors.required(&local, MISSING);
            }
            if local.str().len() > 4095 {
                errors.too_long(&local, 4095);
            }
        }
        "RuntimeDefault" | "Unconfined" if local.exists() => {
            errors.invalid(&local, local.str(), "can only be set when AppArmor type is Localhost");
        }
        "RuntimeDefault" | "Unconfined" => {}
        "" => errors.required(&kind, "type is required when appArmorProfile is set"),
        other => errors.not_supported(&kind, other, &["Localhost", "RuntimeDefault", "Unconfined"]),
    }
}

fn windows_options(options: &At<'_, '_>, errors: &mut Errors) {
    let spec_name = options.field("gmsaCredentialSpecName");
    if spec_name.exists() {
        errors.each(&spec_name, checks::dns_subdomain(spec_name.str()));
    }
    let spec = options.field("gmsaCredentialSpec");
    if spec.exists() && spec.str().is_empty() {
        errors.invalid(&spec, "", "gmsaCredentialSpec cannot be an empty string");
    } else if spec.str().len() > 64 * 1024 {
        errors.invalid(&spec, spec.str(), "gmsaCredentialSpec size must be under 64 KiB");
    }
    let user = options.field("runAsUserName");
    if user.exists() && user.str().is_empty() {
        errors.invalid(&user, "", "runAsUserName cannot be an empty string");
    } else if user.str().chars().any(char::is_control) {
        errors.invalid(&user, user.str(), "runAsUserName cannot contain control characters");
    } else if user.str().matches('\\').count() > 1 {
        errors.invalid(&user, user.str(), "runAsUserName cannot contain more than one backslash");
    }
}

/// Fields that make no sense for the operating system a pod names.
pub(super) fn operating_system(spec: &At<'_, '_>, errors: &mut Errors) {
    const POD: [&str; 10] = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "fsGroup",
        "fsGroupChangePolicy",
        "runAsUser",
        "runAsGroup",
        "supplementalGroups",
        "supplementalGroupsPolicy",
        "seLinuxChangePolicy",
    ];
    const CONTAINER: [&str; 10] = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
        "allowPrivilegeEscalation",
        "procMount",
        "runAsUser",
        "runAsGroup",
    ];
    const NOT_ON_WINDOWS: &str = "cannot be set for a windows pod";
    const NOT_ON_LINUX: &str = "windows options cannot be set for a linux pod";
    let os = spec.field("os");
    let name = os.field("name");
    let context = spec.field("securityContext");
    match name.str() {
        _ if !os.exists() => {}
        "" => errors.required(&name, ""),
        "linux" => {
            let mut forbid = |at: &At<'_, '_>| {
                if at.exists() {
                    errors.forbidden(at, NOT_ON_LINUX);
                }
            };
            forbid(&context.field("windowsOptions"));
            super::each_container(spec, |container| {
                forbid(&container.field("securityContext").field("windowsOptions"));
            });
        }
        "windows" => {
            let mut forbid = |at: &At<'_, '_>| {
                if at.exists() {
                    errors.forbidden(at, NOT_ON_WINDOWS);
                }
            };
            for field in POD {
                forbid(&context.field(field));
            }
            for field in ["hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"] {
                forbid(&spec.field(field));
            }
            super::each_container(spec, |container| {
                let context = container.field("securityContext");
                for field in CONTAINER {
                    forbid(&context.field(field));
                }
            });
        }
        other => errors.not_supported(&os, other, &["linux", "windows"]),
    }
}

/// A pod with users of its own can't share the host's namespaces.
pub(super) fn own_users(spec: &At<'_, '_>, errors: &mut Errors) {
    const OWN_USERS: &str = "when `hostUsers` is false";
    let users = spec.field("hostUsers");
    if !users.exists() || users.bool() {
        return;
    }
    for (field, reported) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")]
    {
        if spec.field(field).bool() {
            errors.forbidden(&spec.field(reported), OWN_USERS);
        }
    }
    super::each_container(spec, |container| {
        let devices = container.field("volumeDevices");
        if !devices.is_empty() {
            errors.forbidden(&devices, OWN_USERS);
        }
    });
}
