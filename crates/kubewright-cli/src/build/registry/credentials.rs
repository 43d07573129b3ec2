//! Who somebody is to a registry, as `docker login` has left it.

use std::{
    env, fs,
    io::Write as _,
    path::PathBuf,
    process::{Command, Stdio},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

/// The name under which `docker login` without a registry leaves its credentials.
const DOCKER: &str = "https://index.docker.io/v1/";

pub(super) struct Credentials {
    user: String,
    password: String,
}

impl Credentials {
    /// Those for a registry, if there are any.
    pub(super) fn of(registry: &str) -> Result<Option<Self>, String> {
        let directory = env::var_os("DOCKER_CONFIG").map(PathBuf::from);
        let directory = directory.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".docker")));
        let Some(path) = directory.map(|directory| directory.join("config.json")) else { return Ok(None) };
        let Ok(text) = fs::read(&path) else { return Ok(None) };
        let config: Value = serde_json::from_slice(&text)
            .map_err(|why| format!("can't read the credentials in {}: {why}", path.display()))?;
        let key = if registry == "docker.io" { DOCKER } else { registry };
        let helper = config["credHelpers"][key].as_str().or_else(|| config["credsStore"].as_str());
        match helper {
            Some(helper) => Self::ask(helper, key),
            None => Ok(config["auths"][key]["auth"].as_str().and_then(Self::decode)),
        }
    }

    fn decode(text: &str) -> Option<Self> {
        let text = String::from_utf8(STANDARD.decode(text).ok()?).ok()?;
        let (user, password) = text.split_once(':')?;
        Some(Self { user: user.to_owned(), password: password.to_owned() })
    }

    /// Asks the program that keeps them. One that knows none says so by failing.
    fn ask(helper: &str, key: &str) -> Result<Option<Self>, String> {
        let program = format!("docker-credential-{helper}");
        let failed = |why: &dyn std::fmt::Display| format!("can't ask {program} for credentials: {why}");
        let mut command = Command::new(&program);
        command.arg("get").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|why| failed(&why))?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(key.as_bytes()).map_err(|why| failed(&why))?;
        }
        let output = child.wait_with_output().map_err(|why| failed(&why))?;
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let found = answer["Username"].as_str().zip(answer["Secret"].as_str());
        Ok(found.map(|(user, password)| Self { user: user.to_owned(), password: password.to_owned() }))
    }

    /// As a header says it.
    pub(super) fn basic(&self) -> String {
        format!("Basic {}", STANDARD.encode(format!("{}:{}", self.user, self.password)))
    }
}
