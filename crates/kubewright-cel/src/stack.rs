//! Room on the stack for deeply nested expressions.
//!
//! An expression may nest 250 levels, which is more than the stack of a thread holds in a debug build
//! together with what its caller has put there. Such an expression gets a stack of its own; all others
//! run where they are.

use std::thread;

/// Up to this depth any stack has room.
const SHALLOW: usize = 40;
const DEEP_STACK_BYTES: usize = 64 << 20;

/// Runs something that nests to about a depth.
pub(crate) fn with_room<Out: Send>(depth: usize, run: impl FnOnce() -> Out + Send) -> Out {
    if depth <= SHALLOW {
        return run();
    }
    thread::scope(|scope| {
        let spawned = thread::Builder::new().stack_size(DEEP_STACK_BYTES).spawn_scoped(scope, run);
        let thread = spawned.expect("the system has room for one more thread");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// About how deeply the parts of a text nest.
pub(crate) fn nesting(text: &str) -> usize {
    let (mut open, mut deepest, mut others) = (0_usize, 0, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            // Each begins another level on the right.
            b'?' => others += 4,
            b'.' | b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' => others += 1,
            _ => {}
        }
        deepest = deepest.max(open);
    }
    deepest + others / 4
}
