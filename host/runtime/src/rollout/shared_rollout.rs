//! The rollout that all hosts of a fleet carry out together, as its record says. Pure.
//!
//! Each host has the manifest, the revisions and the status of its own. The record names the version and the step, so
//! that a host that was away or takes over goes on where the others are.

use homeostat_component::Digest;
use homeostat_fleet::DESCRIPTION_BYTES_MAX;
use homeostat_store::Resource;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{RolloutPhase, Share};
use crate::host_kinds::RESTARTED;

/// The format of the record. A host leaves records of other formats alone.
const FORMAT: u32 = 1;
/// Hexadecimal digits of the name of a version or of an attempt.
const DIGITS: usize = 32;
/// Ended rollouts of other versions in a record.
const PAST_MAX: usize = 4;

/// A rollout, as its record has it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SharedRollout {
    format: u32,
    /// The candidate: [`version_id`].
    pub(crate) version: String,
    /// Which attempt of this version it is: [`attempt_id`].
    pub(crate) attempt: String,
    pub(crate) phase: RolloutPhase,
    pub(crate) share: Share,
    /// The salt that deals the keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) salt: Option<u64>,
    /// Whether a person holds the share.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) paused: bool,
    /// The reason of a rollback, cut to what fits. `None` if another version replaced it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// Earlier attempts of other versions that did not get all keys, the last one at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    past: Vec<PastAttempt>,
}

/// An attempt that ended before the version had all keys.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PastAttempt {
    version: String,
    attempt: String,
}

/// A step to write into the record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedStep<'s> {
    pub(crate) version: &'s str,
    pub(crate) attempt: &'s str,
    pub(crate) phase: RolloutPhase,
    pub(crate) share: Share,
    pub(crate) salt: Option<u64>,
    pub(crate) paused: bool,
    pub(crate) reason: Option<&'s str>,
}

/// The record, as this host saw it last.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SeenRollout {
    /// It was not read yet.
    Unknown,
    /// There is none.
    Absent,
    /// This host does not understand it.
    Unreadable,
    /// It has this rollout.
    Written(SharedRollout),
}

/// The rollout of this host, for [`course`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnRollout<'s> {
    pub(crate) version: &'s str,
    /// The attempt that the resource of this host asks for.
    pub(crate) wanted: &'s str,
    /// The attempt whose steps this host has carried out.
    pub(crate) followed: Option<&'s str>,
    /// Whether a person asks for another attempt after a rollback that this host knows.
    pub(crate) is_retry: bool,
    pub(crate) share: Option<Share>,
    pub(crate) salt: Option<u64>,
    /// Whether this host decides the steps: it holds the first lease of the controller.
    pub(crate) leads: bool,
}

/// What a host does next with its rollout.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Course {
    /// Decides the next step.
    Lead,
    /// Carries out what the record says.
    Follow(SharedRollout),
    /// Writes that the version is tried again.
    Retry,
    /// Does nothing, for this reason.
    Wait(&'static str),
}

/// Returns the name of a version: a hash of its code, grants, limits and settings, which is the same on all hosts.
/// `spec` is that of a revision.
pub(crate) fn version_id(spec: &Value) -> String {
    hash(&json!([spec["component"]["digest"], spec["grants"], spec["limits"], spec["config"]]))
}

/// Returns the name of an attempt of a version: the same on all hosts whose manifests have the same rollout settings and
/// the same restart.
pub(crate) fn attempt_id(version: &str, resource: &Resource) -> String {
    hash(&json!([version, resource.document()["spec"]["rollout"], resource.annotation(RESTARTED)]))
}

fn hash(value: &Value) -> String {
    let digest = Digest::of(value.to_string().as_bytes());
    let digits = digest.as_str().rsplit(':').next().unwrap_or_default();
    digits.chars().take(DIGITS).collect()
}

/// Returns what a host does next.
pub(crate) fn course(seen: &SeenRollout, own: &OwnRollout<'_>) -> Course {
    let lead_or = |reason| if own.leads { Course::Lead } else { Course::Wait(reason) };
    let rollout = match seen {
        SeenRollout::Unknown => return Course::Wait("the record of the rollout was not read yet"),
        SeenRollout::Unreadable => {
            return Course::Wait("this host does not understand the record of the rollout: a later version wrote it");
        }
        SeenRollout::Absent => return lead_or("the host with the first lease has not begun it"),
        SeenRollout::Written(rollout) => rollout,
    };
    let is_retry_of = |attempt: &str| own.is_retry && own.wanted != attempt;
    if rollout.version != own.version {
        return match rollout.past.iter().find(|past| past.version == own.version) {
            Some(past) if is_retry_of(&past.attempt) => Course::Retry,
            Some(past) => Course::Follow(rollout.rolled_back_before(past)),
            None => lead_or("the host with the first lease has another version"),
        };
    }
    let is_behind = own.followed != Some(&*rollout.attempt)
        || rollout.phase == RolloutPhase::Canary && (own.share, own.salt) != (Some(rollout.share), rollout.salt);
    match rollout.phase {
        RolloutPhase::RolledBack if is_retry_of(&rollout.attempt) => Course::Retry,
        RolloutPhase::Complete | RolloutPhase::RolledBack => Course::Follow(rollout.clone()),
        _ if is_behind => Course::Follow(rollout.clone()),
        _ => lead_or("the host with the first lease decides the steps"),
    }
}

impl SeenRollout {
    /// Reads the text of a record.
    pub(crate) fn read(text: &str) -> Self {
        let is_id = |text: &str| text.len() <= DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_sound = |rollout: &SharedRollout| {
            let past = rollout.past.iter().flat_map(|past| [&past.version, &past.attempt]);
            rollout.format == FORMAT
                && rollout.past.len() <= PAST_MAX
                && [&rollout.version, &rollout.attempt].into_iter().chain(past).all(|text| is_id(text))
        };
        match serde_json::from_str(text) {
            Ok(rollout) if text.len() <= DESCRIPTION_BYTES_MAX && is_sound(&rollout) => Self::Written(rollout),
            _ => Self::Unreadable,
        }
    }

    /// Returns the rollout of a version, if the record has one.
    pub(crate) fn of(&self, version: &str) -> Option<&SharedRollout> {
        match self {
            Self::Written(rollout) if rollout.version == version => Some(rollout),
            _ => None,
        }
    }

    /// Returns the rollout of a version that is under way.
    pub(crate) fn under_way(&self, version: &str) -> Option<&SharedRollout> {
        self.of(version).filter(|rollout| rollout.phase.is_tried())
    }
}

impl SharedRollout {
    /// Returns the record with another step. It keeps the last other versions that were rolled back or replaced.
    pub(crate) fn after(seen: &SeenRollout, step: SharedStep<'_>) -> Self {
        let SharedStep { version, attempt, phase, share, salt, paused, reason } = step;
        let mut past = Vec::new();
        if let SeenRollout::Written(former) = seen {
            past.clone_from(&former.past);
            if former.phase != RolloutPhase::Complete {
                past.retain(|past| past.version != former.version);
                past.push(PastAttempt { version: former.version.clone(), attempt: former.attempt.clone() });
            }
            past.retain(|past| past.version != version);
            past.drain(..past.len().saturating_sub(PAST_MAX));
        }
        Self {
            format: FORMAT,
            version: version.to_owned(),
            attempt: attempt.to_owned(),
            phase,
            share,
            salt,
            paused,
            reason: reason.map(str::to_owned),
            past,
        }
    }

    /// Returns whether two records mean the same. The reason of a rollback is for people.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Self { reason: None, ..self.clone() } == Self { reason: None, ..other.clone() }
    }

    /// Returns the text of the record, within [`DESCRIPTION_BYTES_MAX`].
    pub(crate) fn text(&self) -> String {
        let mut cut = self.clone();
        loop {
            let text = json!(cut).to_string();
            match &mut cut.reason {
                Some(reason) if text.len() > DESCRIPTION_BYTES_MAX && !reason.is_empty() => {
                    // Escapes make a character up to six bytes long.
                    let over = (text.len() - DESCRIPTION_BYTES_MAX).div_ceil(6);
                    let kept = reason.chars().count().saturating_sub(over);
                    *reason = reason.chars().take(kept).collect();
                }
                _ => return text,
            }
        }
    }

    fn rolled_back_before(&self, past: &PastAttempt) -> Self {
        let PastAttempt { version, attempt } = past.clone();
        let (phase, share) = (RolloutPhase::RolledBack, Share::NONE);
        Self { version, attempt, phase, share, salt: None, paused: false, reason: None, ..self.clone() }
    }
}

#[cfg(test)]
mod tests;
