//! References to resources, as documents write them. Pure.
//!
//! A reference is `name`, `namespace/name`, or an object with the fields of Kubernetes' references. An empty or
//! absent field says nothing, except for `group` and `apiGroup`: the core group is empty.
//! Source: `ObjectReference`, `TypedLocalObjectReference` and `TypedObjectReference` of Kubernetes' core API.

use homeostat_store::Kind;
use serde_json::Value;

/// A reference to a resource. Its parts are not checked: a key made of them can be invalid.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Reference<'v> {
    /// The group of the kind; `None` for any.
    pub(super) group: Option<&'v str>,
    /// The name of the kind; `None` for any.
    pub(super) kind: Option<&'v str>,
    /// `None` if the reference has no namespace.
    pub(super) namespace: Option<&'v str>,
    /// The name of the resource. Not empty.
    pub(super) name: &'v str,
}

impl<'v> Reference<'v> {
    /// Parses `name` or `namespace/name`. Returns `None` for another text.
    pub(super) fn from_text(text: &'v str) -> Option<Self> {
        let (namespace, name) = match text.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, text),
        };
        let is_complete = namespace != Some("") && !name.is_empty() && !name.contains('/');
        is_complete.then_some(Self { group: None, kind: None, namespace, name })
    }

    /// Returns the reference in a JSON text or object. Returns `None` for another value, for an object whose fields
    /// are no texts, and for one with two different groups.
    pub(super) fn from_value(value: &'v Value) -> Option<Self> {
        if let Value::String(text) = value {
            return Self::from_text(text);
        }
        value.as_object()?;
        let filled = |field: &str| text(value, field).map(|text| text.filter(|text| !text.is_empty()));
        let of_version = filled("apiVersion")?.map(|version| version.split_once('/').map_or("", |(group, _)| group));
        let mut groups = [of_version, text(value, "group")?, text(value, "apiGroup")?].into_iter().flatten();
        let group = groups.next();
        if groups.any(|other| Some(other) != group) {
            return None;
        }
        Some(Self { group, kind: filled("kind")?, namespace: filled("namespace")?, name: filled("name")?? })
    }

    /// Returns whether the reference can mean a resource of this kind, in any version.
    pub(super) fn may_mean(&self, kind: &Kind) -> bool {
        self.kind.is_none_or(|name| kind.name == name) && self.group.is_none_or(|group| kind.group == group)
    }
}

/// Returns the text of a field, `Some(None)` if the field is absent or null, and `None` if it is no text.
fn text<'v>(object: &'v Value, field: &str) -> Option<Option<&'v str>> {
    match object.get(field) {
        None | Some(Value::Null) => Some(None),
        Some(value) => value.as_str().map(Some),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn named<'v>(namespace: Option<&'v str>, name: &'v str) -> Reference<'v> {
        Reference { group: None, kind: None, namespace, name }
    }

    #[test]
    fn a_text_is_a_name_or_a_namespace_and_a_name() {
        assert_eq!(Reference::from_text("a"), Some(named(None, "a")));
        assert_eq!(Reference::from_text("shop/a"), Some(named(Some("shop"), "a")));
        for other in ["", "/", "/a", "shop/", "shop/a/b"] {
            assert_eq!(Reference::from_text(other), None, "{other:?}");
        }
    }

    #[test]
    fn an_object_has_the_fields_of_references_in_kubernetes() {
        let object =
            json!({ "apiVersion": "demo.dev/v2", "kind": "App", "namespace": "shop", "name": "a", "uid": "u" });
        let wanted = Reference { group: Some("demo.dev"), kind: Some("App"), namespace: Some("shop"), name: "a" };
        assert_eq!(Reference::from_value(&object), Some(wanted));
        for field in ["group", "apiGroup"] {
            let object = json!({ field: "demo.dev", "kind": "App", "namespace": "shop", "name": "a" });
            assert_eq!(Reference::from_value(&object), Some(wanted));
        }
        let object = json!({ "apiVersion": "v1", "name": "a", "kind": "", "namespace": null });
        assert_eq!(Reference::from_value(&object), Some(Reference { group: Some(""), ..named(None, "a") }));
        let agreed = json!({ "apiVersion": "v1", "group": "", "name": "a" });
        assert_eq!(Reference::from_value(&agreed), Some(Reference { group: Some(""), ..named(None, "a") }));
    }

    #[test]
    fn a_value_that_names_no_resource_is_no_reference() {
        for value in [
            json!(3),
            json!([]),
            json!({}),
            json!({ "name": "" }),
            json!({ "name": 3 }),
            json!({ "name": "a", "namespace": 3 }),
            json!({ "name": "a", "kind": ["App"] }),
            json!({ "name": "a", "apiVersion": "demo.dev/v1", "group": "other.dev" }),
        ] {
            assert_eq!(Reference::from_value(&value), None, "{value}");
        }
    }

    #[test]
    fn a_reference_means_kinds_of_its_name_and_group_in_every_version() {
        let kind = Kind::new("demo.dev", "v1", "App");
        let reference = |group, kind| Reference { group, kind, ..named(None, "a") };
        assert!(reference(None, None).may_mean(&kind));
        assert!(reference(Some("demo.dev"), Some("App")).may_mean(&kind));
        assert!(!reference(Some(""), Some("App")).may_mean(&kind));
        assert!(!reference(None, Some("Part")).may_mean(&kind));
    }
}
