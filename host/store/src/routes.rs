//! Which store has the resources of a kind: an ordered list of rules, of which the first match counts.
//!
//! The host's own store, [`HOME`], has every kind that no rule matches. It always has the kinds by which a host is
//! configured, and the host's events, whatever a rule with a `*` says. A `*` does not move the namespaces either:
//! only a rule that names them does.
//!
//! Deliberately absent: the stores themselves ([`RoutedStore`](crate::RoutedStore)), and the file in which people
//! write the rules.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::{Error, Kind, View};

/// The name of the host's own store.
pub const HOME: &str = "home";

/// Rules at most. Each call to a store compares its kind with every rule.
pub const RULES_MAX: usize = 256;

/// The kinds that are always in the host's own store: group, and name unless it is the whole group.
const RESERVED: [(&str, Option<&str>); 3] =
    [("homeostat.dev", None), ("apiextensions.k8s.io", Some("CustomResourceDefinition")), ("", Some("Event"))];

/// A pattern of kinds: `GROUP/KIND`, `GROUP/*` or `*/*`. The core group is written `v1`. Versions do not count.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KindPattern {
    /// `None` for every group. Then the kind is `None`, too.
    group: Option<String>,
    /// `None` for every kind of the group.
    kind: Option<String>,
}

impl KindPattern {
    /// Returns the pattern of one kind.
    pub fn of(kind: &Kind) -> Self {
        Self { group: Some(kind.group.clone()), kind: Some(kind.name.clone()) }
    }

    /// Returns whether the pattern matches the kind.
    pub fn matches(&self, kind: &Kind) -> bool {
        self.group.as_ref().is_none_or(|group| *group == kind.group)
            && self.kind.as_ref().map_or(!is_namespace(&kind.group, &kind.name), |name| *name == kind.name)
    }

    /// Returns whether this pattern matches every kind that `other` matches.
    pub fn covers(&self, other: &Self) -> bool {
        let covers = |ours: &Option<String>, theirs: &Option<String>| ours.is_none() || ours == theirs;
        covers(&self.group, &other.group)
            && covers(&self.kind, &other.kind)
            && (self.kind.is_some() || !other.names_namespaces())
    }

    /// Returns whether this is the pattern of namespaces alone.
    pub fn names_namespaces(&self) -> bool {
        matches!((&self.group, &self.kind), (Some(group), Some(kind)) if is_namespace(group, kind))
    }

    /// Returns whether the pattern matches nothing but kinds that are always in the host's own store.
    fn is_reserved(&self) -> bool {
        let reserved = |(group, kind): &(&str, Option<&str>)| Self {
            group: Some((*group).to_owned()),
            kind: kind.map(ToOwned::to_owned),
        };
        RESERVED.iter().any(|one| reserved(one).covers(self))
    }
}

impl FromStr for KindPattern {
    type Err = Error;

    /// Parses a pattern.
    ///
    /// # Errors
    /// `Invalid` with what is expected.
    fn from_str(text: &str) -> Result<Self, Error> {
        let parts: Vec<&str> = text.split('/').collect();
        let (group, kind) = match parts[..] {
            ["*", "*"] => return Ok(Self { group: None, kind: None }),
            ["*", _] => return Err(wrong(text, "names a kind without its group")),
            [group, kind] => (group, kind),
            [_, _, _] => return Err(wrong(text, "has a version, which rules ignore")),
            _ => return Err(wrong(text, "has no group")),
        };
        let (api_version, name) = if group == "v1" { ("v1".to_owned(), "") } else { (format!("{group}/v1"), group) };
        let checked = if kind == "*" { "Any" } else { kind };
        Kind::parse(&api_version, checked).map_err(|error| wrong(text, &error.to_string()))?;
        Ok(Self { group: Some(name.to_owned()), kind: (kind != "*").then(|| kind.to_owned()) })
    }
}

fn wrong(text: &str, reason: &str) -> Error {
    Error::invalid(
        "kinds",
        format!("{text:?} {reason}; expected GROUP/KIND, GROUP/* or */*, with v1 as the core group"),
    )
}

impl fmt::Display for KindPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = match self.group.as_deref() {
            Some("") => "v1",
            Some(group) => group,
            None => "*",
        };
        write!(f, "{group}/{}", self.kind.as_deref().unwrap_or("*"))
    }
}

/// One rule: where the kinds of a pattern live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The kinds.
    pub pattern: KindPattern,
    /// The name of the store that has their resources.
    pub store: Arc<str>,
    /// How much of their resources a store that is far away caches, at most.
    pub view: View,
}

/// Why a list of rules is refused. Rules are named by their position in the list, from 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The rule can never match.
    #[error("{pattern} can never match: an earlier rule sends {covers} to store {store}")]
    Unreachable {
        /// The rule.
        rule: usize,
        /// The earlier rule, which matches all of its kinds.
        earlier: usize,
        /// The pattern of the rule.
        pattern: KindPattern,
        /// The pattern of the earlier rule.
        covers: Box<KindPattern>,
        /// The store of the earlier rule.
        store: Arc<str>,
    },
    /// The kinds of the rule are always in the host's own store.
    #[error("{pattern} is always in the host's own store, `{HOME}`")]
    Reserved {
        /// The rule.
        rule: usize,
        /// The pattern of the rule.
        pattern: KindPattern,
    },
    /// There are more than [`RULES_MAX`] rules.
    #[error("there are more than {RULES_MAX} rules")]
    TooMany,
}

impl RouteError {
    /// Returns the refused rule, by its position in the list.
    pub fn rule(&self) -> usize {
        match self {
            Self::Unreachable { rule, .. } | Self::Reserved { rule, .. } => *rule,
            Self::TooMany => RULES_MAX,
        }
    }
}

/// Where a kind lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The name of the store.
    pub store: Arc<str>,
    /// How much of the resources a store that is far away caches, at most.
    pub view: View,
}

/// The rules in their order. Every one of them can match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Routes {
    rules: Vec<Rule>,
}

impl Routes {
    /// Checks the rules.
    ///
    /// # Errors
    /// [`RouteError`] for the first rule that can never match, as another rule before it matches all of its kinds,
    /// or as the kinds are always in the host's own store. A rule that two earlier rules cover only together
    /// does not exist: `*` is a whole group, or all groups.
    pub fn new(rules: Vec<Rule>) -> Result<Self, RouteError> {
        if rules.len() > RULES_MAX {
            return Err(RouteError::TooMany);
        }
        for (at, rule) in rules.iter().enumerate() {
            if rule.pattern.is_reserved() && *rule.store != *HOME {
                return Err(RouteError::Reserved { rule: at, pattern: rule.pattern.clone() });
            }
            if let Some(earlier) = rules[..at].iter().position(|earlier| earlier.pattern.covers(&rule.pattern)) {
                let Rule { pattern: covers, store, view: _ } = rules[earlier].clone();
                return Err(RouteError::Unreachable {
                    rule: at,
                    earlier,
                    pattern: rule.pattern.clone(),
                    covers: Box::new(covers),
                    store,
                });
            }
        }
        Ok(Self { rules })
    }

    /// Returns where a kind lives.
    pub fn of(&self, kind: &Kind) -> Route {
        match self.rule(kind) {
            Some(Rule { store, view, .. }) => Route { store: Arc::clone(store), view: *view },
            None => Route { store: HOME.into(), view: View::Whole },
        }
    }

    /// Returns the rules.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns the rule that counts for a kind; `None` for a kind that the host's own store has without a rule.
    fn rule(&self, kind: &Kind) -> Option<&Rule> {
        self.position(kind).map(|at| &self.rules[at])
    }

    /// Returns the position of the rule that counts for a kind.
    pub(crate) fn position(&self, kind: &Kind) -> Option<usize> {
        let at = self.rules.iter().position(|rule| rule.pattern.matches(kind))?;
        // Looked up second: most calls are about kinds that no rule matches.
        (!is_reserved(kind)).then_some(at)
    }
}

fn is_namespace(group: &str, kind: &str) -> bool {
    group.is_empty() && kind == "Namespace"
}

/// Returns whether a kind, in any version, is always in the host's own store.
pub fn is_reserved(kind: &Kind) -> bool {
    RESERVED.iter().any(|(group, name)| *group == kind.group && name.is_none_or(|name| name == kind.name))
}

#[cfg(test)]
mod tests;
