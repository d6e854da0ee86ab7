//! The body of a watch as lines of bounded length.

use std::collections::VecDeque;

/// Longest line: a resource and its envelope. Source: etcd keeps documents of 1.5 MiB at most, by default.
pub(crate) const LINE_BYTES_MAX: usize = 16 << 20;
/// The kept part of a longer line, in bytes: enough to tell which resource the line is about.
const HEAD_BYTES: usize = 1 << 20;
/// Bytes of a longer line that are skipped. Then the stream cannot be used any more.
const SKIPPED_BYTES_MAX: usize = 256 << 20;

/// A line, without its line break.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// The whole line.
    Whole(Vec<u8>),
    /// The beginning of a line that exceeds [`LINE_BYTES_MAX`].
    Head(Vec<u8>),
}

/// Cuts a stream of bytes into lines. The text after the last line break is no line: a cut in the middle of a
/// line loses nothing, because the watch begins again after the last whole line.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    ready: VecDeque<Line>,
    /// The beginning of a line.
    rest: Vec<u8>,
    /// Bytes of that line that were not kept. Above zero from [`LINE_BYTES_MAX`] on.
    skipped: usize,
}

/// A line does not end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl Lines {
    /// Adds bytes.
    ///
    /// # Errors
    /// `TooLong`: the stream cannot be used any more.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_end) = piece.strip_suffix(b"\n").map_or((piece, false), |text| (text, true));
            if self.skipped == 0 && self.rest.len() + text.len() <= LINE_BYTES_MAX {
                self.rest.extend_from_slice(text);
            } else {
                self.skip(text)?;
            }
            if is_end {
                let line = std::mem::take(&mut self.rest);
                let is_whole = std::mem::take(&mut self.skipped) == 0;
                self.ready.push_back(if is_whole { Line::Whole(line) } else { Line::Head(line) });
            }
        }
        Ok(())
    }

    /// Keeps no more than the beginning of a line that is too long.
    fn skip(&mut self, text: &[u8]) -> Result<(), TooLong> {
        let length = self.rest.len() + self.skipped + text.len();
        self.rest.extend_from_slice(&text[..text.len().min(HEAD_BYTES.saturating_sub(self.rest.len()))]);
        self.rest.truncate(HEAD_BYTES);
        self.rest.shrink_to_fit();
        self.skipped = length - self.rest.len();
        if self.skipped > SKIPPED_BYTES_MAX { Err(TooLong) } else { Ok(()) }
    }

    /// Returns the next line.
    pub(crate) fn next(&mut self) -> Option<Line> {
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop};
    use proptest::{prop_assert_eq, proptest};

    use super::{HEAD_BYTES, LINE_BYTES_MAX, Line, Lines, SKIPPED_BYTES_MAX, TooLong};

    #[test]
    fn a_line_that_never_ends_is_refused_at_the_bound() {
        let mut lines = Lines::default();
        let piece = vec![b'x'; 1 << 20];
        let accepted = (0..1000).take_while(|_| lines.add(&piece).is_ok()).count();
        assert_eq!(accepted, (SKIPPED_BYTES_MAX + HEAD_BYTES) >> 20);
        assert!(lines.rest.capacity() <= 2 * HEAD_BYTES, "the rest is not kept");
        assert_eq!(lines.add(&piece), Err(TooLong));
        assert_eq!(lines.next(), None);
    }

    #[test]
    fn a_line_that_is_too_long_has_its_beginning_and_others_follow() {
        let mut lines = Lines::default();
        lines.add(b"a\n").unwrap();
        let long: Vec<u8> = (0..=LINE_BYTES_MAX).map(|at| if at % 2 == 0 { b'x' } else { b'y' }).collect();
        for piece in long.chunks(999_999) {
            lines.add(piece).unwrap();
        }
        lines.add(b"\nb\n").unwrap();
        assert_eq!(lines.next(), Some(Line::Whole(b"a".to_vec())));
        let Some(Line::Head(head)) = lines.next() else { panic!() };
        assert!(head.len() == HEAD_BYTES && long.starts_with(&head));
        assert_eq!(lines.next(), Some(Line::Whole(b"b".to_vec())));
        lines.add(&long[..LINE_BYTES_MAX]).unwrap();
        lines.add(b"\n").unwrap();
        assert_eq!(lines.next(), Some(Line::Whole(long[..LINE_BYTES_MAX].to_vec())));
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
            let text = |line| match line {
                Line::Whole(text) => String::from_utf8(text).unwrap(),
                Line::Head(head) => panic!("{head:?}"),
            };
            let found: Vec<_> = std::iter::from_fn(|| lines.next()).map(text).collect();
            prop_assert_eq!(found, whole);
        }
    }
}
