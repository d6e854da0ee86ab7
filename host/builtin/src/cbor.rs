//! CBOR, as Kubernetes' clients in Go speak it: JSON to CBOR and back.
//!
//! A text is written as bytes, as Go does: so a client can read it into a text, and into bytes, which are in base64 then.
//! Bytes with the tag of base64 are such a text. Pure.
//!
//! Source: `k8s.io/apimachinery/pkg/runtime/serializer/cbor`; RFC 8949.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ciborium_ll::{Decoder, Encoder, Header, simple};
use serde_json::{Map, Number, Value};

/// The content type of one document.
pub const CONTENT_TYPE: &str = "application/cbor";

/// The content type of a watch: one event after the other.
pub const SEQUENCE_CONTENT_TYPE: &str = "application/cbor-seq";

/// The content type of an apply.
pub const APPLY_CONTENT_TYPE: &str = "application/apply-patch+cbor";

/// The end of a list without a length.
pub const LIST_END: u8 = 0xFF;

/// Levels of a document at most.
const DEPTH_MAX: usize = 128;
/// Values of a document at most. A document in JSON of the same length as the longest body has as many.
const VALUES_MAX: usize = 3 << 19;

/// The tag by which CBOR is recognised: it changes nothing in the value. Source: RFC 8949, 3.4.6.
const SELF_DESCRIBED: u64 = 55799;
/// The tags of bytes that are a text in base64url, base64 and base16.
const ENCODED: std::ops::RangeInclusive<u64> = 21..=23;
/// The tag of a time as text.
const TIME: u64 = 0;
/// The tags that JSON has no value for: a time as a number, and large numbers.
const REFUSED: std::ops::RangeInclusive<u64> = 1..=5;

/// Encodes a document, with the tag by which CBOR is recognised.
///
/// # Panics
/// Never: memory takes the bytes.
pub fn encode(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    begin(&mut out);
    append(document, &mut out);
    out
}

/// Appends the tag by which CBOR is recognised.
fn begin(out: &mut Vec<u8>) {
    push(out, Header::Tag(SELF_DESCRIBED));
}

/// Returns the beginning of a document whose last field is a list: its other fields, and the name of the list. Items
/// follow, as [`append`] writes them, and [`LIST_END`].
pub fn list_head(facts: &Map<String, Value>, name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    begin(&mut out);
    push(&mut out, Header::Map(Some(facts.len() + 1)));
    for (name, value) in facts {
        append_text(name, &mut out);
        append(value, &mut out);
    }
    append_text(name, &mut out);
    push(&mut out, Header::Array(None));
    out
}

/// Appends a value, without a tag.
pub fn append(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => push(out, Header::Simple(simple::NULL)),
        Value::Bool(false) => push(out, Header::Simple(simple::FALSE)),
        Value::Bool(true) => push(out, Header::Simple(simple::TRUE)),
        Value::Number(number) => push(out, number_header(number)),
        Value::String(text) => append_text(text, out),
        Value::Array(items) => {
            push(out, Header::Array(Some(items.len())));
            items.iter().for_each(|item| append(item, out));
        }
        Value::Object(fields) => {
            push(out, Header::Map(Some(fields.len())));
            for (name, value) in fields {
                append_text(name, out);
                append(value, out);
            }
        }
    }
}

fn number_header(number: &Number) -> Header {
    match (number.as_u64(), number.as_i64()) {
        (Some(number), _) => Header::Positive(number),
        // The bits of a negative number are inverted.
        (None, Some(number)) => Header::Negative(!number.cast_unsigned()),
        (None, None) => Header::Float(number.as_f64().unwrap_or_default()),
    }
}

fn append_text(text: &str, out: &mut Vec<u8>) {
    push(out, Header::Bytes(Some(text.len())));
    out.extend_from_slice(text.as_bytes());
}

fn push(out: &mut Vec<u8>, header: Header) {
    Encoder::from(out).push(header).expect("memory takes the bytes");
}

/// Decodes a document.
///
/// # Errors
/// What is wrong, for a person: malformed bytes, a value without a form in JSON, a field that occurs twice, and more
/// than 128 levels or 1.5 Mi values.
pub fn decode(body: &[u8]) -> Result<Value, String> {
    let mut reader = Reader { decoder: Decoder::from(body), values_left: VALUES_MAX };
    let header = reader.pull()?;
    let document = reader.value(header, DEPTH_MAX)?;
    if reader.decoder.offset() == body.len() {
        Ok(document)
    } else {
        Err("there is more after the document".to_owned())
    }
}

struct Reader<'b> {
    decoder: Decoder<&'b [u8]>,
    values_left: usize,
}

impl Reader<'_> {
    fn pull(&mut self) -> Result<Header, String> {
        let offset = self.decoder.offset();
        self.decoder.pull().map_err(|_| format!("it is malformed at byte {offset}"))
    }

    /// Reads the value that begins with a header.
    fn value(&mut self, header: Header, depth_left: usize) -> Result<Value, String> {
        self.values_left = self.values_left.checked_sub(1).ok_or("it has too many values")?;
        let depth_left = depth_left.checked_sub(1).ok_or("it has too many levels")?;
        Ok(match header {
            Header::Positive(number) => number.into(),
            Header::Negative(bits) => {
                let number = i64::try_from(!i128::from(bits)).map_err(|_| "a number is below the smallest one")?;
                number.into()
            }
            Header::Float(number) => Number::from_f64(number).ok_or("a number is not finite")?.into(),
            Header::Simple(simple::FALSE) => false.into(),
            Header::Simple(simple::TRUE) => true.into(),
            Header::Simple(simple::NULL) => Value::Null,
            Header::Bytes(_) | Header::Text(_) => self.text(header)?.into(),
            Header::Array(length) => self.items(length, depth_left)?.into(),
            Header::Map(length) => self.fields(length, depth_left)?.into(),
            Header::Tag(tag) => self.tagged(tag, depth_left)?,
            Header::Simple(other) => return Err(format!("the simple value {other} has no form in JSON")),
            Header::Break => return Err("something ends that did not begin".to_owned()),
        })
    }

    fn items(&mut self, length: Option<usize>, depth_left: usize) -> Result<Vec<Value>, String> {
        let mut items = Vec::new();
        while length.is_none_or(|length| items.len() < length) {
            match self.pull()? {
                Header::Break if length.is_none() => break,
                header => items.push(self.value(header, depth_left)?),
            }
        }
        Ok(items)
    }

    fn fields(&mut self, length: Option<usize>, depth_left: usize) -> Result<Map<String, Value>, String> {
        let mut fields = Map::new();
        while length.is_none_or(|length| fields.len() < length) {
            let name = match self.pull()? {
                Header::Break if length.is_none() => break,
                header => self.text(header)?,
            };
            let header = self.pull()?;
            let value = self.value(header, depth_left)?;
            if fields.contains_key(&name) {
                return Err(format!("the field {name:?} occurs twice"));
            }
            fields.insert(name, value);
        }
        Ok(fields)
    }

    fn tagged(&mut self, tag: u64, depth_left: usize) -> Result<Value, String> {
        let header = self.pull()?;
        if REFUSED.contains(&tag) {
            return Err(format!("a value with the tag {tag} has no form in JSON"));
        }
        if ENCODED.contains(&tag) && matches!(header, Header::Bytes(_)) {
            let bytes = self.bytes(header)?;
            return Ok(Value::from(match tag {
                21 => URL_SAFE_NO_PAD.encode(bytes),
                22 => STANDARD.encode(bytes),
                _ => bytes.iter().map(|byte| format!("{byte:02X}")).collect(),
            }));
        }
        if tag == TIME && !matches!(header, Header::Text(_) | Header::Bytes(_)) {
            return Err("a time is no text".to_owned());
        }
        self.value(header, depth_left)
    }

    /// Reads a text. Go writes texts as bytes.
    fn text(&mut self, header: Header) -> Result<String, String> {
        String::from_utf8(self.bytes(header)?).map_err(|_| "a text is not UTF-8".to_owned())
    }

    /// Reads the bytes of a text or of bytes. They never take more memory than the body.
    fn bytes(&mut self, header: Header) -> Result<Vec<u8>, String> {
        let malformed = |offset: usize| format!("a text is malformed at byte {offset}");
        let (offset, mut buffer, mut read) = (self.decoder.offset(), [0; 4096], Vec::new());
        match header {
            Header::Bytes(length) | Header::Text(length @ Some(_)) => {
                let mut segments = self.decoder.bytes(length);
                while let Some(mut segment) = segments.pull().map_err(|_| malformed(offset))? {
                    while let Some(part) = segment.pull(&mut buffer).map_err(|_| malformed(offset))? {
                        read.extend_from_slice(part);
                    }
                }
            }
            Header::Text(None) => {
                let mut segments = self.decoder.text(None);
                while let Some(mut segment) = segments.pull().map_err(|_| malformed(offset))? {
                    while let Some(part) = segment.pull(&mut buffer).map_err(|_| malformed(offset))? {
                        read.extend_from_slice(part.as_bytes());
                    }
                }
            }
            _ => return Err(format!("the name of a field is no text at byte {offset}")),
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
