//! The role that the account of a host needs in a cluster, for the grants of a controller. Pure.
//!
//! The host checks the grants itself. In the cluster it needs the verbs of its requests: a kind that is
//! watched is listed and watched as a whole, once for all controllers, and a status is patched. The number of replicas
//! is read and written by the subresource `scale`, for clients of the host's API. The right to change the whole resource
//! includes that.
//!
//! The leases of a controller and of the host live beside the resources that it watches. Their names depend on the shards
//! and on the host, and Kubernetes has no pattern for names. So the rules hold for all leases of the namespace.

use std::collections::{BTreeMap, BTreeSet};

use homeostat_component::{Grants, ResourceGrant};

use super::rbac::{Plural, Roles, Rules, Subject, role, verbs};

/// Answers a question about a kind, by group and name.
type Is<'a> = dyn Fn(&str, &str) -> bool + 'a;

/// The known facts of the kinds of a store.
pub(super) struct StoreKinds<'a> {
    /// Returns whether a kind lives in the store.
    pub(super) lives_there: &'a Is<'a>,
    /// Returns whether the server has the subresource `scale` of a kind.
    pub(super) has_scale: &'a Is<'a>,
    /// Returns the plural of a kind.
    pub(super) plural: &'a Plural<'a>,
}

/// A kind as rules name it.
struct RuleResource {
    group: String,
    plural: String,
    has_scale: bool,
}

impl Roles {
    /// Adds what a host needs in a cluster for the grants of one controller on the kinds that live there. Without such
    /// kinds it adds nothing.
    pub(super) fn add_for_store(
        &mut self,
        controller: &str,
        grants: &Grants,
        &StoreKinds { lives_there, has_scale, plural }: &StoreKinds<'_>,
    ) {
        // The empty namespace stands for the whole cluster.
        let mut places: BTreeMap<String, Rules> = BTreeMap::new();
        let mut watches = false;
        for grant in &grants.resources {
            for kind in &grant.kinds {
                let (group, name) = kind.split_once('/').unwrap_or(("", kind));
                let is_pattern = kind.contains('*');
                if !is_pattern && !lives_there(group, name) {
                    continue;
                }
                let has_scale = has_scale(group, name);
                if let Some((group, plural)) = self.resource(controller, kind, plural) {
                    watches |= verbs(&grant.verbs).0.contains(&"watch");
                    self.add_rules(controller, grant, RuleResource { group, plural, has_scale }, &mut places);
                }
            }
        }
        if places.is_empty() {
            return;
        }
        let events: Subject = ("events.k8s.io".to_owned(), BTreeSet::new());
        add(&mut places, "", events, vec!["create", "patch"], "events");
        if watches {
            add_leases(&mut places);
        }
        self.documents.extend(places.into_iter().map(|(namespace, rules)| role(controller, &namespace, rules)));
    }

    fn add_rules(
        &mut self,
        controller: &str,
        grant: &ResourceGrant,
        RuleResource { group, plural: resource, has_scale }: RuleResource,
        places: &mut BTreeMap<String, Rules>,
    ) {
        let (mut whole, status) = verbs(&grant.verbs);
        let everything: Subject = (group.clone(), BTreeSet::new());
        if whole.contains(&"watch") {
            add(places, "", everything, vec!["list", "watch"], &resource);
        } else if whole.contains(&"list") {
            add(places, "", everything, vec!["list"], &resource);
        }
        whole.retain(|verb| !["list", "watch"].contains(verb));
        let Some(names) = self.names(controller, grant) else { return };
        if !names.is_empty() && whole.contains(&"create") {
            whole.retain(|verb| *verb != "create");
            self.note(controller, "left out: Kubernetes cannot allow creating by name".to_owned());
        }
        for namespace in self.namespaces(controller, grant) {
            let subject: Subject = (group.clone(), names.clone());
            if has_scale && ["update", "patch"].iter().any(|verb| whole.contains(verb)) {
                add(places, &namespace, subject.clone(), vec!["get", "update"], &format!("{resource}/scale"));
            }
            if !whole.is_empty() {
                add(places, &namespace, subject.clone(), whole.clone(), &resource);
            }
            if !status.is_empty() {
                add(places, &namespace, subject, vec!["patch"], &format!("{resource}/status"));
            }
        }
    }
}

/// Adds the rule for the leases of a controller and of the host.
fn add_leases(places: &mut BTreeMap<String, Rules>) {
    let subject: Subject = ("coordination.k8s.io".to_owned(), BTreeSet::new());
    add(places, "", subject, vec!["get", "list", "watch", "create", "update"], "leases");
}

fn add(
    places: &mut BTreeMap<String, Rules>,
    namespace: &str,
    subject: Subject,
    verbs: Vec<&'static str>,
    resource: &str,
) {
    let rules = places.entry(namespace.to_owned()).or_default();
    rules.entry((subject, verbs)).or_default().insert(resource.to_owned());
}
