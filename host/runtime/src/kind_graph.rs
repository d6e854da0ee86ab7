//! Which controllers turn resources of one kind into resources of others. Pure.
//!
//! An edge leads from the managed kind of a controller to a kind that it writes: a watch of `describe` with the role
//! `secondary`, or a line of its grants that names the kind and a verb that writes. Lines with patterns make no edges, and
//! neither do writes to the managed kind itself. A cycle can be right, as where two controllers wait for one another's
//! status; it can also be a loop that never settles.

use std::collections::{BTreeMap, BTreeSet};

use homeostat_component::{Grants, Role, Verb};
use homeostat_store::Kind;
use serde::{Deserialize, Serialize};

use crate::Definition;

/// Most cycles that are told. Each kind is in one at most.
const CYCLES_MAX: usize = 100;

/// The graph of the kinds of all running controllers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KindGraph {
    /// One line for each controller, in the order of their names.
    pub controllers: Vec<ControllerKinds>,
    /// The kinds of each cycle, as groups of kinds from each of which a path leads to each other one.
    pub cycles: Vec<Vec<String>>,
}

/// The kinds of one controller, as `GROUP/KIND`, or `KIND` of the core group.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerKinds {
    /// The name of the controller.
    pub name: String,
    /// The managed kind.
    pub manages: String,
    /// The kinds that it watches beside that.
    pub watches: BTreeSet<String>,
    /// The kinds that it writes beside the managed one.
    pub writes: BTreeSet<String>,
}

impl ControllerKinds {
    /// Returns the kinds of a definition.
    pub(crate) fn of(definition: &Definition) -> Self {
        let spec = definition.component.describe();
        let manages = text_of(&spec.manages.kind);
        let watches = spec.watches.iter().map(|watch| text_of(&watch.of.kind)).collect();
        let secondary = spec.watches.iter().filter(|watch| watch.role == Role::Secondary);
        let mut writes: BTreeSet<String> = secondary.map(|watch| text_of(&watch.of.kind)).collect();
        writes.extend(written_by(&definition.grants));
        writes.remove(&manages);
        Self { name: definition.name.clone(), manages, watches, writes }
    }
}

impl KindGraph {
    /// Builds the graph of some controllers.
    pub(crate) fn new(mut controllers: Vec<ControllerKinds>) -> Self {
        controllers.sort_by(|one, other| one.name.cmp(&other.name));
        let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for ControllerKinds { manages, writes, .. } in &controllers {
            edges.entry(manages).or_default().extend(writes.iter().map(String::as_str));
        }
        let cycles = cycles(&edges);
        Self { cycles, controllers }
    }
}

/// Returns the groups of kinds that reach one another.
fn cycles(edges: &BTreeMap<&str, BTreeSet<&str>>) -> Vec<Vec<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = edges.keys().map(|kind| (*kind, reached_from(edges, kind))).collect();
    let reaches = |from: &str, to: &str| reached.get(from).is_some_and(|kinds| kinds.contains(to));
    let (mut grouped, mut cycles) = (BTreeSet::new(), Vec::new());
    for kind in edges.keys() {
        if !grouped.contains(kind) && reaches(kind, kind) && cycles.len() < CYCLES_MAX {
            let group = edges.keys().filter(|other| reaches(kind, other) && reaches(other, kind));
            let group: Vec<&str> = group.copied().collect();
            grouped.extend(group.iter().copied());
            cycles.push(group.into_iter().map(str::to_owned).collect());
        }
    }
    cycles
}

/// Returns the kinds to which a path of at least one edge leads.
fn reached_from<'a>(edges: &BTreeMap<&'a str, BTreeSet<&'a str>>, start: &str) -> BTreeSet<&'a str> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![start]);
    while let Some(kind) = next.pop() {
        for to in edges.get(kind).into_iter().flatten() {
            if reached.insert(*to) {
                next.push(to);
            }
        }
    }
    reached
}

/// Returns the kinds that grants name together with a verb that writes.
fn written_by(grants: &Grants) -> impl Iterator<Item = String> {
    let writes = |verb: &Verb| {
        matches!(verb, Verb::Create | Verb::Update | Verb::Patch | Verb::Apply | Verb::Delete | Verb::Any)
    };
    let lines = grants.resources.iter().filter(move |grant| grant.verbs.iter().any(writes));
    lines.flat_map(|grant| grant.kinds.iter().filter(|kind| !kind.contains('*')).cloned())
}

fn text_of(kind: &Kind) -> String {
    if kind.group.is_empty() { kind.name.to_string() } else { format!("{}/{}", kind.group, kind.name) }
}

#[cfg(test)]
mod tests {
    use homeostat_component::ResourceGrant;

    use super::*;

    fn controller(name: &str, manages: &str, writes: &[&str]) -> ControllerKinds {
        let writes = writes.iter().map(|kind| (*kind).to_owned()).collect();
        ControllerKinds { name: name.to_owned(), manages: manages.to_owned(), watches: BTreeSet::new(), writes }
    }

    fn cycles_of(controllers: &[(&str, &str, &[&str])]) -> Vec<Vec<String>> {
        KindGraph::new(controllers.iter().map(|(name, kind, writes)| controller(name, kind, writes)).collect()).cycles
    }

    #[test]
    fn a_chain_of_kinds_has_no_cycle() {
        assert!(cycles_of(&[("a", "A", &["B"]), ("b", "B", &["C"]), ("c", "C", &[])]).is_empty());
    }

    #[test]
    fn kinds_that_reach_one_another_are_one_cycle() {
        let graph: &[(&str, &str, &[&str])] =
            &[("a", "A", &["B"]), ("b", "B", &["C", "D"]), ("c", "C", &["A"]), ("d", "D", &["E"]), ("e", "E", &["D"])];
        assert_eq!(cycles_of(graph), [vec!["A", "B", "C"], vec!["D", "E"]]);
    }

    #[test]
    fn two_controllers_of_one_kind_make_edges_together() {
        assert_eq!(cycles_of(&[("a", "A", &["B"]), ("a2", "A", &[]), ("b", "B", &["A"])]), [vec!["A", "B"]]);
    }

    #[test]
    fn grants_tell_what_a_controller_writes_unless_they_have_patterns() {
        let grant = |kind: &str, verb| ResourceGrant {
            kinds: vec![kind.to_owned()],
            verbs: vec![verb],
            namespaces: Vec::new(),
            names: Vec::new(),
        };
        let resources = vec![
            grant("apps/Deployment", Verb::Apply),
            grant("Pod", Verb::Get),
            grant("Secret", Verb::Any),
            grant("apps/*", Verb::Create),
            grant("Site", Verb::UpdateStatus),
        ];
        let grants = Grants { resources, ..Grants::default() };
        assert_eq!(written_by(&grants).collect::<Vec<_>>(), ["apps/Deployment", "Secret"]);
    }
}
