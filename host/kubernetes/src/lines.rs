//! The body of a watch as lines of bounded length.

use std::collections::VecDeque;

/// Longest line: a resource and its envelope. Source: etcd keeps documents of 1.5 MiB at most, by default.
pub(crate) const LINE_BYTES_MAX: usize = 16 << 20;

/// Cuts a stream of bytes into lines. What follows the last line break is no line: a cut in the middle of a
/// line loses nothing, because the watch begins again after the last whole line.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    ready: VecDeque<Vec<u8>>,
    /// The beginning of a line.
    rest: Vec<u8>,
}

/// A line exceeds [`LINE_BYTES_MAX`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl Lines {
    /// Adds bytes.
    ///
    /// # Errors
    /// `TooLong`: the stream cannot be used any more.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.rest.len() + piece.len() > LINE_BYTES_MAX {
                return Err(TooLong);
            }
            match piece.strip_suffix(b"\n") {
                Some(end) if self.rest.is_empty() => self.ready.push_back(end.to_vec()),
                Some(end) => {
                    self.rest.extend_from_slice(end);
                    self.ready.push_back(std::mem::take(&mut self.rest));
                }
                None => self.rest.extend_from_slice(piece),
            }
        }
        Ok(())
    }

    /// Returns the next whole line, without its line break.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop};
    use proptest::{prop_assert_eq, proptest};

    use super::{LINE_BYTES_MAX, Lines, TooLong};

    #[test]
    fn a_line_that_never_ends_is_refused_at_the_bound() {
        let mut lines = Lines::default();
        let piece = vec![b'x'; 1 << 20];
        let accepted = (0..100).take_while(|_| lines.add(&piece).is_ok()).count();
        assert_eq!(accepted, LINE_BYTES_MAX >> 20);
        assert_eq!(lines.add(&piece), Err(TooLong));
        assert_eq!(lines.next(), None);
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_where_the_stream_is_cut(text in "[a-c\n]{0,60}", cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).chain([0, text.len()]).collect();
            at.sort_unstable();
            let mut lines = Lines::default();
            for pair in at.windows(2) {
                lines.add(&text.as_bytes()[pair[0]..pair[1]]).unwrap();
            }
            let mut whole: Vec<&str> = text.split('\n').collect();
            whole.pop();
            let found: Vec<_> = std::iter::from_fn(|| lines.next()).map(|line| String::from_utf8(line).unwrap()).collect();
            prop_assert_eq!(found, whole);
        }
    }
}
