//! Rust as `cargo fmt` would leave it: how long lines are depends on the names that people choose.

use std::{io, path::Path, process::Stdio};

use tokio::{io::AsyncWriteExt as _, process::Command};

/// The text as rustfmt writes it, with the settings of the project; as it is if there is no rustfmt.
pub(super) async fn formatted(root: &Path, text: &str) -> Result<String, String> {
    let mut command = Command::new("rustfmt");
    command.args(["--edition", "2024", "--emit", "stdout"]);
    let settings = root.join("rustfmt.toml");
    if settings.exists() {
        command.arg("--config-path").arg(settings);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = match command.spawn() {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(text.to_owned()),
        spawned => spawned.map_err(|why| format!("can't be formatted: {why}"))?,
    };
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(text.as_bytes()).await.map_err(|why| format!("can't be formatted: {why}"))?;
    }
    let output = child.wait_with_output().await.map_err(|why| format!("can't be formatted: {why}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("is no Rust: {}", said.lines().next().unwrap_or_default()));
    }
    String::from_utf8(output.stdout).map_err(|why| format!("can't be formatted: {why}"))
}
