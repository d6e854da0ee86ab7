//! Parses and validates a definition.

use serde_json::Value;

use super::{ColumnType, Definition, INDEXED_LABELS, Names, PRESENTATION, Presentation, PrinterColumn, Scale, Version};
use crate::fields::FieldReader;
use crate::jsonpath::JsonPath;
use crate::path::Path;
use crate::schema::Schema;
use crate::{Error, Result, VersionRank, validate};

const VERSIONS_MAX: usize = 100;
const COLUMNS_MAX: usize = 100;
/// Source: Kubernetes.
const SELECTABLE_FIELDS_MAX: usize = 8;
/// Together with the selectable fields, as many as a kind may have indexes.
const INDEXED_LABELS_MAX: usize = crate::INDEX_TERMS_MAX - SELECTABLE_FIELDS_MAX;
/// In bytes. Source: Kubernetes.
const DEPRECATION_BYTES_MAX: usize = 256;

/// Parses a whole definition.
pub(super) fn definition(document: &Value) -> Result<Definition> {
    validate::size("document", document)?;
    if !document.is_object() {
        return Err(Error::invalid("document", "must be a JSON object"));
    }
    let fields = FieldReader::of(document, Path::ROOT)?;
    let is = |name: &str, wanted: &str| match fields.required_text(name)? {
        found if found == wanted => Ok(()),
        _ => Err(fields.error(name, format!("must be {wanted}"))),
    };
    is("apiVersion", "apiextensions.k8s.io/v1")?;
    is("kind", "CustomResourceDefinition")?;
    let spec = fields.required_object("spec")?;
    let group = spec.required_text("group")?;
    validate::subdomain("spec.group", group)?;
    let names = names(&spec.required_object("names")?)?;
    let metadata = fields.required_object("metadata")?;
    let wanted = format!("{}.{group}", names.plural);
    let found = metadata.required_text("name")?;
    if found != wanted {
        let reason = format!("Invalid value: {found:?}: must be spec.names.plural+\".\"+spec.group");
        return Err(metadata.error("name", reason));
    }
    let namespaced = match spec.required_text("scope")? {
        "Namespaced" => true,
        "Cluster" => false,
        _ => return Err(spec.error("scope", "must be Cluster or Namespaced")),
    };
    if spec.flag("preserveUnknownFields")? {
        return Err(spec
            .error("preserveUnknownFields", "must be false: set x-kubernetes-preserve-unknown-fields in the schema"));
    }
    let conversion = super::conversion::conversion(&metadata, &spec)?;
    let versions = versions(&spec, group, &names.kind)?;
    let indexed_labels = indexed_labels(&metadata)?;
    Ok(Definition { group: group.to_owned(), names, namespaced, versions, conversion, indexed_labels })
}

fn indexed_labels(metadata: &FieldReader<'_>) -> Result<Vec<String>> {
    let Some(annotations) = metadata.object("annotations")? else { return Ok(Vec::new()) };
    let Some(text) = annotations.text(INDEXED_LABELS)? else { return Ok(Vec::new()) };
    let path = annotations.path().field(INDEXED_LABELS).to_string();
    let mut labels: Vec<String> = Vec::new();
    for label in text.split(',').map(str::trim).filter(|label| !label.is_empty()) {
        validate::label_name(&path, label)?;
        if !labels.iter().any(|known| known == label) {
            labels.push(label.to_owned());
        }
    }
    if labels.len() > INDEXED_LABELS_MAX {
        return Err(Error::invalid(path, format!("must name at most {INDEXED_LABELS_MAX} labels")));
    }
    Ok(labels)
}

/// Parses the presentation in a schema.
pub(super) fn presentation(schema: &Value) -> Result<Presentation> {
    let root = Path::ROOT;
    let fields = FieldReader::of(schema, root.field("openAPIV3Schema"))?;
    let Some(stated) = fields.object(PRESENTATION)? else { return Ok(Presentation::default()) };
    let columns = columns(&stated)?;
    let Some(names) = stated.object("names")? else { return Ok(Presentation { columns, ..Presentation::default() }) };
    let singular = names.text("singular")?.filter(|text| !text.is_empty());
    Ok(Presentation {
        singular: singular.map(|text| label(&names, "singular", text)).transpose()?,
        short_names: labels(&names, "shortNames")?,
        categories: labels(&names, "categories")?,
        columns,
    })
}

fn names(fields: &FieldReader<'_>) -> Result<Names> {
    let plural = label(fields, "plural", fields.required_text("plural")?)?;
    let kind = kind_name(fields, "kind", fields.required_text("kind")?)?;
    let or = |text: Option<&str>, other: String| match text {
        Some(text) if !text.is_empty() => text.to_owned(),
        _ => other,
    };
    let list_kind = or(fields.text("listKind")?, format!("{kind}List"));
    if list_kind == kind {
        return Err(fields.error("listKind", "must differ from kind"));
    }
    let singular = or(fields.text("singular")?, kind.to_lowercase());
    Ok(Names {
        list_kind: kind_name(fields, "listKind", &list_kind)?,
        singular: label(fields, "singular", &singular)?,
        short_names: labels(fields, "shortNames")?,
        categories: labels(fields, "categories")?,
        plural,
        kind,
    })
}

fn label(fields: &FieldReader<'_>, name: &str, text: &str) -> Result<String> {
    validate::dns_label(&fields.path().field(name).to_string(), text)?;
    Ok(text.to_owned())
}

fn labels(fields: &FieldReader<'_>, name: &str) -> Result<Vec<String>> {
    let texts = fields.texts(name)?;
    for (at, text) in texts.iter().enumerate() {
        validate::dns_label(&fields.path().field(name).item(at).to_string(), text)?;
    }
    Ok(texts)
}

fn kind_name(fields: &FieldReader<'_>, name: &str, text: &str) -> Result<String> {
    validate::kind_name(text).map_err(|error| match error {
        Error::Invalid { reason, .. } => fields.error(name, reason),
        other => other,
    })?;
    Ok(text.to_owned())
}

fn versions(spec: &FieldReader<'_>, group: &str, kind: &str) -> Result<Vec<Version>> {
    let sources = spec.list("versions")?;
    if sources.is_empty() || sources.len() > VERSIONS_MAX {
        return Err(spec.error("versions", format!("must name 1 to {VERSIONS_MAX} versions")));
    }
    let path = spec.path().field("versions");
    let mut versions: Vec<Version> = Vec::with_capacity(sources.len());
    for (at, source) in sources.iter().enumerate() {
        let version = version(&FieldReader::of(source, path.item(at))?, group, kind)?;
        if versions.iter().any(|known| known.name == version.name) {
            return Err(Error::invalid(
                path.item(at).field("name").to_string(),
                format!("`{}` is a duplicate", version.name),
            ));
        }
        versions.push(version);
    }
    if versions.iter().filter(|version| version.storage).count() != 1 {
        let names: Vec<&str> = versions.iter().map(|version| &*version.name).collect();
        let reason = format!("Invalid value: {names:?}: must have exactly one version marked as storage version");
        return Err(spec.error("versions", reason));
    }
    let supported = versions.iter().filter(|version| version.served && version.deprecation.is_none());
    let newest = supported
        .map(|version| version.name.clone())
        .min_by(|one, other| VersionRank::of(one).cmp(&VersionRank::of(other)));
    for (version, source) in versions.iter_mut().zip(sources) {
        let has_words = source.get("deprecationWarning").is_some_and(|words| !words.is_null());
        if let (Some(warning), Some(newest), false) = (&mut version.deprecation, &newest, has_words)
            && VersionRank::of(newest) < VersionRank::of(&version.name)
        {
            warning.push_str(&format!("; use {group}/{newest} {kind}"));
        }
    }
    Ok(versions)
}

fn version(fields: &FieldReader<'_>, group: &str, kind: &str) -> Result<Version> {
    let name = label(fields, "name", fields.required_text("name")?)?;
    let subresources = fields.object("subresources")?;
    let scale = match &subresources {
        Some(subresources) => subresources.object("scale")?.map(|scale| self::scale(&scale)).transpose()?,
        None => None,
    };
    Ok(Version {
        served: required_flag(fields, "served")?,
        storage: required_flag(fields, "storage")?,
        deprecation: deprecation(fields, &format!("{group}/{name} {kind}"))?,
        schema: schema(fields)?,
        has_status: subresources.is_some_and(|subresources| subresources.get("status").is_some()),
        scale,
        columns: columns(fields)?,
        selectable_fields: selectable_fields(fields)?,
        name,
    })
}

fn required_flag(fields: &FieldReader<'_>, name: &str) -> Result<bool> {
    match fields.get(name) {
        Some(Value::Bool(flag)) => Ok(*flag),
        _ => Err(fields.error(name, "must be true or false")),
    }
}

fn deprecation(fields: &FieldReader<'_>, what: &str) -> Result<Option<String>> {
    let warning = fields.text("deprecationWarning")?;
    match (fields.flag("deprecated")?, warning) {
        (false, None) => Ok(None),
        (false, Some(_)) => Err(fields.error("deprecationWarning", "can only be set where deprecated is true")),
        (true, None) => Ok(Some(format!("{what} is deprecated"))),
        (true, Some(text))
            if text.is_empty() || text.len() > DEPRECATION_BYTES_MAX || text.contains(char::is_control) =>
        {
            let reason = format!("must be 1 to {DEPRECATION_BYTES_MAX} bytes of text in one line");
            Err(fields.error("deprecationWarning", reason))
        }
        (true, Some(text)) => Ok(Some(text.to_owned())),
    }
}

fn schema(fields: &FieldReader<'_>) -> Result<Option<Schema>> {
    let Some(holder) = fields.object("schema")? else { return Ok(None) };
    let Some(source) = holder.get("openAPIV3Schema") else { return Ok(None) };
    Schema::parse(source).map(Some).map_err(|error| within(error, holder.path()))
}

/// Prepends a path to the path of an error.
fn within(error: Error, path: &Path<'_>) -> Error {
    match error {
        Error::Invalid { path: inner, reason } => Error::invalid(format!("{path}.{inner}"), reason),
        Error::TooLarge { what, bytes, bytes_max } => {
            Error::TooLarge { what: format!("{path}.{what}"), bytes, bytes_max }
        }
        other => other,
    }
}

fn scale(fields: &FieldReader<'_>) -> Result<Scale> {
    let below = |name: &str, roots: &[&str]| {
        let path = json_path(fields, name, fields.required_text(name)?)?;
        let pointer = path.pointer().unwrap_or_default().replace('/', ".");
        let is_below = roots.iter().any(|root| pointer.starts_with(root));
        if is_below { Ok(path) } else { Err(fields.error(name, format!("must be names below {}", roots.join(" or ")))) }
    };
    let label_selector = match fields.text("labelSelectorPath")? {
        Some(text) if !text.is_empty() => Some(below("labelSelectorPath", &[".spec.", ".status."])?),
        _ => None,
    };
    Ok(Scale {
        spec_replicas: below("specReplicasPath", &[".spec."])?,
        status_replicas: below("statusReplicasPath", &[".status."])?,
        label_selector,
    })
}

fn json_path(fields: &FieldReader<'_>, name: &str, text: &str) -> Result<JsonPath> {
    JsonPath::parse(text).map_err(|error| match error {
        Error::Invalid { reason, .. } => fields.error(name, reason),
        other => other,
    })
}

fn columns(fields: &FieldReader<'_>) -> Result<Vec<PrinterColumn>> {
    let sources = fields.list("additionalPrinterColumns")?;
    if sources.len() > COLUMNS_MAX {
        return Err(fields.error("additionalPrinterColumns", format!("must be at most {COLUMNS_MAX}")));
    }
    let path = fields.path().field("additionalPrinterColumns");
    let read = |(at, source)| column(&FieldReader::of(source, path.item(at))?);
    let columns: Vec<Option<PrinterColumn>> = sources.iter().enumerate().map(read).collect::<Result<_>>()?;
    // As there, those before it are shown.
    Ok(columns.into_iter().map_while(|column| column).collect())
}

/// Parses a column; `None` if its path begins as one, and has a form that is not supported.
fn column(fields: &FieldReader<'_>) -> Result<Option<PrinterColumn>> {
    let column_type = match fields.required_text("type")? {
        "integer" => ColumnType::Integer,
        "number" => ColumnType::Number,
        "string" => ColumnType::String,
        "boolean" => ColumnType::Boolean,
        "date" => ColumnType::Date,
        _ => return Err(fields.error("type", "must be integer, number, string, boolean or date")),
    };
    let priority = match fields.number("priority")? {
        None => 0,
        Some(number) => {
            let whole = number.as_i64().and_then(|number| i32::try_from(number).ok());
            whole.ok_or_else(|| fields.error("priority", "must be a whole number of 32 bits"))?
        }
    };
    let (name, path) = (fields.required_text("name")?, fields.required_text("jsonPath")?);
    let (format, description) = (fields.text("format")?.unwrap_or(""), fields.text("description")?.unwrap_or(""));
    if !path.starts_with('.') {
        return Err(fields.error("jsonPath", "must be a simple json path starting with ."));
    }
    Ok(JsonPath::parse(path).ok().map(|path| PrinterColumn {
        name: name.to_owned(),
        column_type,
        format: format.to_owned(),
        description: description.to_owned(),
        priority,
        path,
    }))
}

fn selectable_fields(fields: &FieldReader<'_>) -> Result<Vec<JsonPath>> {
    let sources = fields.list("selectableFields")?;
    if sources.len() > SELECTABLE_FIELDS_MAX {
        return Err(fields.error("selectableFields", format!("must be at most {SELECTABLE_FIELDS_MAX}")));
    }
    let path = fields.path().field("selectableFields");
    let read = |(at, source)| {
        let fields = FieldReader::of(source, path.item(at))?;
        let path = json_path(&fields, "jsonPath", fields.required_text("jsonPath")?)?;
        if path.is_plain() { Ok(path) } else { Err(fields.error("jsonPath", "must be names alone, as .spec.color")) }
    };
    sources.iter().enumerate().map(read).collect()
}
