//! Classes of effects, for accounting and metrics.

use super::Effect;

/// A class of effects, as accounting and metrics distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum EffectClass {
    /// One resource is read.
    Get,
    /// Many resources are read.
    List,
    /// A resource is changed.
    Write,
    /// A dynamic watch is added.
    Follow,
    /// A key is enqueued.
    Enqueue,
    /// An event is emitted.
    Event,
    /// A log line is written.
    Log,
    /// Settings are read.
    Config,
    /// An HTTP request is sent.
    Http,
    /// A clock is read.
    Clock,
    /// Random bytes are drawn.
    Random,
    /// A guest tries to use a file, an address or a host name, which no controller has.
    Reach,
}

impl EffectClass {
    /// Every class, each at its own index: `ALL[class as usize] == class`.
    pub const ALL: [Self; 12] = [
        Self::Get,
        Self::List,
        Self::Write,
        Self::Follow,
        Self::Enqueue,
        Self::Event,
        Self::Log,
        Self::Config,
        Self::Http,
        Self::Clock,
        Self::Random,
        Self::Reach,
    ];

    /// Returns the name as users see it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Write => "write",
            Self::Follow => "follow",
            Self::Enqueue => "enqueue",
            Self::Event => "event",
            Self::Log => "log",
            Self::Config => "config",
            Self::Http => "http",
            Self::Clock => "clock",
            Self::Random => "random",
            Self::Reach => "reach",
        }
    }
}

impl Effect {
    /// Returns the class of this effect.
    pub fn class(&self) -> EffectClass {
        match self {
            Self::Get { .. } => EffectClass::Get,
            Self::List { .. } => EffectClass::List,
            Self::Write(_) => EffectClass::Write,
            Self::Follow { .. } | Self::FollowAll { .. } => EffectClass::Follow,
            Self::Enqueue { .. } => EffectClass::Enqueue,
            Self::Emit { .. } => EffectClass::Event,
            Self::Log { .. } => EffectClass::Log,
            Self::Config { .. } => EffectClass::Config,
            Self::Http(_) => EffectClass::Http,
            Self::WallClock | Self::MonotonicClock => EffectClass::Clock,
            Self::Random { .. } => EffectClass::Random,
            Self::Reach(_) => EffectClass::Reach,
        }
    }
}
