//! The one program in an image: for which platform it is, and whether it runs where there is nothing but itself.

use std::{fmt, fs, path::Path, str::FromStr};

/// What an image can be made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Platform {
    Amd64,
    Arm64,
}

impl Platform {
    const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// That of the containers that run on this machine.
    pub(super) fn here() -> Self {
        if cfg!(target_arch = "aarch64") { Self::Arm64 } else { Self::Amd64 }
    }

    /// What images call the processor.
    pub(super) fn architecture(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// What Rust and C compilers call the processor.
    pub(super) fn processor(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    /// What a program calls the processor, in its header.
    fn machine(self) -> u16 {
        match self {
            Self::Amd64 => 62,
            Self::Arm64 => 183,
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "linux/{}", self.architecture())
    }
}

impl FromStr for Platform {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|platform| platform.to_string() == text);
        known.ok_or_else(|| "images are made for linux/amd64 and linux/arm64".to_owned())
    }
}

/// A static program for Linux.
pub(super) struct Program {
    pub(super) platform: Platform,
    pub(super) bytes: Vec<u8>,
}

impl Program {
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let bytes = fs::read(path).map_err(|why| format!("can't read the program {shown}: {why}"))?;
        let platform = platform_of(&bytes).map_err(|why| format!("{shown} {why}"))?;
        Ok(Self { platform, bytes })
    }
}

/// Reads the header of a 64-bit little-endian ELF file, as both platforms have it.
fn platform_of(bytes: &[u8]) -> Result<Platform, String> {
    /// The file header says where the program headers are, how long each is, and how many there are.
    const HEADERS: (usize, usize, usize) = (0x20, 0x36, 0x38);
    const MACHINE: usize = 0x12;
    /// The program header that names a loader, which an image without a C library lacks.
    const INTERPRETER: u32 = 3;

    let truncated = || "is cut off".to_owned();
    let at = |offset: usize, length: usize| -> Result<u64, String> {
        let end = offset.checked_add(length).ok_or_else(truncated)?;
        let field = bytes.get(offset..end).ok_or_else(truncated)?;
        Ok(field.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    };
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return Err("is no program for 64-bit Linux".to_owned());
    }
    let machine = at(MACHINE, 2)?;
    let platform = Platform::ALL.into_iter().find(|platform| u64::from(platform.machine()) == machine);
    let platform = platform.ok_or_else(|| "is neither for linux/amd64 nor for linux/arm64".to_owned())?;
    let (start, size, count) = (at(HEADERS.0, 8)?, at(HEADERS.1, 2)?, at(HEADERS.2, 2)?);
    for index in 0..count {
        let offset = start.checked_add(index * size).and_then(|offset| usize::try_from(offset).ok());
        if at(offset.ok_or_else(truncated)?, 4)? == u64::from(INTERPRETER) {
            return Err(
                "is not static, and there is no C library in the image: build it for a musl target, or with \
                 -C target-feature=+crt-static"
                    .to_owned(),
            );
        }
    }
    Ok(platform)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header, with one program header of a kind behind it.
    fn program(machine: u16, kind: u32) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[0x12..0x14].copy_from_slice(&machine.to_le_bytes());
        bytes[0x20] = 64;
        bytes[0x36] = 56;
        bytes[0x38] = 1;
        bytes.extend(kind.to_le_bytes());
        bytes.extend([0; 52]);
        bytes
    }

    #[test]
    fn a_static_program_says_for_which_platform_it_is() {
        assert_eq!(platform_of(&program(62, 1)), Ok(Platform::Amd64));
        assert_eq!(platform_of(&program(183, 1)), Ok(Platform::Arm64));
    }

    #[test]
    fn what_would_not_run_in_the_image_is_refused() {
        let error = |bytes: &[u8]| platform_of(bytes).expect_err("refused");
        assert!(error(b"#!/bin/sh\n").contains("no program for 64-bit Linux"));
        assert!(error(&program(40, 1)).contains("neither for linux/amd64 nor"));
        assert!(error(&program(62, 3)).contains("is not static"));
        assert!(error(&program(62, 1)[..66]).contains("is cut off"));
        assert!(error(b"\x7fELF\x02\x01").contains("is cut off"));
    }

    #[test]
    fn a_header_that_points_nowhere_is_refused() {
        let mut bytes = program(62, 1);
        bytes[0x20..0x28].fill(0xff);
        assert!(platform_of(&bytes).expect_err("refused").contains("is cut off"));
    }

    #[test]
    fn platforms_are_named_as_builders_name_them() {
        assert_eq!("linux/arm64".parse(), Ok(Platform::Arm64));
        assert!("windows/amd64".parse::<Platform>().expect_err("refused").contains("linux/amd64"));
    }
}
