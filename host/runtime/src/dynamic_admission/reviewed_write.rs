//! A write as webhooks and policies see it.

use std::sync::Arc;

use homeostat_store::{Kind, Request, Subresource, Target, Write};
use serde_json::{Value, json};

use crate::KindInfo;

/// The facts of a write: the `Attributes` of an API server's admission.
#[derive(Clone)]
pub(super) struct ReviewedWrite {
    /// The kind, in the version of the write.
    pub(super) kind: Kind,
    /// The plural, as `deployments`.
    pub(super) plural: String,
    /// The subresource; `None` for the resource itself.
    pub(super) part: Option<Subresource>,
    /// All served versions of the kind.
    pub(super) versions: Vec<String>,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub(super) operation: &'static str,
    /// The name that the client states; empty for one that is generated.
    pub(super) name: String,
    /// Empty for a cluster-scoped resource. That of a namespace is its own name.
    pub(super) namespace: String,
    pub(super) user: Arc<Value>,
    pub(super) dry_run: bool,
    /// The options of the request.
    pub(super) options: Value,
    /// The resource after the write; `None` for a deletion.
    pub(super) object: Option<Value>,
    /// The resource before the write; `None` for a creation.
    pub(super) old_object: Option<Value>,
}

impl ReviewedWrite {
    /// Returns the facts that are known before the write is decided. An apply counts as an update.
    pub(super) fn new(request: &Request, target: &Target, info: &KindInfo, user: &Arc<Value>) -> Self {
        let (operation, options) = match &request.write {
            Write::Create { .. } => ("CREATE", "CreateOptions"),
            Write::Delete { .. } => ("DELETE", "DeleteOptions"),
            _ => ("UPDATE", "UpdateOptions"),
        };
        let name = target.name.clone().unwrap_or_default();
        let is_of_namespace = target.kind.group.is_empty() && info.plural == "namespaces";
        Self {
            kind: target.kind.clone(),
            plural: info.plural.clone(),
            part: request.written_part(),
            versions: info.served_versions().map(str::to_owned).collect(),
            operation,
            namespace: if is_of_namespace { name.clone() } else { target.namespace.clone() },
            name,
            user: Arc::clone(user),
            dry_run: request.dry_run,
            options: options_of(request, options),
            object: None,
            old_object: None,
        }
    }

    /// Makes it a creation, once an apply is known to be one.
    pub(super) fn create(&mut self) {
        self.operation = "CREATE";
        self.options["kind"] = "CreateOptions".into();
    }

    /// Returns the name of the subresource; empty for the resource itself.
    pub(super) fn part_name(&self) -> &'static str {
        self.part.map_or("", Subresource::as_str)
    }

    pub(super) fn is_of_namespace(&self) -> bool {
        self.kind.group.is_empty() && self.plural == "namespaces"
    }
}

fn options_of(request: &Request, kind: &str) -> Value {
    let mut options = json!({ "apiVersion": "meta.k8s.io/v1", "kind": kind });
    if request.dry_run {
        options["dryRun"] = json!(["All"]);
    }
    match &request.write {
        Write::Delete { key: _, precondition, propagation, grace_seconds } => {
            options["propagationPolicy"] = format!("{propagation:?}").into();
            if let Some(seconds) = grace_seconds {
                options["gracePeriodSeconds"] = (*seconds).into();
            }
            if let Some(uid) = &precondition.uid {
                options["preconditions"]["uid"] = uid.as_str().into();
            }
        }
        Write::Apply { manager, .. } | Write::ApplyStatus { manager, .. } => {
            options["fieldManager"] = manager.as_str().into()
        }
        _ => options["fieldManager"] = request.manager.as_str().into(),
    }
    options
}
