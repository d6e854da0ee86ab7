//! Why a component was refused, in words for a person.

use std::fmt;

use homeostat_digest::Digest;
use serde::Serialize;
use wasmparser::{Validator, WasmFeatures};

use crate::grants::Verb;
use crate::limits::LimitName;

/// A component that was not loaded, with every reason that could be found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadError {
    /// At least one.
    pub reasons: Vec<Reason>,
}

/// One thing that is wrong with a component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Reason {
    /// There are no bytes.
    Empty,
    /// The bytes are no WebAssembly at all.
    NotWasm,
    /// A core module, where a component is wanted.
    CoreModule,
    /// The end is missing.
    Truncated,
    /// It is too large.
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The size allowed.
        bytes_max: u64,
    },
    /// It is not the component that was named.
    OtherDigest {
        /// What was named.
        wanted: Digest,
        /// What came.
        found: Digest,
    },
    /// It is well-formed, and needs what this host does not offer.
    Unsupported {
        /// In the compiler's words.
        needs: String,
    },
    /// It is damaged.
    Malformed {
        /// In the compiler's words.
        reason: String,
    },
    /// Its compilation took more than it may, or it takes more from its first moment.
    Limit {
        /// Which limit it hit.
        limit: LimitName,
        /// What was allowed.
        message: String,
    },
    /// The process that compiled it came to no answer. Nothing is known of the component: the next try may do.
    Compiler {
        /// What became of it.
        reason: String,
    },
    /// It does not export what every controller exports.
    MissingExport {
        /// The interface.
        name: String,
    },
    /// It exports an interface of this contract in a version that this host does not know.
    ExportVersion {
        /// What it exports.
        found: String,
        /// What this host knows.
        known: String,
    },
    /// An export has another type than the contract says.
    ExportType {
        /// The interface.
        name: String,
        /// The difference.
        reason: String,
    },
    /// It imports what this host does not offer.
    UnknownImport {
        /// The interface or function.
        name: String,
        /// Why not, and what to do.
        reason: String,
    },
    /// It says that it must be told of changes which its manifest does not let it be told of.
    WatchWithoutGrant {
        /// The watch; `None`: that of the kind that it manages.
        watch: Option<String>,
        /// The kind that is watched, as grants name it.
        kind: String,
        /// The verbs that are missing.
        verbs: Vec<Verb>,
        /// The lines of the manifest that would grant it.
        grant: String,
    },
    /// An import has another type than the host offers.
    Link {
        /// The difference.
        reason: String,
    },
    /// `describe` came to no answer.
    Describe {
        /// Why.
        reason: String,
    },
    /// What `describe` answered is out of range.
    Description {
        /// The field.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl Reason {
    /// Tells a component that the compiler does not take, for it uses what is off, from one that is damaged.
    pub(crate) fn explain(bytes: &[u8], reason: String) -> Self {
        if Validator::new_with_features(WasmFeatures::all()).validate_all(bytes).is_ok() {
            return Self::unsupported(&reason);
        }
        Self::Malformed { reason }
    }

    pub(crate) fn unsupported(needs: &str) -> Self {
        Self::Unsupported { needs: needs.to_owned() }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the file is empty"),
            Self::NotWasm => f.write_str("this is no WebAssembly: it does not begin with \\0asm"),
            Self::CoreModule => f.write_str(
                "this is a core module, not a component: build for the target wasm32-wasip2, or wrap it with \
                 `wasm-tools component new`",
            ),
            Self::Truncated => f.write_str("the component is cut off: its end is missing; build or fetch it again"),
            Self::TooLarge { bytes, bytes_max } => {
                write!(f, "the component has {bytes} bytes, {bytes_max} are allowed; build it optimised and stripped")
            }
            Self::OtherDigest { wanted, found } => write!(f, "the code has the digest {found}, wanted is {wanted}"),
            Self::Malformed { reason } => write!(f, "the component is malformed: {reason}"),
            Self::Unsupported { needs } if needs.contains("async") => write!(
                f,
                "the component is built for asynchronous functions ({needs}), which this host does not run: build it with \
                 synchronous functions and WASI 0.2"
            ),
            Self::Unsupported { needs } => {
                write!(f, "the component needs what this host does not offer: {needs}; build it without")
            }
            Self::Limit { limit, message } => write!(f, "limit {limit}: {message}"),
            Self::Compiler { reason } => write!(f, "the compiler came to no answer: {reason}; try again"),
            Self::MissingExport { name } => {
                write!(
                    f,
                    "it does not export {name}, which every controller must; is it built for the world `controller`?"
                )
            }
            Self::ExportVersion { found, known } => {
                write!(
                    f,
                    "it exports {found}, and this host knows {known}: build it against that version of the contract"
                )
            }
            Self::ExportType { name, reason } => write!(f, "its export {name} is not what the contract says: {reason}"),
            Self::UnknownImport { name, reason } => write!(f, "it imports {name}, which is not offered: {reason}"),
            Self::WatchWithoutGrant { watch, kind, verbs, grant } => {
                match watch {
                    Some(watch) => write!(f, "its watch {watch:?} is of {kind:?}")?,
                    None => write!(f, "it manages {kind:?}")?,
                }
                if verbs.contains(&Verb::Watch) {
                    f.write_str(", of whose changes it may not be told")?;
                }
                if verbs.iter().any(|verb| *verb != Verb::Watch) {
                    f.write_str(", and its mapping reads documents, which needs `get` or `list` beside `watch`")?;
                }
                write!(f, "; these lines would grant it:\n{grant}")
            }
            Self::Link { reason } => write!(f, "an import is not what the host offers: {reason}"),
            Self::Describe { reason } => write!(f, "describe failed: {reason}"),
            Self::Description { path, reason } => write!(f, "describe answered {path}: {reason}"),
        }
    }
}

impl fmt::Display for LoadError {
    /// Writes one reason in one line, several as a list.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [reason] = self.reasons.as_slice() {
            return write!(f, "component refused: {reason}");
        }
        write!(f, "component refused for {} reasons:", self.reasons.len())?;
        for reason in &self.reasons {
            let text = reason.to_string().replace('\n', "\n    ");
            write!(f, "\n  - {text}")?;
        }
        Ok(())
    }
}

impl std::error::Error for LoadError {}

impl From<Reason> for LoadError {
    fn from(reason: Reason) -> Self {
        Self { reasons: vec![reason] }
    }
}
