//! What an effect needs leave for, as grants see it.

use homeostat_store::{Key, Kind, Selector, Target, Write};

use super::{AccessRequest, Disclosure, Verb};
use crate::effect::{Effect, HttpRequest, StoreError, WasiResource};

/// What a controller wants to do, without the contents.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Attempt {
    /// Something to one resource that is named.
    Resource { verb: Verb, key: Key },
    /// Something to the resources of a kind.
    Resources { verb: Verb, kind: Kind, namespace: Option<String>, name: Option<String> },
    /// An HTTP request.
    Http { method: String, url: String },
    /// Settings: one of them, or all. Free for everyone.
    Settings { key: Option<String> },
    /// A clock. Free for everyone.
    Clock,
    /// Randomness. Free for everyone.
    Random,
    /// What no controller has, whatever its grants.
    Absent(WasiResource),
    /// To tell something. Free for everyone.
    Telemetry,
}

impl Attempt {
    /// Returns what `effect` needs leave for.
    ///
    /// # Errors
    /// Those of [`Write::target`]: what a document is about must be known before it can be granted.
    pub(crate) fn of(effect: &Effect) -> Result<Self, StoreError> {
        Ok(match effect {
            Effect::Get { key, .. } => Self::Resource { verb: Verb::Get, key: key.clone() },
            Effect::Follow { target } => Self::Resource { verb: Verb::Watch, key: target.clone() },
            Effect::List { query, .. } => Self::all(Verb::List, &query.kind, &query.selector),
            Effect::FollowAll { kind, selector } => Self::all(Verb::Watch, kind, selector),
            Effect::Write(write) => Self::write(write)?,
            Effect::Http(HttpRequest { method, url, .. }) => Self::Http { method: method.clone(), url: url.clone() },
            Effect::Config { key } => Self::Settings { key: key.clone() },
            Effect::WallClock | Effect::MonotonicClock => Self::Clock,
            Effect::Random { .. } => Self::Random,
            Effect::Reach(absent) => Self::Absent(absent.clone()),
            Effect::Emit { .. } | Effect::Log { .. } => Self::Telemetry,
        })
    }

    /// Returns what `effect` needs one of besides: whoever follows a selection by what stands in documents must be granted to read them.
    pub(crate) fn beside(effect: &Effect) -> Vec<Self> {
        match effect {
            Effect::FollowAll { kind, selector } if Disclosure::of(selector) == Disclosure::Content => {
                [Verb::List, Verb::Get].map(|verb| Self::all(verb, kind, selector)).into()
            }
            _ => Vec::new(),
        }
    }

    fn all(verb: Verb, kind: &Kind, selector: &Selector) -> Self {
        Self::Resources { verb, kind: kind.clone(), namespace: selector.namespace.clone(), name: None }
    }

    fn write(write: &Write) -> Result<Self, StoreError> {
        let verb = match write {
            Write::Create { .. } => Verb::Create,
            Write::Update { .. } => Verb::Update,
            Write::UpdateStatus { .. } | Write::PatchStatus { .. } | Write::ApplyStatus { .. } => Verb::UpdateStatus,
            Write::Patch { .. } => Verb::Patch,
            Write::Apply { .. } => Verb::Apply,
            Write::Delete { .. } => Verb::Delete,
        };
        Ok(match write {
            Write::UpdateStatus { key, .. }
            | Write::PatchStatus { key, .. }
            | Write::Patch { key, .. }
            | Write::Delete { key, .. } => Self::Resource { verb, key: key.clone() },
            Write::Create { .. } | Write::Update { .. } | Write::Apply { .. } | Write::ApplyStatus { .. } => {
                let Target { kind, namespace, name } = write.target()?;
                Self::Resources { verb, kind, namespace: Some(namespace), name }
            }
        })
    }

    /// Returns the request to the resources, where it is one.
    pub(crate) fn request(&self) -> Option<AccessRequest<'_>> {
        match self {
            Self::Resource { verb, key } => {
                let (namespace, name) = (Some(key.namespace()), Some(key.name()));
                Some(AccessRequest { verb: *verb, kind: key.kind(), namespace, name })
            }
            Self::Resources { verb, kind, namespace, name } => {
                Some(AccessRequest { verb: *verb, kind, namespace: namespace.as_deref(), name: name.as_deref() })
            }
            Self::Http { .. } | Self::Settings { .. } | Self::Clock | Self::Random => None,
            Self::Absent(_) | Self::Telemetry => None,
        }
    }

    /// Returns what it would be a denial of; `None` for what is free for everyone.
    pub(crate) fn capability(&self) -> Option<Capability> {
        match self {
            Self::Resource { verb, .. } | Self::Resources { verb, .. } => Some(Capability::Resources(*verb)),
            Self::Http { .. } => Some(Capability::Http),
            Self::Absent(WasiResource::File(_)) => Some(Capability::Files),
            Self::Absent(WasiResource::Address(_) | WasiResource::Name(_)) => Some(Capability::Sockets),
            Self::Settings { .. } | Self::Clock | Self::Random | Self::Telemetry => None,
        }
    }
}

/// What can be denied, as metrics tell it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Capability {
    /// To do this to resources.
    Resources(Verb),
    /// To send HTTP requests.
    Http,
    /// To open files, which nobody is granted.
    Files,
    /// To use sockets, which nobody is granted.
    Sockets,
}

impl Capability {
    /// Every capability that can be denied.
    pub const ALL: [Self; 12] = [
        Self::Resources(Verb::Get),
        Self::Resources(Verb::List),
        Self::Resources(Verb::Watch),
        Self::Resources(Verb::Create),
        Self::Resources(Verb::Update),
        Self::Resources(Verb::UpdateStatus),
        Self::Resources(Verb::Patch),
        Self::Resources(Verb::Apply),
        Self::Resources(Verb::Delete),
        Self::Http,
        Self::Files,
        Self::Sockets,
    ];

    /// Returns the name as users see it: the verb, `http`, `files` or `sockets`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Resources(verb) => verb.as_str(),
            Self::Http => "http",
            Self::Files => "files",
            Self::Sockets => "sockets",
        }
    }
}
