//! One request for resources: its target, parameters and body.

use std::sync::Arc;

use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::Response;
use bytes::Bytes;
use homeostat_builtin::{autoscaler, cbor, protobuf};
use homeostat_runtime::{Error, KindInfo, Requester};
use homeostat_store::{
    Change, FieldValidation, Key, OPERATIONS_MAX, Precondition, Propagation, Query, Request, ScaleRequest, Selector,
    Subresource, Write, WriteResponse,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::caller::Caller;
use crate::client::Client;
use crate::document_response::respond;
use crate::duplicates::duplicates;
use crate::event_versions;
use crate::negotiate;
use crate::params::{self, DeleteOptions, MANAGER_MAX, Params};
use crate::path::Target;
use crate::selectable_fields;
use crate::state::Api;
use crate::status::Failure;
use crate::warnings::WarningRecorder;

/// One request for resources.
pub(crate) struct RequestContext<'r> {
    pub(crate) api: &'r Api,
    pub(crate) method: &'r Method,
    pub(crate) target: Target<'r>,
    pub(crate) uri: &'r Uri,
    pub(crate) headers: &'r HeaderMap,
    pub(crate) body: Bytes,
    /// The client, for the limits.
    pub(crate) client: &'r Client,
    /// The sender, or the user as whom it acts; `None` for a program on this machine, on a host without tokens.
    pub(crate) caller: Option<Arc<Caller>>,
    /// The same, as webhooks are told.
    pub(crate) requester: Arc<Requester>,
    /// The warnings of the response.
    pub(crate) warnings: WarningRecorder,
}

impl RequestContext<'_> {
    pub(crate) fn params<P: DeserializeOwned>(&self) -> Result<P, Failure> {
        params::parse(self.uri)
    }

    /// Returns whether the request is about events in the group `events.k8s.io`.
    pub(crate) fn has_event_version(&self) -> bool {
        self.target.group == event_versions::GROUP
    }

    /// Parses the body as JSON, YAML or CBOR, or, for a built-in kind, as protobuf. An event has the fields of the core
    /// group, and an autoscaler those of the stored version.
    pub(crate) fn document(&self) -> Result<Value, Failure> {
        let document = self.parse_body()?;
        if *self.method == Method::DELETE {
            return Ok(document);
        }
        if self.has_event_version() {
            return Ok(event_versions::to_core(document));
        }
        if !document.is_object() {
            return Ok(document);
        }
        let is_whole = *self.method != Method::PATCH || self.applies();
        Ok(if is_whole && self.has_autoscaler_version() { autoscaler::to_v2(document) } else { document })
    }

    /// Returns whether the request is about built-in autoscalers in the version that is not stored.
    pub(crate) fn has_autoscaler_version(&self) -> bool {
        let Target { group, version, .. } = self.target;
        self.target.is_autoscaler() && self.api.host.kinds().has_built_in_version(group, version)
    }

    fn parse_body(&self) -> Result<Value, Failure> {
        let unsupported = || {
            Failure::unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: application/json, \
                 application/yaml, application/vnd.kubernetes.protobuf",
            )
        };
        match self.content_type().to_ascii_lowercase().as_str() {
            protobuf::CONTENT_TYPE => {
                return protobuf::decode(&self.body).map_err(|error| match error {
                    protobuf::Error::UnknownKind(_) => unsupported(),
                    protobuf::Error::Malformed(_) => Failure::bad_request(format!("the body is not protobuf: {error}")),
                });
            }
            cbor::CONTENT_TYPE | cbor::APPLY_CONTENT_TYPE => {
                let malformed = |error| Failure::bad_request(format!("the body is not CBOR: {error}"));
                return cbor::decode(&self.body).map_err(malformed);
            }
            "" if self.headers.get(header::CONTENT_TYPE).is_none_or(|value| value.is_empty()) => {}
            "application/json" | "application/yaml" => {}
            patch if *self.method == Method::PATCH && patch.starts_with("application/") => {}
            _ => return Err(unsupported()),
        }
        if self.content_type().ends_with("yaml") && std::str::from_utf8(&self.body).is_err() {
            return Err(Failure::bad_request("error converting YAML to JSON: yaml: invalid leading UTF-8 octet"));
        }
        // As Go does for JSON, it replaces bytes that are not UTF-8.
        let text = String::from_utf8_lossy(&self.body);
        let not_json = match serde_json::from_str(&text) {
            Ok(document) => return Ok(document),
            Err(error) => error,
        };
        if !self.content_type().ends_with("yaml") {
            return Err(Failure::bad_request(format!("the body is not JSON: {not_json}")));
        }
        let text = first_document(&text);
        // In YAML, a tab is no indentation, except within braces.
        if !text.trim_start().starts_with('{') && text.lines().any(|line| line.starts_with('\t')) {
            return Err(Failure::bad_request("yaml: found character that cannot start any token"));
        }
        // `0644` is a file mode.
        let options = serde_saphyr::options! { legacy_octal_numbers: true };
        serde_saphyr::from_str_with_options(text, options).map_err(|error| match error.without_snippet() {
            serde_saphyr::Error::DuplicateMappingKey { key: Some(key), location } => {
                let line = location.line();
                Failure::bad_request(format!("error decoding YAML: line {line}: key {key:?} already set in map"))
            }
            error => Failure::bad_request(format!("the body is neither JSON nor YAML: {error}")),
        })
    }

    /// Returns whether the request is a server-side apply.
    pub(crate) fn applies(&self) -> bool {
        self.content_type().starts_with("application/apply-patch+")
    }

    /// Parses the patch in the body.
    pub(crate) fn change(&self) -> Result<Change, Failure> {
        match self.content_type() {
            "application/merge-patch+json" => Ok(Change::Merge(self.document()?)),
            "application/strategic-merge-patch+json" => Ok(Change::Strategic(self.document()?)),
            "application/json-patch+json" => {
                let patch = self.document()?;
                let count = patch.as_array().map_or(0, Vec::len);
                if count > OPERATIONS_MAX {
                    let words = "The allowed maximum operations in a JSON patch is";
                    return Err(Failure::too_large(format!("{words} {OPERATIONS_MAX}, got {count}")));
                }
                Ok(Change::Json(patch))
            }
            other => Err(Failure::unsupported_media_type(format!(
                "a patch of the type `{other}` is not supported here: use application/merge-patch+json, application/json-patch+json \
                 or application/strategic-merge-patch+json"
            ))),
        }
    }

    /// Responds with the new document of a kind that is not stored.
    pub(crate) fn created(&self, document: Value) -> Result<Response, Failure> {
        negotiate::check_whole(self.headers)?;
        Ok(respond(StatusCode::CREATED, document))
    }

    /// Returns the refusal of a method that the path does not have.
    pub(crate) fn not_allowed(&self) -> Failure {
        Failure::method_not_allowed(format!("{} is not supported at {}", self.method, self.uri.path()))
    }

    fn content_type(&self) -> &str {
        let value = self.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        value.split(';').next().unwrap_or_default().trim()
    }
}

/// One request for resources of a known kind.
pub(crate) struct ResourceRequest<'r> {
    pub(crate) http: &'r RequestContext<'r>,
    /// The kind, in the version that the client requested.
    pub(crate) info: &'r KindInfo,
    pub(crate) params: Params,
}

impl<'r> ResourceRequest<'r> {
    pub(crate) fn new(http: &'r RequestContext<'r>, info: &'r KindInfo) -> Result<Self, Failure> {
        let params = Params { options: params::options_of(http.method), ..Params::of(http.uri)? };
        params.check_numbers()?;
        Ok(Self { http, info, params })
    }

    /// Returns the selector of the resources that the request asks for.
    pub(crate) fn selector(&self) -> Result<Selector, Failure> {
        self.check_fields()?;
        Ok(self.in_stored_form(self.params.selector(self.http.target.namespace)?))
    }

    /// Refuses fields that a built-in kind cannot be selected by.
    fn check_fields(&self) -> Result<(), Failure> {
        if self.info.built_in().is_none() {
            return Ok(());
        }
        selectable_fields::check(&self.info.kind, self.http.has_event_version(), &self.params.fields()?)
    }

    /// Returns a selector with the fields that stored documents have. Events have those of the core group.
    fn in_stored_form(&self, mut selector: Selector) -> Selector {
        if self.info.built_in().is_some() {
            selectable_fields::in_stored_form(&self.info.kind, &mut selector);
        }
        if self.info.kind != event_versions::stored_kind() {
            return selector;
        }
        for (pointer, _) in selector.fields.iter_mut().chain(&mut selector.unequal_fields) {
            if self.http.has_event_version() {
                *pointer = event_versions::pointer_to_core(pointer);
            }
            // The selected source of an event is the program.
            if pointer == "/source" {
                pointer.push_str("/component");
            }
        }
        selector
    }

    /// Returns the query of a list.
    pub(crate) fn query(&self) -> Result<Query, Failure> {
        self.check_fields()?;
        let query = self.params.query(self.info.kind.clone(), self.http.target.namespace)?;
        Ok(Query { selector: self.in_stored_form(query.selector), ..query })
    }

    /// Returns what a deletion without a policy does to dependents.
    ///
    /// Source: `DefaultGarbageCollectionPolicy` in the registries of Kubernetes.
    pub(crate) fn default_propagation(&self) -> Propagation {
        let orphans = self.info.built_in().is_some_and(|known| {
            matches!((known.group.as_str(), known.name.as_str()), ("", "ReplicationController") | ("batch", "Job"))
        });
        if orphans { Propagation::Orphan } else { Propagation::Background }
    }

    /// Parses the options of a deletion, from the body, which may be protobuf, or from the query.
    pub(crate) fn deletion(&self) -> Result<DeleteOptions, Failure> {
        let body = if self.http.body.is_empty() { None } else { Some(self.http.document()?) };
        DeleteOptions::read(body, &self.params)
    }

    /// Returns a write with the options of this request.
    pub(crate) fn write(&self, write: Write) -> Result<Request, Failure> {
        Ok(self.write_options()?.request(write))
    }

    /// Makes a write on behalf of the sender. Webhooks see it, unless it is for a subresource other than the status.
    ///
    /// # Errors
    /// Those of the host.
    pub(crate) async fn submit(&self, write: Request) -> Result<WriteResponse, Error> {
        let host = &self.http.api.host;
        match self.http.target.subresource {
            None | Some("status" | "finalize" | "ephemeralcontainers" | "resize") => {
                host.write_as(write, &self.http.requester).await
            }
            Some(_) => host.write_unreviewed(write).await,
        }
    }

    /// Returns the options of all writes of this request. The manager is the `fieldManager` parameter, or
    /// else the program in `User-Agent`.
    pub(crate) fn write_options(&self) -> Result<WriteOptions, Failure> {
        let agent = self.http.headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        let program = agent.split(['/', ' ']).next().filter(|program| !program.is_empty()).unwrap_or("unknown");
        let manager = self.params.field_manager.as_deref().filter(|manager| !manager.is_empty()).unwrap_or(program);
        let manager = manager.chars().take(MANAGER_MAX).collect();
        self.params.check_field_manager()?;
        let (dry_run, unknown) = (self.params.is_dry_run()?, self.params.unknown()?);
        let subresource = self.http.target.subresource.and_then(Subresource::named);
        Ok(WriteOptions { manager, subresource, dry_run, unknown })
    }

    /// Returns the paths of duplicate fields in the body; none if field validation is `Ignore`.
    pub(crate) fn duplicates(&self) -> Result<Vec<String>, Failure> {
        let unknown = self.params.unknown()?;
        let binary = [protobuf::CONTENT_TYPE, cbor::CONTENT_TYPE, cbor::APPLY_CONTENT_TYPE];
        let is_json = !binary.contains(&self.http.content_type());
        Ok(if unknown == FieldValidation::Ignore || !is_json { Vec::new() } else { duplicates(&self.http.body) })
    }
}

/// Returns the first document of a text in YAML. As in Kubernetes, further ones are ignored.
fn first_document(text: &str) -> &str {
    let mut has_begun = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let is_marker = |marker| {
            line.strip_prefix(marker).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
        };
        if has_begun && (is_marker("---") || is_marker("...")) {
            return &text[..at];
        }
        has_begun |= !line.trim().is_empty() && !line.starts_with(['#', '%']);
        at += line.len();
    }
    text
}

/// The options that all writes of one request share.
#[derive(Clone, Debug)]
pub(crate) struct WriteOptions {
    manager: String,
    subresource: Option<Subresource>,
    pub(crate) dry_run: bool,
    unknown: FieldValidation,
}

impl WriteOptions {
    pub(crate) fn request(&self, write: Write) -> Request {
        let Self { manager, subresource, dry_run, unknown } = self.clone();
        Request { subresource, manager, dry_run, field_validation: unknown, ..write.into() }
    }

    /// Returns a change of a scale with these options. A scale has no unknown fields that could be kept.
    pub(crate) fn scale(self, key: Key, replicas: u64, precondition: Precondition) -> ScaleRequest {
        let Self { manager, subresource: _, dry_run, unknown: _ } = self;
        ScaleRequest { key, replicas, precondition, manager, dry_run }
    }
}
