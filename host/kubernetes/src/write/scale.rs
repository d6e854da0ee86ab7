//! Writes of the subresource `scale`.

use std::time::Instant;

use bytes::Bytes;
use homeostat_store::{Error, Result, ScaleRequest};
use http::Method;
use serde_json::Value;

use super::{TRIES_MAX, check_manager};
use crate::cluster::Cluster;
use crate::path::Parameters;
use crate::requests::Call;
use crate::{read, scale};

/// Sets the number of replicas of a resource. No request of it goes on after `until`.
///
/// The server compares a revision, and the uid of its own kinds alone. A revision belongs to one uid, so a
/// uid without a revision is compared here, with the revision that the write then requires.
pub(crate) async fn update(cluster: &Cluster, request: ScaleRequest, until: Option<Instant>) -> Result<Value> {
    let ScaleRequest { key, replicas, precondition, manager, dry_run } = request;
    let prefix = cluster.manager_prefix();
    check_manager(prefix, &manager)?;
    let path = scale::path_of(&cluster.served(key.kind()).await?, &key)?;
    let parameters = Parameters::default()
        .with("fieldManager", &format!("{prefix}{manager}"))
        .with_some("dryRun", dry_run.then_some("All"));
    let _lock = cluster.write_lock(&key).await?;
    for attempt in 1.. {
        let mut required = precondition.clone();
        if let (None, Some(uid)) = (required.revision, &required.uid) {
            let current = read::scale(cluster, &key).await?;
            if scale::uid_of(&current) != Some(uid) {
                return Err(Error::Conflict { key, current: scale::revision_of(&current) });
            }
            required.revision = scale::revision_of(&current);
        }
        let body = Some(("application/json", Bytes::from(scale::document(&key, replicas, &required).to_string())));
        let call = Call::with_body("scale", Method::PUT, parameters.after(&path), body);
        let failure = match cluster.requests.send(call.until(until)).await {
            Ok(answer) => return scale::parse(&answer.body, &key),
            Err(failure) => failure,
        };
        let is_conflict = failure.status().is_some_and(|status| status.is_conflict(false));
        if is_conflict && precondition.revision.is_none() && attempt < TRIES_MAX {
            continue;
        }
        let error = cluster.failed("scale", &key, failure);
        if let Error::Conflict { key, current: None } = error {
            let current = read::scale(cluster, &key).await.ok().and_then(|scale| scale::revision_of(&scale));
            return Err(Error::Conflict { key, current });
        }
        return Err(error);
    }
    unreachable!("the last attempt returns")
}
