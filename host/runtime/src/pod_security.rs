//! Pod Security: the labels of a namespace say which pods it takes, and for which it warns.
//!
//! Deliberately absent: the rules of former versions, for which a label can ask; the latest ones hold. Audit annotations, since
//! a host has no audit log.
//!
//! Source: the admission plug-in `PodSecurity` of Kubernetes.

mod checks;

use std::collections::BTreeMap;

use homeostat_store::{Key, Query, Request, Resource, ResourcePages, Selector, Store, Subresource, Write};
use serde_json::Value;

use crate::error::found;
use crate::namespaces::namespaces;
use crate::new_resource::sent_value;
use crate::{Error, Kinds, Requester, priorities};
use checks::{CheckResult, findings};

/// The labels of a namespace for pods that it takes, and for pods of which it warns. Each has a second one for its version.
const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
const WARN: &str = "pod-security.kubernetes.io/warn";

/// Pods that are looked at when a namespace gets another level. Source: Kubernetes.
const PODS_MAX: usize = 3000;

/// Where a kind has the template of its pods.
const TEMPLATES: [(&str, &str, &str); 9] = [
    ("", "Pod", ""),
    ("", "ReplicationController", "/spec/template"),
    ("", "PodTemplate", "/template"),
    ("apps", "ReplicaSet", "/spec/template"),
    ("apps", "Deployment", "/spec/template"),
    ("apps", "StatefulSet", "/spec/template"),
    ("apps", "DaemonSet", "/spec/template"),
    ("batch", "Job", "/spec/template"),
    ("batch", "CronJob", "/spec/jobTemplate/spec/template"),
];

/// How much a pod may do: a later level allows less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    /// Returns the level of a label; one that is unknown is `other`.
    fn named(text: &str, other: Self) -> Self {
        match text {
            "privileged" => Self::Privileged,
            "baseline" => Self::Baseline,
            "restricted" => Self::Restricted,
            _ => other,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

/// A level, and the version whose rules a label asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LevelVersion {
    level: Level,
    version: String,
}

impl LevelVersion {
    /// Returns what forbids a pod, in the words of Kubernetes; `None` if nothing does.
    fn violation(&self, metadata: &Value, spec: &Value) -> Option<String> {
        let found = findings(self.level, metadata, spec);
        let words = |CheckResult { reason, detail }: &CheckResult| format!("{reason} ({detail})");
        let words: Vec<String> = found.iter().map(words).collect();
        (!found.is_empty()).then(|| format!("violate PodSecurity \"{}\": {}", self.text(), words.join(", ")))
    }

    fn text(&self) -> String {
        format!("{}:{}", self.level.name(), self.version)
    }
}

/// The levels that the labels of a namespace name.
#[derive(Debug, PartialEq, Eq)]
struct Policy {
    enforce: LevelVersion,
    warn: LevelVersion,
}

impl Policy {
    fn of(namespace: &Resource) -> Self {
        let version = |label: &str| namespace.label(&format!("{label}-version")).map(str::to_owned);
        let latest = || "latest".to_owned();
        let enforced = namespace.label(ENFORCE);
        let enforce = LevelVersion {
            level: enforced.map_or(Level::Privileged, |text| Level::named(text, Level::Restricted)),
            version: version(ENFORCE).unwrap_or_else(latest),
        };
        // Without a label for warnings, a namespace warns of the pods that it refuses.
        let warn = match namespace.label(WARN) {
            Some(text) => LevelVersion {
                level: Level::named(text, Level::Privileged),
                version: version(WARN).unwrap_or_else(latest),
            },
            None => {
                LevelVersion { version: version(WARN).unwrap_or_else(|| enforce.version.clone()), ..enforce.clone() }
            }
        };
        Self { enforce, warn }
    }

    fn is_privileged(&self) -> bool {
        [&self.enforce, &self.warn].iter().all(|of| of.level == Level::Privileged)
    }
}

/// Refuses a pod that its namespace does not take, and warns of pods, of templates of pods, and of another level of a namespace.
///
/// # Errors
/// [`Error::Forbidden`] for such a pod; [`Error::Store`].
pub(crate) async fn admit(
    store: &dyn Store,
    kinds: &Kinds,
    request: &Request,
    requester: Option<&Requester>,
) -> Result<(), Error> {
    let is_whole = matches!(request.subresource, None | Some(Subresource::EphemeralContainers));
    let Some(sent) = sent_value(&request.write).filter(|_| is_whole) else { return Ok(()) };
    let Ok(target) = request.write.target() else { return Ok(()) };
    let kind = &target.kind;
    let template = TEMPLATES.iter().find(|(group, name, _)| kind.group == *group && kind.name == *name);
    let is_namespace = kind.group.is_empty() && kind.name == "Namespace";
    // Most writes are of other kinds.
    if (template.is_none() && !is_namespace)
        || ![kind, &namespaces()].iter().all(|kind| kinds.has_built_in_schema(kind))
    {
        return Ok(());
    }
    let Some((_, _, template)) = template else { return warn_of_level(store, request, sent, requester).await };
    let Some(policy) = policy_of(store, &target.namespace).await? else { return Ok(()) };
    let planned = store.submit(Request { dry_run: true, ..request.clone() }).await?.resource;
    let pod = planned.document().pointer(template).unwrap_or(&Value::Null);
    if template.is_empty() && !is_significant(store, &planned).await? {
        return Ok(());
    }
    let is_pod = target.kind.same_type(&priorities::pods());
    if is_pod && let Some(violation) = policy.enforce.violation(&pod["metadata"], &pod["spec"]) {
        let reason = violation.replacen("violate", "violates", 1);
        return Err(Error::forbidden("pods", planned.key().name(), &reason));
    }
    if let (Some(violation), Some(requester)) = (policy.warn.violation(&pod["metadata"], &pod["spec"]), requester) {
        requester.warn(&format!("would {violation}"));
    }
    Ok(())
}

/// Returns the policy of a namespace; `None` if it allows everything.
async fn policy_of(store: &dyn Store, namespace: &str) -> Result<Option<Policy>, Error> {
    let namespace = found(store.get(&Key::new(namespaces(), "", namespace)).await)?;
    Ok(namespace.map(|namespace| Policy::of(&namespace)).filter(|policy| !policy.is_privileged()))
}

/// Returns whether a pod is new, or gets a container or another image.
async fn is_significant(store: &dyn Store, planned: &Resource) -> Result<bool, Error> {
    let Some(stored) = found(store.get(planned.key()).await)?.filter(|stored| stored.uid() == planned.uid()) else {
        return Ok(true);
    };
    let images = |pod: &Resource| -> Vec<(String, String)> {
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        let all = lists.into_iter().flat_map(|list| pod.document()["spec"][list].as_array().into_iter().flatten());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        all.map(|container| (text(&container["name"]), text(&container["image"]))).collect()
    };
    Ok(images(&stored) != images(planned))
}

/// Warns of the pods of a namespace that its new level forbids.
async fn warn_of_level(
    store: &dyn Store,
    request: &Request,
    sent: &Value,
    requester: Option<&Requester>,
) -> Result<(), Error> {
    let is_new = matches!(request.write, Write::Create { .. });
    let names_level = || sent.to_string().contains("pod-security.kubernetes.io");
    let Some(requester) = requester.filter(|_| !is_new && names_level()) else { return Ok(()) };
    let planned = store.submit(Request { dry_run: true, ..request.clone() }).await?.resource;
    let Some(stored) = found(store.get(planned.key()).await)? else { return Ok(()) };
    let (old, new) = (Policy::of(&stored).enforce, Policy::of(&planned).enforce);
    if new.level == Level::Privileged || (new.version == old.version && new.level <= old.level) {
        return Ok(());
    }
    let name = planned.key().name();
    let selector = Selector { namespace: Some(name.to_owned()), ..Selector::default() };
    let mut pages = ResourcePages::new(store, Query { selector, ..Query::all(priorities::pods()) });
    let (mut total, mut names) = (0, BTreeMap::<String, Vec<String>>::new());
    while let Some(page) = pages.next_page().await? {
        for pod in page.iter() {
            total += 1;
            let document = pod.document();
            if total <= PODS_MAX {
                let found = findings(new.level, &document["metadata"], &document["spec"]);
                let reasons: Vec<String> = found.into_iter().map(|finding| finding.reason).collect();
                if !reasons.is_empty() {
                    names.entry(reasons.join(", ")).or_default().push(pod.key().name().to_owned());
                }
            }
        }
    }
    if total > PODS_MAX {
        let words = "new PodSecurity enforce level only checked against the first";
        requester.warn(&format!("{words} {PODS_MAX} of {total} existing pods"));
    }
    if !names.is_empty() {
        let words = format!("existing pods in namespace {name:?} violate the new PodSecurity enforce level");
        requester.warn(&format!("{words} \"{}\"", new.text()));
    }
    let mut lines: Vec<String> = names.into_iter().map(|(reasons, names)| line_of(&reasons, names)).collect();
    lines.sort();
    lines.iter().for_each(|line| requester.warn(line));
    Ok(())
}

/// Returns the line of a warning about the pods that violate a level for the same reasons.
fn line_of(reasons: &str, mut names: Vec<String>) -> String {
    names.sort();
    let first = &names[0];
    match names.len() {
        1 => format!("{first}: {reasons}"),
        2 => format!("{first} (and 1 other pod): {reasons}"),
        count => format!("{first} (and {} other pods): {reasons}", count - 1),
    }
}

#[cfg(test)]
mod tests;
