//! The code of a process that is about to be forked a thousand times.
//!
//! A child has to be told, or asks for, each page of the files that its parent has mapped: thousands of small ones, for
//! something that runs for some milliseconds. So what is read and executed is put into large pages, at the same addresses.
//! That takes a copy of it, which only pays for many children.

use std::fs;

/// What a large page is, and how much is worth the trouble of copying.
const LARGE: usize = 2 << 20;
const MOST: usize = 256 << 20;

/// Puts the code and the constants of this process into large pages. Nobody writes to them, and whoever executes them does not
/// notice. If the system does not allow it, all stays as it is, and children take longer.
pub(crate) fn enlarge() {
    let large = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if large.contains("[always]") || large.contains("[madvise]") {
        let mappings = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        mappings.lines().filter_map(Mapping::of).for_each(Mapping::enlarge);
    }
}

/// A part of a file in memory that is only read or executed.
struct Mapping {
    begin: usize,
    length: usize,
    protection: i32,
}

impl Mapping {
    /// `55d0c8a00000-55d0c8c00000 r-xp 00000000 fe:00 123  /usr/bin/program`
    fn of(line: &str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace();
        let (begin, end) = fields.next()?.split_once('-')?;
        let protection = match fields.next()? {
            "r-xp" => libc::PROT_READ | libc::PROT_EXEC,
            "r--p" => libc::PROT_READ,
            _ => return None,
        };
        fields.nth(3).filter(|path| path.starts_with('/'))?;
        let begin = usize::from_str_radix(begin, 16).ok()?;
        let length = usize::from_str_radix(end, 16).ok()?.checked_sub(begin)?;
        (LARGE..=MOST).contains(&length).then_some(Self { begin, length, protection })
    }

    /// Makes a copy, as far from a large page's beginning as the original, and moves it there.
    fn enlarge(self) {
        let Self { begin, length, protection } = self;
        let room = length + 2 * LARGE;
        let original = std::ptr::with_exposed_provenance_mut::<u8>(begin);
        #[allow(
            unsafe_code,
            reason = "the copy is new memory with room for the whole, the original can be read, and nobody writes to it; \
                      once it is replaced, the same bytes are at the same addresses"
        )]
        unsafe {
            let (own, write) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_READ | libc::PROT_WRITE);
            let memory = libc::mmap(std::ptr::null_mut(), room, write, own, -1, 0);
            if memory == libc::MAP_FAILED {
                return;
            }
            let at = (memory.addr() + LARGE - begin % LARGE) / LARGE * LARGE + begin % LARGE;
            let copy = memory.byte_add(at - memory.addr());
            libc::madvise(copy, length, libc::MADV_HUGEPAGE);
            std::ptr::copy_nonoverlapping(original, copy.cast(), length);
            if libc::mprotect(copy, length, protection) == 0 {
                let fixed = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
                libc::mremap(copy, length, length, fixed, original.cast::<libc::c_void>());
            }
            // Where the copy was, there is nothing any more, and around it nothing was ever written to.
            libc::munmap(memory, room);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_parts_of_files_are_copied() {
        let length = |line| Mapping::of(line).map(|mapping| mapping.length);
        assert_eq!(length("400000-800000 r-xp 00000000 fe:00 123  /bin/program"), Some(4 << 20));
        assert_eq!(length("400000-500000 r-xp 00000000 fe:00 123  /bin/program"), None, "too small");
        assert_eq!(length("400000-800000 rw-p 00000000 fe:00 123  /bin/program"), None, "written to");
        assert_eq!(length("400000-800000 r--p 00000000 00:00 0"), None, "of no file");
        assert_eq!(length("7ffc00000000-7ffc10000000 r-xp 00000000 00:00 0  [vdso]"), None, "of no file");
    }
}
