//! The wire format of protobuf: varints, lengths and tags.

use super::{Error, malformed};

/// One field of an encoded message.
pub(super) struct WireField<'b> {
    pub(super) number: u32,
    pub(super) value: WireValue<'b>,
}

/// The value of a field.
#[derive(Clone, Copy)]
pub(super) enum WireValue<'b> {
    Varint(u64),
    /// A double.
    Fixed64(u64),
    Fixed32,
    /// A text, bytes, a message or packed numbers.
    Bytes(&'b [u8]),
}

impl<'b> WireValue<'b> {
    pub(super) fn bytes(self) -> Result<&'b [u8], Error> {
        if let Self::Bytes(bytes) = self {
            Ok(bytes)
        } else {
            Err(malformed("a number is where a text or message belongs"))
        }
    }

    pub(super) fn varint(self) -> Result<u64, Error> {
        if let Self::Varint(number) = self { Ok(number) } else { Err(malformed("a text is where a number belongs")) }
    }

    pub(super) fn text(self) -> Result<&'b str, Error> {
        std::str::from_utf8(self.bytes()?).map_err(|_| malformed("a text is not UTF-8"))
    }
}

/// The fields of an encoded message, in their order.
pub(super) struct WireReader<'b>(pub(super) &'b [u8]);

impl<'b> WireReader<'b> {
    /// Returns the next field; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<WireField<'b>>, Error> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| malformed("a field has a number above 2^29"))?;
        let value = match tag & 7 {
            0 => WireValue::Varint(self.varint()?),
            1 => WireValue::Fixed64(u64::from_le_bytes(self.take(8)?.try_into().expect("it has eight bytes"))),
            2 => {
                let length = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
                WireValue::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                WireValue::Fixed32
            }
            other => return Err(malformed(format!("there is a field of the wire type {other}"))),
        };
        Ok(Some(WireField { number, value }))
    }

    /// Reads a varint of at most 64 bits: seven bits in each byte, the low ones first.
    pub(super) fn varint(&mut self) -> Result<u64, Error> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(malformed("there is a number of more than 64 bits"))
    }

    fn take(&mut self, length: usize) -> Result<&'b [u8], Error> {
        let (taken, rest) =
            self.0.split_at_checked(length).ok_or_else(|| malformed("it ends in the middle of a field"))?;
        self.0 = rest;
        Ok(taken)
    }
}

/// Appends a varint.
pub(super) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// Appends a field with a number as its value.
pub(super) fn put_number(out: &mut Vec<u8>, field: u32, number: u64) {
    put_varint(out, u64::from(field) << 3);
    put_varint(out, number);
}

/// Appends a field with a double as its value.
pub(super) fn put_double(out: &mut Vec<u8>, field: u32, number: f64) {
    put_varint(out, u64::from(field) << 3 | 1);
    out.extend(number.to_bits().to_le_bytes());
}

/// Appends what stands before so many bytes that are the value of a field.
pub(super) fn put_length(out: &mut Vec<u8>, field: u32, bytes: usize) {
    put_varint(out, u64::from(field) << 3 | 2);
    put_varint(out, bytes as u64);
}

/// Appends a field with bytes as its value.
pub(super) fn put_bytes(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    put_length(out, field, bytes.len());
    out.extend(bytes);
}
