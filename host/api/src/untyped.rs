//! The items of a list of a kind for which Kubernetes has a Go type: without `apiVersion` and `kind`, as an API server
//! sends them. Pure.

use homeostat_store::Kind;
use memchr::memmem;
use serde_json::Value;

/// Appends the text of a stored document without its `apiVersion` and `kind`.
pub(crate) fn append(document: &str, kind: &Kind, text: &mut Vec<u8>) {
    match without_kind(document, kind) {
        Some((head, tail)) => {
            text.push(b'{');
            // The comma before the removed kind stays where something is before it.
            text.extend_from_slice(head.as_bytes());
            text.extend_from_slice(if head.is_empty() { &tail.as_bytes()[1..] } else { tail.as_bytes() });
        }
        None => {
            let mut value = serde_json::from_str(document).expect("a stored document is JSON");
            remove(&mut value);
            text.extend_from_slice(value.to_string().as_bytes());
        }
    }
}

/// Removes `apiVersion` and `kind`.
pub(crate) fn remove(document: &mut Value) {
    if let Some(fields) = document.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
}

/// Returns two parts of a document: the fields between its `apiVersion` and its `kind`, and the text after its `kind`, from
/// the comma on. Returns `None` if `apiVersion` is not its first field, or the text does not tell which `kind` is its own.
///
/// Within a text of JSON, quotes are escaped, so each match is a field. If there is one match, it is that of the document.
fn without_kind<'t>(document: &'t str, kind: &Kind) -> Option<(&'t str, &'t str)> {
    let first = format!("{{\"apiVersion\":\"{}\"", kind.api_version());
    let rest = document.strip_prefix(&first)?;
    let own = format!(",\"kind\":\"{}\"", kind.name);
    let at = memmem::find(rest.as_bytes(), own.as_bytes())?;
    if memmem::rfind(rest.as_bytes(), own.as_bytes()) != Some(at) {
        return None;
    }
    let (head, tail) = (&rest[..at], &rest[at + own.len()..]);
    tail.starts_with(',').then_some((head.strip_prefix(',').unwrap_or(head), tail))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn appended(document: &Value) -> Value {
        let (kind, mut text) = (Kind::new("", "v1", "Pod"), Vec::new());
        append(&document.to_string(), &kind, &mut text);
        serde_json::from_slice(&text).expect("it is JSON")
    }

    #[test]
    fn an_item_has_no_kind_of_its_own() {
        let owner = json!({ "apiVersion": "v1", "kind": "Node", "name": "n" });
        let metadata = json!({ "name": "p", "annotations": { "a": ",\"kind\":\"Pod\"" }, "ownerReferences": [owner] });
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {} });
        assert_eq!(appended(&pod), json!({ "metadata": metadata, "spec": {} }));
        let early = json!({ "apiVersion": "v1", "data": { "a": 1 }, "kind": "Pod", "metadata": metadata });
        assert_eq!(appended(&early), json!({ "data": { "a": 1 }, "metadata": metadata }));
    }

    #[test]
    fn a_kind_of_another_object_stays() {
        let other = json!({ "apiVersion": "v1", "kind": "Pod", "name": "q" });
        for document in [
            json!({ "apiVersion": "v1", "data": other, "kind": "Pod", "metadata": {} }),
            json!({ "action": "a", "apiVersion": "v1", "kind": "Pod", "regarding": other }),
            json!({ "apiVersion": "v1", "kind": "Pod" }),
        ] {
            let mut wanted = document.clone();
            remove(&mut wanted);
            assert_eq!(appended(&document), wanted);
        }
    }
}
