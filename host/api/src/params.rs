//! Parses the query of a request: selectors, pages, watches. Pure.

use std::collections::HashSet;
use std::time::Duration;

use axum::extract::Query as UriQuery;
use axum::http::{Method, Uri};
use homeostat_store::schema::Reason;
use homeostat_store::{FieldValidation, Kind, Precondition, Propagation, Query, Revision, Selector};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::field_selector::{self, FieldTerm};
use crate::status::Failure;
use crate::table::IncludeObjectPolicy;

/// The Kubernetes query parameters that the server supports. Others are ignored, as by an API server.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Params {
    pub(crate) label_selector: Option<String>,
    pub(crate) field_selector: Option<String>,
    pub(crate) limit: Option<String>,
    #[serde(rename = "continue")]
    pub(crate) next: Option<String>,
    pub(crate) watch: BoolParam,
    pub(crate) resource_version: Option<String>,
    pub(crate) send_initial_events: Option<BoolParam>,
    pub(crate) field_manager: Option<String>,
    pub(crate) force: BoolParam,
    /// All values of `dryRun`.
    #[serde(skip)]
    pub(crate) dry_run: Vec<String>,
    pub(crate) field_validation: Option<String>,
    pub(crate) propagation_policy: Option<String>,
    pub(crate) orphan_dependents: Option<BoolParam>,
    pub(crate) include_object: IncludeObjectPolicy,
    pub(crate) allow_watch_bookmarks: BoolParam,
    pub(crate) resource_version_match: Option<String>,
    pub(crate) timeout_seconds: Option<String>,
    pub(crate) grace_period_seconds: Option<String>,
    /// The kind of options that Kubernetes reads from the query, as `PatchOptions`.
    #[serde(skip)]
    pub(crate) options: &'static str,
}

/// Returns the time in which the client wants the beginning of the response: `timeout`, as Go writes durations. `0s` is
/// that of the server, and so is a negative one.
///
/// # Errors
/// 400 if it is no duration.
pub(crate) fn timeout(uri: &Uri) -> Result<Option<Duration>, Failure> {
    #[derive(Deserialize)]
    struct Timeout {
        timeout: Option<String>,
    }
    let Ok(Timeout { timeout: Some(text) }) = parse(uri) else { return Ok(None) };
    if text.is_empty() {
        return Ok(None);
    }
    let given = homeostat_store::duration(&text).ok_or_else(|| {
        let reason = format!("invalid timeout specified in the request URL - time: invalid duration {text:?}");
        Failure::bad_request(reason)
    })?;
    Ok(Duration::try_from(given).ok().filter(|given| !given.is_zero()))
}

/// Returns the kind of options in the query of a request.
pub(crate) fn options_of(method: &Method) -> &'static str {
    match *method {
        Method::POST => "CreateOptions",
        Method::PUT => "UpdateOptions",
        Method::PATCH => "PatchOptions",
        Method::DELETE => DELETE_OPTIONS,
        _ => LIST_OPTIONS,
    }
}

const DELETE_OPTIONS: &str = "DeleteOptions";
const DRY_RUN: &str = "dryRun";
const LIST_OPTIONS: &str = "ListOptions";

/// Longest name of a field manager: bytes of one that the client names, characters of one that is cut out of `User-Agent`.
/// Source: `FieldManagerMaxLength` of Kubernetes.
pub(crate) const MANAGER_MAX: usize = 128;

impl Params {
    /// Parses the query of a request for resources. As for Kubernetes, of several parameters with one name the first one counts,
    /// but for `dryRun`, which is a list.
    ///
    /// # Errors
    /// 400 if a parameter has a value of another type.
    pub(crate) fn of(uri: &Uri) -> Result<Self, Failure> {
        let mut names = HashSet::new();
        let (first, others): (Vec<&str>, Vec<&str>) = pairs(uri).partition(|pair| names.insert(pair.split('=').next()));
        let dry_run = if first.iter().any(|pair| pair.starts_with(DRY_RUN)) {
            let all: Vec<(String, String)> = parse_pairs(uri, &[first.clone(), others].concat())?;
            all.into_iter().filter(|(name, _)| name == DRY_RUN).map(|(_, value)| value).collect()
        } else {
            Vec::new()
        };
        Ok(Self { dry_run, ..parse_pairs(uri, &first)? })
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.watch.is_on()
    }

    pub(crate) fn wants_initial_events(&self) -> bool {
        self.send_initial_events.is_some_and(BoolParam::is_on)
    }

    pub(crate) fn forces(&self) -> bool {
        self.force.is_on()
    }

    /// Returns whether the write is a dry run.
    pub(crate) fn is_dry_run(&self) -> Result<bool, Failure> {
        is_dry_run(self.options, &self.dry_run)
    }

    /// Returns the manager that applies, which each apply names.
    pub(crate) fn apply_manager(&self) -> Result<String, Failure> {
        self.field_manager.clone().filter(|manager| !manager.is_empty()).ok_or_else(Failure::no_manager)
    }

    /// Checks the name of the field manager.
    pub(crate) fn check_field_manager(&self) -> Result<(), Failure> {
        let manager = self.field_manager.as_deref().unwrap_or_default();
        if manager.len() > MANAGER_MAX {
            let detail = format!("may not be more than {MANAGER_MAX} bytes");
            return Err(Failure::bad_option(self.options, Reason::TooLong, "fieldManager", &detail));
        }
        match manager.char_indices().find(|(_, character)| character.is_control()) {
            Some((at, character)) => {
                let number = u32::from(character);
                let detail = format!("{manager:?}: invalid character U+{number:04X} (at position {at})");
                Err(Failure::bad_option(self.options, Reason::Invalid, "fieldManager", &detail))
            }
            None => Ok(()),
        }
    }

    /// Checks the numbers in the query.
    pub(crate) fn check_numbers(&self) -> Result<(), Failure> {
        let given = [&self.limit, &self.timeout_seconds, &self.grace_period_seconds];
        match given.into_iter().flatten().find(|text| !text.is_empty() && text.parse::<i64>().is_err()) {
            Some(text) => Err(Failure::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))),
            None => Ok(()),
        }
    }

    /// Returns how to treat unknown fields; `Warn` by default.
    pub(crate) fn unknown(&self) -> Result<FieldValidation, Failure> {
        match self.field_validation.as_deref() {
            None | Some("" | "Warn") => Ok(FieldValidation::Warn),
            Some("Strict") => Ok(FieldValidation::Strict),
            Some("Ignore") => Ok(FieldValidation::Ignore),
            Some(other) => {
                let detail = format!("{other:?}: supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"");
                Err(Failure::bad_option(self.options, Reason::Unsupported, "fieldValidation", &detail))
            }
        }
    }

    pub(crate) fn wants_bookmarks(&self) -> bool {
        self.allow_watch_bookmarks.is_on()
    }

    /// Returns how much of a resource is included with its row of a table.
    pub(crate) fn included(&self) -> IncludeObjectPolicy {
        self.include_object
    }

    /// Returns the terms of the field selector.
    pub(crate) fn fields(&self) -> Result<Vec<FieldTerm>, Failure> {
        field_selector::parse(self.field_selector.as_deref().unwrap_or_default())
    }

    /// Checks the combination of parameters of a list.
    ///
    /// Source: `ValidateListOptions` of Kubernetes' apimachinery, for lists.
    pub(crate) fn check_list(&self) -> Result<(), Failure> {
        if let Some(asked) = self.asked_match() {
            let revision = self.resource_version.as_deref().unwrap_or_default();
            if revision.is_empty() {
                return Err(unmatched("resourceVersionMatch is forbidden unless resourceVersion is provided"));
            }
            self.check_match(asked, &["Exact", "NotOlderThan", ""])?;
            if asked == "Exact" && revision == "0" {
                return Err(unmatched("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""));
            }
        }
        match self.send_initial_events {
            Some(_) => {
                let detail = "sendInitialEvents is forbidden for list";
                Err(Failure::bad_option(LIST_OPTIONS, Reason::Forbidden, "sendInitialEvents", detail))
            }
            None => Ok(()),
        }
    }

    /// Checks the combination of parameters of a watch.
    ///
    /// Source: `ValidateListOptions` of Kubernetes' apimachinery, for watches.
    pub(crate) fn check_watch(&self) -> Result<(), Failure> {
        match (self.asked_match(), self.send_initial_events) {
            (None, None) => Ok(()),
            (None, Some(_)) => {
                Err(unmatched("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
            }
            (Some(_), None) => {
                Err(unmatched("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"))
            }
            (Some(asked), Some(_)) => self.check_match(asked, &["NotOlderThan"]).map_err(|failure| {
                let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                failure.with_cause(Reason::Forbidden, MATCH, detail)
            }),
        }
    }

    fn asked_match(&self) -> Option<&str> {
        self.resource_version_match.as_deref().filter(|asked| !asked.is_empty())
    }

    fn check_match(&self, asked: &str, known: &[&str]) -> Result<(), Failure> {
        if self.next.as_deref().is_some_and(|next| !next.is_empty()) {
            return Err(unmatched("resourceVersionMatch is forbidden when continue is provided"));
        }
        if known.contains(&asked) {
            return Ok(());
        }
        let listed: Vec<String> = known.iter().map(|name| format!("{name:?}")).collect();
        let detail = format!("{asked:?}: supported values: {}", listed.join(", "));
        Err(Failure::bad_option(LIST_OPTIONS, Reason::Unsupported, MATCH, &detail))
    }

    /// Checks the revision that a list requests. `shown` is the revision that it shows.
    pub(crate) fn check_revision(&self, shown: Revision) -> Result<(), Failure> {
        let Some(asked) = self.requested_revision()? else { return Ok(()) };
        match self.asked_match() {
            _ if asked > shown => Err(homeostat_store::Error::FutureRevision { asked, current: shown }.into()),
            Some("Exact") if asked != shown => Err(homeostat_store::Error::Expired { oldest: shown }.into()),
            _ => Ok(()),
        }
    }

    pub(crate) fn selector(&self, namespace: Option<&str>) -> Result<Selector, Failure> {
        let labels = match self.label_selector.as_deref() {
            None | Some("") => Vec::new(),
            Some(text) => Selector::parse_labels(text).map_err(|error| match error {
                homeostat_store::Error::Invalid { reason, .. } => Failure::bad_request(reason),
                other => other.into(),
            })?,
        };
        let (equal, unequal): (Vec<_>, Vec<_>) = self.fields()?.into_iter().partition(|term| term.is_equal);
        let [fields, unequal_fields] =
            [equal, unequal].map(|terms| terms.into_iter().map(|term| (term.pointer(), term.value)).collect());
        let namespace = namespace.map(str::to_owned);
        let selector = Selector { namespace, labels, fields, unequal_fields, owner: None };
        selector.validate().map_err(|error| Failure::bad_request(error.to_string()))?;
        Ok(selector)
    }

    /// Returns the query of a list. As in Kubernetes, a page at a revision is exact, unless the client asks otherwise.
    pub(crate) fn query(&self, kind: Kind, namespace: Option<&str>) -> Result<Query, Failure> {
        let selector = self.selector(namespace)?;
        let from = self.next.clone().filter(|next| !next.is_empty());
        let limit = self.limit.as_deref().and_then(|limit| limit.parse().ok()).filter(|limit: &usize| *limit > 0);
        let is_exact = match self.asked_match() {
            Some(asked) => asked == "Exact",
            None => limit.is_some() && from.is_none(),
        };
        let at = if is_exact { self.requested_revision()? } else { None };
        Ok(Query { selector, limit, from, live: self.is_live(), at, ..Query::all(kind) })
    }

    /// Returns whether a read asks past every cache of the host. The most recent state is also not older than any
    /// revision that a client can know.
    ///
    /// Source: the semantics of `resourceVersion` of get and list in Kubernetes, where none means "most recent",
    /// and `0` means "any".
    pub(crate) fn is_live(&self) -> bool {
        self.resource_version.as_deref() != Some("0")
    }

    /// Returns the revision after which a watch starts; `None` if it starts with the current resources.
    pub(crate) fn watch_after(&self) -> Result<Option<Revision>, Failure> {
        let asked = self.requested_revision().map_err(|_| self.no_revision())?;
        Ok(asked.filter(|_| !self.wants_initial_events()))
    }

    /// Checks the revision in a request for one resource, which may be of any age.
    pub(crate) fn check_revision_of_one(&self) -> Result<(), Failure> {
        self.requested_revision().map(drop).map_err(|_| self.no_revision())
    }

    /// Refuses a revision where Kubernetes expects none that is malformed.
    fn no_revision(&self) -> Failure {
        let text = self.resource_version.as_deref().unwrap_or_default();
        let reason = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
        Failure::unexplained(format!("resourceVersion: Invalid value: {text:?}: {reason}"))
    }

    /// Returns the requested revision; `None` for any revision.
    pub(crate) fn requested_revision(&self) -> Result<Option<Revision>, Failure> {
        match self.resource_version.as_deref() {
            None | Some("" | "0") => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|_| Failure::bad_request(format!("resourceVersion: `{text}` is not a revision"))),
        }
    }
}

/// The options of a deletion, from its body or its query.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeleteOptions {
    kind: Option<String>,
    propagation_policy: Option<String>,
    orphan_dependents: Option<bool>,
    preconditions: Option<Preconditions>,
    dry_run: Option<Vec<String>>,
    grace_period_seconds: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

impl DeleteOptions {
    /// Reads the options from the body, or from the query if there is no body. They are never combined, as in
    /// an API server.
    pub(crate) fn read(body: Option<Value>, params: &Params) -> Result<Self, Failure> {
        let Some(body) = body.filter(|body| !body.is_null()) else {
            let (propagation_policy, orphan_dependents) =
                (params.propagation_policy.clone(), params.orphan_dependents.map(BoolParam::is_on));
            let grace_period_seconds = params.grace_period_seconds.as_deref().and_then(|seconds| seconds.parse().ok());
            return Ok(Self { propagation_policy, orphan_dependents, grace_period_seconds, ..Self::default() });
        };
        let wrong = |reason: String| Failure::bad_request(format!("the body is not DeleteOptions: {reason}"));
        let deletion: Self = serde_json::from_value(body).map_err(|error| wrong(error.to_string()))?;
        match deletion.kind.as_deref() {
            None | Some("" | "DeleteOptions") => Ok(deletion),
            Some(other) => Err(wrong(format!("its kind is {other:?}"))),
        }
    }

    /// Returns whether the deletion is a dry run.
    pub(crate) fn is_dry_run(&self) -> Result<bool, Failure> {
        is_dry_run(DELETE_OPTIONS, self.dry_run.as_deref().unwrap_or_default())
    }

    /// Returns what happens to the dependents; `default` if neither policy is given.
    pub(crate) fn propagation(&self, default: Propagation) -> Result<Propagation, Failure> {
        match self.policy() {
            Some(_) if self.orphan_dependents.is_some() => {
                let detail = "orphanDependents and deletionPropagation cannot be both set";
                Err(Failure::bad_option(DELETE_OPTIONS, Reason::Invalid, "propagationPolicy", detail))
            }
            None if self.orphan_dependents == Some(true) => Ok(Propagation::Orphan),
            None if self.orphan_dependents.is_none() => Ok(default),
            None | Some("Background") => Ok(Propagation::Background),
            Some("Foreground") => Ok(Propagation::Foreground),
            Some("Orphan") => Ok(Propagation::Orphan),
            Some(other) => {
                let known = "\"Foreground\", \"Background\", \"Orphan\", \"nil\"";
                let detail = format!("{other:?}: supported values: {known}");
                Err(Failure::bad_option(DELETE_OPTIONS, Reason::Unsupported, "propagationPolicy", &detail))
            }
        }
    }

    /// Returns whether the client says what becomes of dependents.
    pub(crate) fn has_propagation(&self) -> bool {
        self.policy().is_some() || self.orphan_dependents.is_some()
    }

    /// Returns the propagation policy. An empty one counts as none.
    fn policy(&self) -> Option<&str> {
        self.propagation_policy.as_deref().filter(|policy| !policy.is_empty())
    }

    /// Returns the grace period in seconds. A negative one counts as 1, as in Kubernetes.
    pub(crate) fn grace_seconds(&self) -> Option<u32> {
        self.grace_period_seconds
            .map(|seconds| if seconds < 0 { 1 } else { u32::try_from(seconds).unwrap_or(u32::MAX) })
    }

    pub(crate) fn precondition(&self) -> Result<Precondition, Failure> {
        let Some(Preconditions { uid, resource_version }) = &self.preconditions else {
            return Ok(Precondition::default());
        };
        let revision = resource_version.as_deref().map(str::parse::<Revision>).transpose();
        let revision = revision
            .map_err(|_| Failure::bad_request("preconditions.resourceVersion: not a revision of this store"))?;
        Ok(Precondition { uid: uid.clone(), revision })
    }
}

/// Parses the query of a request.
///
/// As by Go, parameters with a malformed escape are left out.
///
/// # Errors
/// 400 if a parameter has a value of another type, or appears twice where one is read.
pub(crate) fn parse<P: DeserializeOwned>(uri: &Uri) -> Result<P, Failure> {
    parse_pairs(uri, &pairs(uri).collect::<Vec<_>>())
}

/// Returns the parameters without a malformed escape.
fn pairs(uri: &Uri) -> impl Iterator<Item = &str> {
    uri.query().unwrap_or_default().split('&').filter(|pair| is_escaped(pair))
}

fn parse_pairs<P: DeserializeOwned>(uri: &Uri, sound: &[&str]) -> Result<P, Failure> {
    let read = match Uri::builder().path_and_query(format!("/?{}", sound.join("&"))).build() {
        Ok(sound) => UriQuery::try_from_uri(&sound),
        Err(_) => UriQuery::try_from_uri(uri),
    };
    read.map(|UriQuery(params)| params).map_err(|error| Failure::bad_request(error.body_text()))
}

/// Returns whether each `%` of a parameter begins an escape, and the parameter has no `;`.
fn is_escaped(pair: &str) -> bool {
    let is_escape = |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    !pair.contains(';') && pair.split('%').skip(1).all(is_escape)
}

/// Returns whether these values of `dryRun` ask for a dry run.
///
/// # Errors
/// 422 if one of them is not `All`.
fn is_dry_run(options: &str, values: &[String]) -> Result<bool, Failure> {
    if values.iter().all(|value| value == "All") {
        return Ok(!values.is_empty());
    }
    let detail = format!("{}: supported values: \"All\"", serde_json::json!(values));
    Err(Failure::bad_option(options, Reason::Unsupported, DRY_RUN, &detail))
}

/// A boolean parameter. A parameter without a value is true, and a missing parameter is false.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(from = "String")]
pub(crate) struct BoolParam(bool);

impl BoolParam {
    pub(crate) fn is_on(self) -> bool {
        self.0
    }
}

impl From<&str> for BoolParam {
    /// Reads a flag as Kubernetes does: everything but `0` and `false` is on, also an empty text.
    fn from(text: &str) -> Self {
        Self(text != "0" && !text.eq_ignore_ascii_case("false"))
    }
}

impl From<String> for BoolParam {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

const MATCH: &str = "resourceVersionMatch";

fn unmatched(detail: &str) -> Failure {
    Failure::bad_option(LIST_OPTIONS, Reason::Forbidden, MATCH, detail)
}

#[cfg(test)]
mod tests;
