//! A static program from the source of an operator, with what is installed here.

use std::{
    env,
    path::{Path, PathBuf},
};

use tokio::process::Command;

use super::program::{Platform, Program};
use crate::source::Source;

/// The profile that images are built with. Where a crate has none, it is `release` without symbols.
const PROFILE: &str = "image";
const STATIC: &str = "-C target-feature=+crt-static";

/// What compiles for a platform.
#[derive(Debug, PartialEq, Eq)]
struct Toolchain {
    target: String,
    /// The C compiler.
    compiler: String,
}

/// The compilers of a machine for itself. With them, cargo knows how to link.
const NATIVE: &str = "cc";
const MUSL: &str = "musl-gcc";

impl Toolchain {
    /// What could compile for a platform, the best first. Of glibc a static program is made only on demand.
    fn candidates(platform: Platform, host: &str) -> Vec<Self> {
        let processor = platform.processor();
        let target = |library: &str| format!("{processor}-unknown-linux-{library}");
        let compiler = |library: &str| format!("{processor}-linux-{library}-gcc");
        let candidate = |library: &str, compiler: String| Self { target: target(library), compiler };
        let mut candidates = vec![candidate("musl", compiler("musl"))];
        if host == target("musl") {
            candidates.push(candidate("musl", NATIVE.to_owned()));
        }
        if host == target("gnu") {
            candidates.extend([candidate("musl", MUSL.to_owned()), candidate("gnu", NATIVE.to_owned())]);
        }
        candidates.push(candidate("gnu", compiler("gnu")));
        candidates
    }

    /// The first that is there.
    fn choose(
        platform: Platform,
        host: &str,
        is_installed: impl Fn(&str) -> bool,
        is_on_path: impl Fn(&str) -> bool,
    ) -> Result<Self, String> {
        let is_there = |one: &Self| is_installed(&one.target) && is_on_path(&one.compiler);
        Self::candidates(platform, host).into_iter().find(is_there).ok_or_else(|| {
            let processor = platform.processor();
            format!(
                "nothing here compiles a static program for {platform}. Install the target (`rustup target add \
                 {processor}-unknown-linux-musl`) and a C compiler for it ({processor}-linux-musl-gcc, or musl-gcc \
                 of musl-tools), or build it elsewhere and name it with --binary"
            )
        })
    }

    fn adjust(&self, cargo: &mut Command) {
        let Self { target, compiler } = self;
        cargo.args(["--target", target, "--profile", PROFILE]);
        let mut configure = |setting: String| {
            cargo.arg("--config").arg(setting);
        };
        configure(format!("profile.{PROFILE}.inherits=\"release\""));
        configure(format!("profile.{PROFILE}.strip=true"));
        if ![NATIVE, MUSL].contains(&compiler.as_str()) {
            configure(format!("target.{target}.linker=\"{compiler}\""));
        }
        match env::var("RUSTFLAGS") {
            _ if !target.ends_with("gnu") => {}
            // Then cargo looks at no others.
            Ok(flags) => {
                cargo.env("RUSTFLAGS", format!("{flags} {STATIC}"));
            }
            Err(_) => configure(format!("target.{target}.rustflags=\"{STATIC}\"")),
        }
    }
}

/// Compiles an operator for a platform.
pub(super) async fn compile(
    source: &Source,
    directory: &Path,
    platform: Platform,
) -> Result<Program, String> {
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--print", "sysroot", "--print", "host-tuple"]).current_dir(directory).kill_on_drop(true);
    let output = rustc.output().await.map_err(|why| format!("can't run rustc: {why}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines().map(str::trim);
    let (Some(sysroot), Some(host)) = (lines.next(), lines.next()) else {
        return Err(format!(
            "rustc does not say where it is: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    };
    let libraries = Path::new(sysroot).join("lib/rustlib");
    let is_installed = |target: &str| libraries.join(target).join("lib").is_dir();
    let toolchain = Toolchain::choose(platform, host, is_installed, |name| on_path(name).is_some())?;
    let path = source.build_with(|cargo| toolchain.adjust(cargo)).await?;
    let program = Program::read(&path)?;
    match program.platform == platform {
        true => Ok(program),
        false => Err(format!("{} is for {}, not for {platform}", path.display(), program.platform)),
    }
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(program)).find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "x86_64-unknown-linux-gnu";

    fn chosen(
        platform: Platform,
        host: &str,
        targets: &[&str],
        compilers: &[&str],
    ) -> Result<String, String> {
        let is_installed = |target: &str| targets.contains(&target);
        let is_on_path = |compiler: &str| compilers.contains(&compiler);
        let chosen = Toolchain::choose(platform, host, is_installed, is_on_path)?;
        Ok(format!("{} {}", chosen.target, chosen.compiler))
    }

    #[test]
    fn musl_is_taken_where_it_is_complete_and_glibc_of_this_machine_otherwise() {
        let musl = "x86_64-unknown-linux-musl";
        let complete = chosen(Platform::Amd64, HERE, &[HERE, musl], &["cc", "musl-gcc"]);
        assert_eq!(complete.as_deref(), Ok("x86_64-unknown-linux-musl musl-gcc"));
        let no_compiler = chosen(Platform::Amd64, HERE, &[HERE, musl], &["cc"]);
        assert_eq!(no_compiler.as_deref(), Ok("x86_64-unknown-linux-gnu cc"));
        let no_target = chosen(Platform::Amd64, HERE, &[HERE], &["cc", "musl-gcc"]);
        assert_eq!(no_target.as_deref(), Ok("x86_64-unknown-linux-gnu cc"));
        let on_alpine = chosen(Platform::Amd64, musl, &[musl], &["cc"]);
        assert_eq!(on_alpine.as_deref(), Ok("x86_64-unknown-linux-musl cc"));
    }

    #[test]
    fn another_processor_needs_a_compiler_of_its_own() {
        let targets = [HERE, "aarch64-unknown-linux-musl", "aarch64-unknown-linux-gnu"];
        let of_this_machine = chosen(Platform::Arm64, HERE, &targets, &["cc", "musl-gcc"]);
        let error = of_this_machine.expect_err("nothing compiles");
        assert!(error.contains("rustup target add aarch64-unknown-linux-musl"), "{error}");
        assert!(error.contains("--binary"), "{error}");
        let with_gnu = chosen(Platform::Arm64, HERE, &targets, &["cc", "aarch64-linux-gnu-gcc"]);
        assert_eq!(with_gnu.as_deref(), Ok("aarch64-unknown-linux-gnu aarch64-linux-gnu-gcc"));
    }

    #[test]
    fn a_compiler_of_another_system_is_not_taken() {
        let host = "aarch64-apple-darwin";
        let targets = [host, "aarch64-unknown-linux-musl"];
        assert!(chosen(Platform::Arm64, host, &targets, &["cc", "musl-gcc"]).is_err());
        let cross = chosen(Platform::Arm64, host, &targets, &["cc", "aarch64-linux-musl-gcc"]);
        assert_eq!(cross.as_deref(), Ok("aarch64-unknown-linux-musl aarch64-linux-musl-gcc"));
    }
}
