//! The settings of a store in a NATS bucket, as written.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use homeostat_api::read_private;
use homeostat_component::is_secret_name;
use homeostat_nats::BucketSettings;
use homeostat_nats::settings::{
    Api, Create, Credentials, ForeignBucket, SecretSource, StatusForm, StatusPlace, Tls, ValueForm,
};
use homeostat_runtime::manifest::{Bytes, Span};
use homeostat_store::Kind;
use serde::Deserialize;

use super::checks::{Context, Fault};

/// A bucket, and how to get there.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NatsEntry {
    /// The servers, as `tls://nats-0:4222`.
    servers: Vec<String>,
    credentials: Option<CredentialsEntry>,
    #[serde(default)]
    tls: TlsEntry,
    /// The JetStream domain.
    domain: Option<String>,
    /// The prefix of a JetStream that another account exports.
    api_prefix: Option<String>,
    bucket: String,
    /// Before the keys inside the bucket, so that several sets of resources can share it.
    #[serde(default)]
    prefix: String,
    /// How to create the bucket; without it, the bucket has to exist.
    create: Option<CreateEntry>,
    /// How long the marker of a deletion stays.
    markers: Option<Span>,
    /// The warnings of the checks that the operator has accepted.
    #[serde(default)]
    accept: BTreeSet<String>,
    /// Kinds whose resources follow the values of other programs.
    #[serde(default)]
    foreign: Vec<ForeignEntry>,
}

/// A kind whose resources follow the values that other programs write to a bucket.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ForeignEntry {
    /// `GROUP/VERSION/KIND`, or `v1/KIND`.
    kind: String,
    #[serde(default)]
    namespaced: bool,
    bucket: String,
    /// The form of its keys, as `{namespace}/{name}`.
    key: String,
    #[serde(default)]
    value: ValueEntry,
    status: Option<StatusEntry>,
}

/// What a value is.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum ValueEntry {
    #[default]
    Spec,
    Document,
}

/// Where a status goes: to a key of a bucket, or to a field of the value.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct StatusEntry {
    bucket: Option<String>,
    key: Option<String>,
    /// Writes the status without the generation that it is about.
    bare: bool,
    /// A JSON pointer.
    field: Option<String>,
}

/// Who the host is: one of four forms.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct CredentialsEntry {
    /// A credentials file.
    file: Option<PathBuf>,
    /// The seed of an NKey.
    nkey: Option<SecretEntry>,
    user: Option<String>,
    password: Option<SecretEntry>,
    token: Option<SecretEntry>,
}

/// A secret of the folder `--secrets`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretEntry {
    secret: String,
}

/// The encryption of the connection.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct TlsEntry {
    required: bool,
    first: bool,
    authority: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

/// A bucket that does not exist yet.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CreateEntry {
    replicas: Option<u8>,
    history: Option<u8>,
    #[serde(default)]
    storage: StorageEntry,
    #[serde(default)]
    compression: bool,
    bytes_max: Option<Bytes>,
}

/// Where the servers keep the bucket.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase")]
enum StorageEntry {
    #[default]
    File,
    Memory,
}

impl NatsEntry {
    /// Returns the settings of the store with this name.
    pub(super) fn settings(&self, name: &str, context: &Context<'_>) -> Result<BucketSettings, Fault> {
        let defaults = BucketSettings::new("", self.bucket.as_str());
        let settings = BucketSettings {
            name: name.to_owned(),
            servers: self.servers.clone(),
            credentials: self.credentials.as_ref().map(|entry| entry.settings(context)).transpose()?,
            tls: self.tls.settings(context)?,
            api: self.api()?,
            prefix: self.prefix.clone(),
            create: self.create.as_ref().map(CreateEntry::settings),
            markers: self.markers.map_or(defaults.markers, |span| span.0),
            accept: self.accept.clone(),
            foreign: self.foreign()?,
            ..defaults
        };
        settings.check().map_err(Fault::of)?;
        Ok(settings)
    }

    fn api(&self) -> Result<Api, Fault> {
        match (&self.domain, &self.api_prefix) {
            (None, None) => Ok(Api::Account),
            (Some(domain), None) => Ok(Api::Domain(domain.clone())),
            (None, Some(prefix)) => Ok(Api::Prefix(prefix.clone())),
            (Some(_), Some(_)) => Err(Fault::new("apiPrefix", "`domain` and `apiPrefix` exclude each other")),
        }
    }
}

impl NatsEntry {
    fn foreign(&self) -> Result<Vec<ForeignBucket>, Fault> {
        let binding = |(at, entry): (usize, &ForeignEntry)| entry.settings(&format!("foreign.{at}"));
        self.foreign.iter().enumerate().map(binding).collect()
    }
}

impl ForeignEntry {
    fn settings(&self, path: &str) -> Result<ForeignBucket, Fault> {
        let (api_version, name) = self.kind.rsplit_once('/').unwrap_or(("", &self.kind));
        let kind = Kind::parse(api_version, name)
            .map_err(|error| Fault::new(&format!("{path}.kind"), format!("expected GROUP/VERSION/KIND: {error}")))?;
        let status = match &self.status {
            None => StatusPlace::Nowhere,
            Some(StatusEntry { bucket: Some(bucket), key: Some(key), bare, field: None }) => StatusPlace::Bucket {
                bucket: bucket.clone(),
                key: key.clone(),
                form: if *bare { StatusForm::Bare } else { StatusForm::Wrapped },
            },
            Some(StatusEntry { bucket: None, key: None, bare: false, field: Some(field) }) => {
                StatusPlace::Field(field.clone())
            }
            Some(_) => {
                return Err(Fault::new(&format!("{path}.status"), "expected `bucket` with `key`, or `field`"));
            }
        };
        let value = match self.value {
            ValueEntry::Spec => ValueForm::Spec,
            ValueEntry::Document => ValueForm::Document,
        };
        let (bucket, key) = (self.bucket.clone(), self.key.clone());
        Ok(ForeignBucket { kind, namespaced: self.namespaced, bucket, key, value, status })
    }
}

impl CredentialsEntry {
    fn settings(&self, context: &Context<'_>) -> Result<Credentials, Fault> {
        let secret = |field: &str, entry: &SecretEntry| secret(&format!("credentials.{field}.secret"), entry, context);
        match self {
            Self { file: Some(file), nkey: None, user: None, password: None, token: None } => {
                Ok(Credentials::File(private_file(context.path(file))))
            }
            Self { file: None, nkey: Some(nkey), user: None, password: None, token: None } => {
                Ok(Credentials::Nkey(secret("nkey", nkey)?))
            }
            Self { file: None, nkey: None, user: Some(name), password: Some(password), token: None } => {
                Ok(Credentials::User { name: name.clone(), password: secret("password", password)? })
            }
            Self { file: None, nkey: None, user: None, password: None, token: Some(token) } => {
                Ok(Credentials::Token(secret("token", token)?))
            }
            _ => Err(Fault::new("credentials", "expected one of: `file`; `nkey`; `user` with `password`; `token`")),
        }
    }
}

/// Returns the source of a secret in the folder of secrets.
fn secret(path: &str, SecretEntry { secret }: &SecretEntry, context: &Context<'_>) -> Result<SecretSource, Fault> {
    if !is_secret_name(secret) {
        return Err(Fault::new(path, format!("{secret:?} is not a valid secret name")));
    }
    let Some(folder) = context.secrets else {
        return Err(Fault::new(path, "secrets come from the folder of `--secrets`, which is not set"));
    };
    Ok(private_file(folder.join(secret)))
}

/// Reads a file that only its owner can read, at each call. Errors do not contain the secret.
fn private_file(path: PathBuf) -> SecretSource {
    Arc::new(move || read_secret(&path).map_err(|error| format!("{}: {error}", path.display())))
}

fn read_secret(path: &Path) -> Result<String, String> {
    let bytes = read_private(path).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

impl TlsEntry {
    fn settings(&self, context: &Context<'_>) -> Result<Tls, Fault> {
        let path = |path: &PathBuf| context.path(path);
        let certificate = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Some((path(certificate), path(key))),
            (None, None) => None,
            _ => return Err(Fault::new("tls", "`certificate` and `key` need each other")),
        };
        let authority = self.authority.as_ref().map(path);
        Ok(Tls { required: self.required, first: self.first, authority, certificate })
    }
}

impl CreateEntry {
    fn settings(&self) -> Create {
        let defaults = Create::default();
        Create {
            replicas: self.replicas.unwrap_or(defaults.replicas),
            history: self.history.unwrap_or(defaults.history),
            memory: self.storage == StorageEntry::Memory,
            compression: self.compression,
            bytes_max: self.bytes_max.map(|bytes| bytes.0),
        }
    }
}
