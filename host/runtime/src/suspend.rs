//! Whether a controller is suspended: in manifests `true`, `false` or `exceptDeletes`.

use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The value that is a word.
const EXCEPT_DELETES: &str = "exceptDeletes";

/// The suspension of a controller. A suspended controller keeps its keys.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Suspend {
    /// `false`: all keys run.
    #[default]
    No,
    /// `true`: no key runs.
    Yes,
    /// `exceptDeletes`: only keys of resources that are being deleted or gone run.
    ExceptDeletes,
}

impl Suspend {
    /// Returns the stricter of two suspensions.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Yes, _) | (_, Self::Yes) => Self::Yes,
            (Self::ExceptDeletes, _) | (_, Self::ExceptDeletes) => Self::ExceptDeletes,
            (Self::No, Self::No) => Self::No,
        }
    }
}

impl Serialize for Suspend {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::No => serializer.serialize_bool(false),
            Self::Yes => serializer.serialize_bool(true),
            Self::ExceptDeletes => serializer.serialize_str(EXCEPT_DELETES),
        }
    }
}

impl<'de> Deserialize<'de> for Suspend {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SuspendVisitor;

        impl Visitor<'_> for SuspendVisitor {
            type Value = Suspend;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "true, false or {EXCEPT_DELETES}")
            }

            fn visit_bool<E: Error>(self, yes: bool) -> Result<Self::Value, E> {
                Ok(if yes { Suspend::Yes } else { Suspend::No })
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<Self::Value, E> {
                match word {
                    EXCEPT_DELETES => Ok(Suspend::ExceptDeletes),
                    other => Err(E::invalid_value(Unexpected::Str(other), &self)),
                }
            }
        }

        deserializer.deserialize_any(SuspendVisitor)
    }
}
