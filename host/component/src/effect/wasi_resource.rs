//! Operating-system resources that no controller has.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::cut;

/// Bytes of a path, an address or a name. Cut above.
const TEXT_BYTES_MAX: usize = 256;

/// A file, address or host name that a guest tries to use through WASI. No controller has any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WasiResource {
    /// A file or a folder, by its path.
    File(String),
    /// A network address, as `tcp 10.0.0.1:80`.
    Address(String),
    /// A host name to be looked up.
    Name(String),
}

impl WasiResource {
    /// Returns the same with its text cut at 256 bytes.
    pub(crate) fn cut(self) -> Self {
        let short = |text| cut(text, TEXT_BYTES_MAX);
        match self {
            Self::File(path) => Self::File(short(path)),
            Self::Address(address) => Self::Address(short(address)),
            Self::Name(name) => Self::Name(short(name)),
        }
    }

    /// Returns a message: the resource does not exist, the alternative to use, and the build options that
    /// avoid importing the package.
    pub(crate) fn denial(&self) -> String {
        let (package, instead) = match self {
            Self::File(_) => {
                ("wasi:filesystem", "a controller has no files; it reads settings through wasi:config/store")
            }
            Self::Address(_) | Self::Name(_) => {
                ("wasi:sockets", "a controller has no sockets; it sends requests through wasi:http/outgoing-handler")
            }
        };
        format!(
            "no {self}: {instead}. The guest got an error and continued. To build a component without {package}: \
             componentize-py --stub-wasi (also without print, clocks and randomness), componentize-js --disable FEATURE"
        )
    }
}

impl fmt::Display for WasiResource {
    /// Writes the guest's text in quotes, with control characters escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file {path:?}"),
            Self::Address(address) => write!(f, "address {address:?}"),
            Self::Name(name) => write!(f, "host name {name:?}"),
        }
    }
}
