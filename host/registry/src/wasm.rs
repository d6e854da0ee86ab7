//! The binary frame of a component: its header and its first section.

use wasmparser::BinaryReader;

use crate::error::Error;

/// `\0asm`, version 13, layer 1. Source: the binary format of the component model.
const HEADER: [u8; 8] = [0x00, 0x61, 0x73, 0x6d, 0x0d, 0x00, 0x01, 0x00];
/// The id of custom sections.
const CUSTOM: u8 = 0;

/// A custom section.
pub(crate) struct CustomSection<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) content: &'a [u8],
}

/// Returns the sections, without the header.
///
/// # Errors
/// [`Error::NotAComponent`].
pub(crate) fn sections(component: &[u8]) -> Result<&[u8], Error> {
    let wrong = |reason: &str| Err(Error::NotAComponent(reason.to_owned()));
    match component.strip_prefix(&HEADER) {
        Some(sections) => Ok(sections),
        None if component.starts_with(&HEADER[..4]) => wrong("they are a core module"),
        None => wrong("they do not start like one"),
    }
}

/// Splits off the first section, if it is a custom one.
pub(crate) fn first(sections: &[u8]) -> Option<(CustomSection<'_>, &[u8])> {
    let rest = sections.strip_prefix(&[CUSTOM])?;
    let (section, rest) = slice(rest)?;
    let (name, content) = slice(section)?;
    Some((CustomSection { name, content }, rest))
}

/// Returns a component that starts with a custom section.
pub(crate) fn prepend_section(CustomSection { name, content }: &CustomSection<'_>, sections: &[u8]) -> Vec<u8> {
    let mut section = Vec::new();
    put_slice(&mut section, name);
    section.extend_from_slice(content);
    let mut component = HEADER.to_vec();
    component.push(CUSTOM);
    put_slice(&mut component, &section);
    component.extend_from_slice(sections);
    component
}

/// Splits off an unsigned number in LEB128; `None` if it is cut off or larger than 32 bits.
pub(crate) fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut reader = BinaryReader::new(bytes, 0);
    let number = reader.read_var_u32().ok()?;
    Some((number, &bytes[reader.current_position()..]))
}

/// Splits off bytes that are prefixed with their length.
pub(crate) fn slice(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = number(bytes)?;
    rest.split_at_checked(length as usize)
}

/// Appends a number in LEB128.
pub(crate) fn put_number(to: &mut Vec<u8>, mut number: usize) {
    while number > 0x7f {
        // The low seven bits.
        to.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Appends bytes, prefixed with their length.
pub(crate) fn put_slice(to: &mut Vec<u8>, bytes: &[u8]) {
    put_number(to, bytes.len());
    to.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_at_most_32_bits_and_may_not_be_cut_off() {
        for (bytes, found) in [
            (&[0x00][..], Some(0)),
            (&[0xe5, 0x8e, 0x26], Some(624_485)),
            (&[0x80, 0x80, 0x80, 0x80, 0x00], Some(0)),
            (&[0xff, 0xff, 0xff, 0xff, 0x0f], Some(u32::MAX)),
            (&[0xff, 0xff, 0xff, 0xff, 0x1f], None),
            (&[0xff, 0xff, 0xff, 0xff, 0x8f, 0x00], None),
            (&[0x80], None),
            (&[], None),
        ] {
            assert_eq!(number(bytes), found.map(|found| (found, &[][..])), "{bytes:x?}");
        }
        assert_eq!(number(&[0x81, 0x01, 7]), Some((129, &[7][..])));
    }
}
