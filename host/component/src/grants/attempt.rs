//! The access that an effect needs a grant for.

use homeostat_store::{Key, Kind, Selector, Target, Write};

use super::{AccessRequest, Disclosure, Verb};
use crate::effect::{Effect, HttpRequest, StoreError, WasiResource};

/// An attempted access of a controller, without its contents.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Attempt {
    /// Access to one named resource.
    Resource { verb: Verb, key: Key },
    /// Access to resources of a kind.
    Resources { verb: Verb, kind: Kind, namespace: Option<String>, name: Option<String> },
    /// An HTTP request.
    Http { method: String, url: String },
    /// Reading one setting, or all. Needs no grant.
    Settings { key: Option<String> },
    /// Reading a clock. Needs no grant.
    Clock,
    /// Drawing randomness. Needs no grant.
    Random,
    /// A file, address or host name, which no grant covers.
    Absent(WasiResource),
    /// Emitting an event or a log line. Needs no grant.
    Telemetry,
}

impl Attempt {
    /// Returns the access that `effect` needs.
    ///
    /// # Errors
    /// Those of [`Write::target`]: grants can only be checked when the document names its resource.
    pub(crate) fn of(effect: &Effect) -> Result<Self, StoreError> {
        Ok(match effect {
            Effect::Get { key, .. } => Self::Resource { verb: Verb::Get, key: key.clone() },
            Effect::Follow { target } => Self::Resource { verb: Verb::Watch, key: target.clone() },
            Effect::Enqueue { key, .. } => Self::Resource { verb: Verb::Enqueue, key: key.clone() },
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

    /// Returns alternative accesses of which `effect` also needs one: following a selection by document
    /// content needs a grant to read documents.
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

    /// Returns the access to resources, if it is one.
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

    /// Returns the capability whose denial this would be; `None` if it needs no grant.
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

/// A capability that can be denied, as metrics distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Capability {
    /// A verb on resources.
    Resources(Verb),
    /// HTTP requests.
    Http,
    /// Opening files, which is never granted.
    Files,
    /// Using sockets, which is never granted.
    Sockets,
}

impl Capability {
    /// Every capability that can be denied.
    pub const ALL: [Self; 13] = [
        Self::Resources(Verb::Get),
        Self::Resources(Verb::List),
        Self::Resources(Verb::Watch),
        Self::Resources(Verb::Create),
        Self::Resources(Verb::Update),
        Self::Resources(Verb::UpdateStatus),
        Self::Resources(Verb::Patch),
        Self::Resources(Verb::Apply),
        Self::Resources(Verb::Delete),
        Self::Resources(Verb::Enqueue),
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
