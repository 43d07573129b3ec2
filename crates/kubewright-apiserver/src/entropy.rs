//! The one source of randomness: uids, generated names, jitter. Seeded, so that a run can be replayed.

use parking_lot::Mutex;

/// A seedable source of randomness, shared by all requests of a server.
#[derive(Debug)]
pub(crate) struct Entropy(Mutex<fastrand::Rng>);

impl Entropy {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(Mutex::new(fastrand::Rng::with_seed(seed)))
    }

    /// A seed nobody can foretell, for servers whose runs need not be replayed.
    pub(crate) fn machine_seed() -> u64 {
        use ring::rand::SecureRandom as _;
        let mut bytes = [0; 8];
        match ring::rand::SystemRandom::new().fill(&mut bytes) {
            Ok(()) => u64::from_ne_bytes(bytes),
            Err(_) => u64::from(std::process::id()),
        }
    }

    /// An independent source that continues from the same point.
    pub(crate) fn fork(&self) -> Self {
        Self(Mutex::new(self.0.lock().clone()))
    }

    /// A random (version 4) UUID.
    pub(crate) fn uid(&self) -> String {
        let bits = self.0.lock().u128(..);
        let bits = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
        // Every request takes one or two, so without the detour through formatting.
        let mut text = String::with_capacity(36);
        for (index, byte) in bits.to_be_bytes().into_iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            for digit in [byte >> 4, byte & 0xf] {
                text.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
            }
        }
        text
    }

    /// The five characters that complete a `generateName`; no vowels, so no words.
    pub(crate) fn name_suffix(&self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut random = self.0.lock();
        (0..5).map(|_| char::from(ALPHABET[random.usize(..ALPHABET.len())])).collect()
    }

    /// A number in `range`.
    pub(crate) fn within(&self, range: std::ops::Range<u64>) -> u64 {
        self.0.lock().u64(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_uids_and_they_are_well_formed() {
        let (a, b) = (Entropy::seeded(7), Entropy::seeded(7));
        let uid = a.uid();
        assert_eq!(uid, b.uid());
        assert_ne!(uid, a.uid());
        let parts: Vec<usize> = uid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert_eq!(&uid[14..15], "4");
        assert!("89ab".contains(&uid[19..20]));
    }
}
