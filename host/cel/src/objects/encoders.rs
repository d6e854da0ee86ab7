//! Base64.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

/// The bits behind the last byte do not matter, as in Go.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// Returns the bytes of a text in base64; `None` if it is none.
pub(crate) fn decoded(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
}
