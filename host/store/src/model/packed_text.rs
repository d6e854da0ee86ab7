//! The text of a resource, compressed for a cache.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use lz4_flex::block::{compress_with_dict, decompress_with_dict};

/// Largest dictionary, in bytes. Each compression reads all of it.
const DICTIONARY_BYTES_MAX: usize = 8 << 10;

/// A text that is compressed with LZ4. Most of what it has in common with the dictionary takes no memory.
#[derive(Debug)]
pub(crate) struct PackedText {
    /// The beginning of another text, which many packed texts share.
    dictionary: Arc<[u8]>,
    packed: Box<[u8]>,
    /// The length of the text in bytes.
    length: usize,
}

impl PackedText {
    /// Returns the dictionary that a text makes for similar ones.
    pub(crate) fn dictionary(text: &str) -> Arc<[u8]> {
        text.as_bytes()[..text.len().min(DICTIONARY_BYTES_MAX)].into()
    }

    /// Compresses a text. `None` if that saves less than a quarter of it.
    pub(crate) fn new(text: &str, dictionary: &Arc<[u8]>) -> Option<Self> {
        let packed = compress_with_dict(text.as_bytes(), dictionary);
        (packed.len() < text.len() / 4 * 3).then(|| Self {
            dictionary: Arc::clone(dictionary),
            packed: packed.into_boxed_slice(),
            length: text.len(),
        })
    }

    /// Returns the length of the text in bytes.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Returns the memory of the compressed text in bytes, without the dictionary.
    pub(crate) fn packed_bytes(&self) -> usize {
        self.packed.len() + size_of::<Self>()
    }

    /// Returns the text.
    ///
    /// # Panics
    /// Never: the bytes are those that [`PackedText::new`] made of a text.
    pub(crate) fn unpack(&self) -> Arc<str> {
        let bytes = decompress_with_dict(&self.packed, self.length, &self.dictionary);
        let text = String::from_utf8(bytes.expect("the bytes were compressed with this dictionary"));
        text.expect("a text was compressed").into()
    }
}
