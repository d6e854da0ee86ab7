//! The reasons why a component was refused, with messages for people.

use std::fmt;

use homeostat_digest::Digest;
use serde::Serialize;
use wasmparser::{Validator, WasmFeatures};

use crate::grants::Verb;
use crate::limits::LimitName;

/// The refusal of a component, with all reasons found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadError {
    /// At least one.
    pub reasons: Vec<Reason>,
}

/// One reason to refuse a component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Reason {
    /// The file is empty.
    Empty,
    /// The bytes are not WebAssembly.
    NotWasm,
    /// It is a core module, not a component.
    CoreModule,
    /// It is truncated.
    Truncated,
    /// It is too large.
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The size allowed.
        bytes_max: u64,
    },
    /// It is not the requested component.
    OtherDigest {
        /// The requested digest.
        wanted: Digest,
        /// The actual digest.
        found: Digest,
    },
    /// It is valid, but needs a feature that this host does not offer.
    Unsupported {
        /// In the compiler's words.
        needs: String,
    },
    /// It is malformed.
    Malformed {
        /// In the compiler's words.
        reason: String,
    },
    /// Its compilation hit a limit, or its initial size exceeds one.
    Limit {
        /// Which limit it hit.
        limit: LimitName,
        /// The allowed amount.
        message: String,
    },
    /// The compiler process failed. This says nothing about the component: a retry may succeed.
    Compiler {
        /// How the process ended.
        reason: String,
    },
    /// It lacks the export that every controller must have.
    MissingExport {
        /// The interface.
        name: String,
    },
    /// It exports a contract interface in a version that this host does not support.
    ExportVersion {
        /// The exported version.
        found: String,
        /// The supported version.
        known: String,
    },
    /// An export has a type other than the contract's.
    ExportType {
        /// The interface.
        name: String,
        /// The difference.
        reason: String,
    },
    /// It imports an interface that this host does not offer.
    UnknownImport {
        /// The interface or function.
        name: String,
        /// The reason, and a remedy.
        reason: String,
    },
    /// It declares a watch that its manifest does not grant.
    WatchWithoutGrant {
        /// The watch; `None` for that of the managed kind.
        watch: Option<String>,
        /// The watched kind, in the form of grants.
        kind: String,
        /// The missing verbs.
        verbs: Vec<Verb>,
        /// The lines of the manifest that would grant it.
        grant: String,
    },
    /// An import has a type other than the host's.
    Link {
        /// The difference.
        reason: String,
    },
    /// `describe` failed.
    Describe {
        /// The failure.
        reason: String,
    },
    /// A value from `describe` is out of range.
    Description {
        /// The field.
        path: String,
        /// The problem.
        reason: String,
    },
}

impl Reason {
    /// Distinguishes a component that uses disabled features from a malformed one.
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
            Self::NotWasm => f.write_str("this is not WebAssembly: it does not begin with \\0asm"),
            Self::CoreModule => f.write_str(
                "this is a core module, not a component: `homeostat build` makes a component, and so does \
                 `wasm-tools component new` from a module of the Rust SDK",
            ),
            Self::Truncated => f.write_str("the component is cut off: its end is missing; build or fetch it again"),
            Self::TooLarge { bytes, bytes_max } => {
                write!(f, "the component has {bytes} bytes, {bytes_max} are allowed; build it optimised and stripped")
            }
            Self::OtherDigest { wanted, found } => write!(f, "the code has the digest {found}, expected {wanted}"),
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
            Self::Compiler { reason } => write!(f, "the compiler failed: {reason}; try again"),
            Self::MissingExport { name } => {
                write!(
                    f,
                    "it does not export {name}, which every controller must; is it built for the world `controller`?"
                )
            }
            Self::ExportVersion { found, known } => {
                write!(
                    f,
                    "it exports {found}, and this host supports {known}: build it against that version of the contract"
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
                    f.write_str(", whose changes its manifest does not let it watch")?;
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
