//! Selectors: conditions on the resources of a kind.

mod parse;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Error, Resource, Result, validate};

/// One condition on a label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LabelRequirement {
    /// The label has this value.
    Equals(String, String),
    /// The label is absent, or has another value.
    NotEquals(String, String),
    /// The label has one of these values. At most 64.
    OneOf(String, Vec<String>),
    /// The label is absent, or has none of these values. At most 64.
    NoneOf(String, Vec<String>),
    /// The label is present, with any value.
    Exists(String),
    /// The label is absent.
    Absent(String),
    /// The label is a whole number above this one. No guest can ask so.
    GreaterThan(String, i64),
    /// The label is a whole number below this one. No guest can ask so.
    LessThan(String, i64),
}

/// Conditions on a resource; all of them must hold. The default selects every resource.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Selector {
    /// The namespace; `None` means all namespaces.
    pub namespace: Option<String>,
    /// Conditions on labels. At most 64.
    pub labels: Vec<LabelRequirement>,
    /// JSON pointer (RFC 6901) and the expected string, as `("/spec/nodeName", "a")`. A number or boolean is
    /// compared by its JSON text; a missing field counts as empty. At most 16.
    pub fields: Vec<(String, String)>,
    /// As `fields`, for fields that must not have the string. At most 16.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unequal_fields: Vec<(String, String)>,
    /// Only resources that have an owner reference to this uid. Stores keep an index for it.
    pub owner: Option<String>,
}

const REQUIREMENTS_MAX: usize = 64;
const VALUES_MAX: usize = 64;
const FIELDS_MAX: usize = 16;

/// The program that is the source of an event.
const EVENT_SOURCE: &str = "/source/component";

/// Returns the text that a selector compares with a field: that of a string, and the JSON text of a number or boolean. A
/// missing field counts as empty. `None` for an array or an object, which no selector selects.
fn field_text(field: Option<&Value>) -> Option<Cow<'_, str>> {
    match field {
        None | Some(Value::Null) => Some(Cow::Borrowed("")),
        Some(Value::String(text)) => Some(Cow::Borrowed(text)),
        Some(Value::Bool(switch)) => Some(Cow::Borrowed(if *switch { "true" } else { "false" })),
        Some(Value::Number(number)) => Some(Cow::Owned(number.to_string())),
        Some(Value::Array(_) | Value::Object(_)) => None,
    }
}

/// Returns the text of a field of a resource, as a selector compares it. As in Kubernetes, the source of an event that names none
/// is the controller that reports it. `None` for an array or an object, which no selector selects.
pub fn selected_field<'r>(resource: &'r Resource, pointer: &str) -> Option<Cow<'r, str>> {
    let text = field_text(resource.document().pointer(pointer));
    let kind = resource.key().kind();
    if pointer == EVENT_SOURCE && kind.name == "Event" && kind.group.is_empty() && text.as_deref() == Some("") {
        return field_text(resource.document().pointer("/reportingComponent"));
    }
    text
}

impl Selector {
    /// Returns whether it selects every resource of its namespace, or of all namespaces.
    pub fn is_unconditional(&self) -> bool {
        let Self { namespace: _, labels, fields, unequal_fields, owner } = self;
        labels.is_empty() && fields.is_empty() && unequal_fields.is_empty() && owner.is_none()
    }

    /// Returns the total size of its texts, in bytes.
    pub fn bytes(&self) -> u64 {
        let Self { namespace, labels, fields: _, unequal_fields: _, owner } = self;
        let all = |texts: &[String]| texts.iter().map(String::len).sum::<usize>();
        let label = |requirement: &LabelRequirement| match requirement {
            LabelRequirement::Equals(label, value) | LabelRequirement::NotEquals(label, value) => {
                label.len() + value.len()
            }
            LabelRequirement::OneOf(label, values) | LabelRequirement::NoneOf(label, values) => {
                label.len() + all(values)
            }
            LabelRequirement::Exists(label) | LabelRequirement::Absent(label) => label.len(),
            LabelRequirement::GreaterThan(label, _) | LabelRequirement::LessThan(label, _) => {
                label.len() + size_of::<i64>()
            }
        };
        let labels: usize = labels.iter().map(label).sum();
        let fields: usize = self.all_fields().map(|(pointer, value)| pointer.len() + value.len()).sum();
        let others = namespace.as_ref().map_or(0, String::len) + owner.as_ref().map_or(0, String::len);
        (labels + fields + others) as u64
    }

    /// Returns the fields that the conditions name, with the strings that they must or must not have.
    pub fn all_fields(&self) -> impl Iterator<Item = &(String, String)> {
        self.fields.iter().chain(&self.unequal_fields)
    }

    /// Returns the selector that a `LabelSelector` of Kubernetes describes; `None` if it is malformed.
    pub fn of_labels(selector: &Value) -> Option<Self> {
        let mut labels = Vec::new();
        for (name, value) in selector["matchLabels"].as_object().into_iter().flatten() {
            labels.push(LabelRequirement::Equals(name.clone(), value.as_str()?.to_owned()));
        }
        for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
            let name = expression["key"].as_str()?.to_owned();
            let values = expression["values"].as_array().into_iter().flatten();
            let values: Vec<String> = values.map(|value| value.as_str().map(str::to_owned)).collect::<Option<_>>()?;
            labels.push(match expression["operator"].as_str()? {
                "In" => LabelRequirement::OneOf(name, values),
                "NotIn" => LabelRequirement::NoneOf(name, values),
                "Exists" => LabelRequirement::Exists(name),
                "DoesNotExist" => LabelRequirement::Absent(name),
                _ => return None,
            });
        }
        Some(Self { labels, ..Self::default() })
    }

    /// Returns the conditions on labels as clients write them, sorted by the name of the label: `a=b,c in (d,e),!f`.
    pub fn labels_text(&self) -> String {
        let mut requirements = self.labels.clone();
        for requirement in &mut requirements {
            if let LabelRequirement::OneOf(_, values) | LabelRequirement::NoneOf(_, values) = requirement {
                values.sort_unstable();
            }
        }
        requirements.sort_by(|one, other| one.name().cmp(other.name()));
        requirements.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    /// Returns whether the conditions on labels hold for those of a document.
    pub fn matches_labels(&self, document: &Value) -> bool {
        let labels = &document["metadata"]["labels"];
        self.labels.iter().all(|requirement| requirement.matches(labels[requirement.name()].as_str()))
    }

    /// Returns whether every condition holds for the resource.
    pub fn matches(&self, resource: &Resource) -> bool {
        let Self { namespace, labels, fields, unequal_fields, owner } = self;
        namespace.as_ref().is_none_or(|namespace| namespace == resource.key().namespace())
            && labels.iter().all(|requirement| requirement.matches(resource.label(requirement.name())))
            && fields
                .iter()
                .all(|(pointer, wanted)| selected_field(resource, pointer).is_some_and(|text| text == wanted.as_str()))
            && unequal_fields.iter().all(|(pointer, unwanted)| {
                selected_field(resource, pointer).is_none_or(|text| text != unwanted.as_str())
            })
            && owner.as_ref().is_none_or(|uid| resource.owners().iter().any(|owner| owner.uid == *uid))
    }

    /// Parses label requirements in the syntax of kubectl: `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`. Empty text
    /// has none.
    ///
    /// # Errors
    /// `Invalid` with the path `labelSelector`.
    pub fn parse_labels(text: &str) -> Result<Vec<LabelRequirement>> {
        parse::labels(text)
    }

    /// Checks the bounds and the syntax of every condition.
    ///
    /// # Errors
    /// `Invalid` with the path of the condition, as `labels[2]`.
    pub fn validate(&self) -> Result<()> {
        bounded("labels", self.labels.len(), REQUIREMENTS_MAX)?;
        bounded("fields", self.fields.len(), FIELDS_MAX)?;
        bounded("unequalFields", self.unequal_fields.len(), FIELDS_MAX)?;
        for (at, requirement) in self.labels.iter().enumerate() {
            requirement.validate(&format!("labels[{at}]"))?;
        }
        for (at, (pointer, _)) in self.all_fields().enumerate() {
            if !pointer.starts_with('/') {
                return Err(Error::invalid(format!("fields[{at}]"), "must be a JSON pointer that begins with /"));
            }
        }
        Ok(())
    }
}

impl LabelRequirement {
    /// Returns the name of the label.
    pub fn name(&self) -> &str {
        match self {
            Self::Equals(name, _)
            | Self::NotEquals(name, _)
            | Self::OneOf(name, _)
            | Self::NoneOf(name, _)
            | Self::Exists(name)
            | Self::Absent(name)
            | Self::GreaterThan(name, _)
            | Self::LessThan(name, _) => name,
        }
    }

    /// Returns whether the condition holds for a label value; `None` for an absent label.
    pub fn matches(&self, value: Option<&str>) -> bool {
        let among = |values: &[String]| value.is_some_and(|value| values.iter().any(|one| one == value));
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::Equals(_, wanted) => value == Some(wanted),
            Self::NotEquals(_, unwanted) => value != Some(unwanted),
            Self::OneOf(_, wanted) => among(wanted),
            Self::NoneOf(_, unwanted) => !among(unwanted),
            Self::Exists(_) => value.is_some(),
            Self::Absent(_) => value.is_none(),
            Self::GreaterThan(_, bound) => number().is_some_and(|number| number > *bound),
            Self::LessThan(_, bound) => number().is_some_and(|number| number < *bound),
        }
    }

    fn validate(&self, path: &str) -> Result<()> {
        validate::label_name(path, self.name())?;
        match self {
            Self::Equals(_, value) | Self::NotEquals(_, value) => validate::label_value(path, value),
            Self::OneOf(_, values) | Self::NoneOf(_, values) => {
                bounded(path, values.len(), VALUES_MAX)?;
                if values.is_empty() {
                    return Err(Error::invalid(path, "must name at least one value"));
                }
                values.iter().try_for_each(|value| validate::label_value(path, value))
            }
            Self::Exists(_) | Self::Absent(_) | Self::GreaterThan(..) | Self::LessThan(..) => Ok(()),
        }
    }
}

impl fmt::Display for LabelRequirement {
    /// Writes the form that [`Selector::parse_labels`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equals(name, value) => write!(f, "{name}={value}"),
            Self::NotEquals(name, value) => write!(f, "{name}!={value}"),
            Self::OneOf(name, values) => write!(f, "{name} in ({})", values.join(",")),
            Self::NoneOf(name, values) => write!(f, "{name} notin ({})", values.join(",")),
            Self::Exists(name) => f.write_str(name),
            Self::Absent(name) => write!(f, "!{name}"),
            Self::GreaterThan(name, bound) => write!(f, "{name}>{bound}"),
            Self::LessThan(name, bound) => write!(f, "{name}<{bound}"),
        }
    }
}

fn bounded(path: &str, count: usize, count_max: usize) -> Result<()> {
    if count > count_max {
        return Err(Error::invalid(path, format!("has {count} entries, the limit is {count_max}")));
    }
    Ok(())
}
