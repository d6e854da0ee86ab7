//! The violations of a resource, collected field by field, in the words of Kubernetes.

use homeostat_store::Subresource;
use homeostat_store::schema::{Reason, Violation};
use serde_json::Value;

/// Most causes that are collected. An answer has fewer.
const FOUND_MAX: usize = 100;

/// How long a token of a service account may be valid, in seconds.
const TOKEN_SECONDS_MIN: i64 = 600;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;

/// A resource under validation.
pub(super) struct Report<'r> {
    pub(super) resource: &'r Value,
    /// The resource before the write; `None` when it is created.
    pub(super) old: Option<&'r Value>,
    /// The subresource that the write is about; `None` for the resource itself.
    pub(super) subresource: Option<Subresource>,
    pub(super) found: Vec<Violation>,
}

impl<'r> Report<'r> {
    pub(super) fn new(resource: &'r Value, old: Option<&'r Value>, subresource: Option<Subresource>) -> Self {
        Self { resource, old, subresource, found: Vec::new() }
    }

    /// Returns the value at a JSON pointer; null if there is none.
    pub(super) fn at(&self, pointer: &str) -> &'r Value {
        self.resource.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// Adds a cause. Of more than an answer has, none is needed.
    fn add(&mut self, path: impl Into<String>, reason: Reason, detail: impl FnOnce() -> String) {
        if self.found.len() >= FOUND_MAX {
            return;
        }
        let detail = detail();
        self.found.push(Violation { path: path.into(), reason, detail });
    }

    pub(super) fn required(&mut self, path: impl Into<String>, detail: &str) {
        self.add(path, Reason::Required, || detail.to_owned());
    }

    pub(super) fn invalid(&mut self, path: impl Into<String>, value: &Value, detail: &str) {
        self.add(path, Reason::Invalid, || format!("{}: {detail}", shown(value)));
    }

    /// Adds a fault of a value that is not shown.
    pub(super) fn invalid_whole(&mut self, path: impl Into<String>, detail: &str) {
        self.add(path, Reason::Invalid, || detail.to_owned());
    }

    pub(super) fn internal(&mut self, path: impl Into<String>, detail: &str) {
        self.add(path, Reason::Internal, || detail.to_owned());
    }

    pub(super) fn forbidden(&mut self, path: impl Into<String>, detail: &str) {
        self.add(path, Reason::Forbidden, || detail.to_owned());
    }

    pub(super) fn duplicate(&mut self, path: impl Into<String>, value: &Value) {
        self.add(path, Reason::Duplicate, || shown(value));
    }

    pub(super) fn duplicate_with(&mut self, path: impl Into<String>, value: &Value, detail: &str) {
        self.add(path, Reason::Duplicate, || format!("{}: {detail}", shown(value)));
    }

    pub(super) fn not_found(&mut self, path: impl Into<String>, value: &Value) {
        self.add(path, Reason::NotFound, || shown(value));
    }

    pub(super) fn not_found_with(&mut self, path: impl Into<String>, value: &Value, detail: &str) {
        self.add(path, Reason::NotFound, || format!("{}: {detail}", shown(value)));
    }

    pub(super) fn unsupported(&mut self, path: impl Into<String>, value: &Value, supported: &[&str]) {
        let listed = || supported.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>();
        self.add(path, Reason::Unsupported, || format!("{}: supported values: {}", shown(value), listed().join(", ")));
    }

    pub(super) fn too_many(&mut self, path: &str, count: usize, count_max: usize) {
        self.add(path, Reason::TooMany, || format!("{count}: must have at most {count_max} items"));
    }

    pub(super) fn too_long(&mut self, path: impl Into<String>, bytes_max: usize) {
        self.add(path, Reason::TooLong, || format!("may not be more than {bytes_max} bytes"));
    }

    /// Checks that numbers, if they are present, are not negative. A name is that of a field of the object at `pointer`.
    pub(super) fn not_negative(&mut self, pointer: &str, names: &[&str]) {
        for name in names {
            let value = self.at(&format!("{pointer}/{name}"));
            if value.as_i64().is_some_and(|number| number < 0) {
                let path = format!("{}.{name}", path(pointer));
                self.invalid(path.trim_start_matches('.'), value, "must be greater than or equal to 0");
            }
        }
    }

    /// Checks the life of a token, if it is given.
    pub(super) fn token_seconds(&mut self, path: String, seconds: &Value) {
        let bound = match seconds.as_i64() {
            Some(..TOKEN_SECONDS_MIN) => "less than 10 minutes",
            Some(number) if number > TOKEN_SECONDS_MAX => "larger than 2^32 seconds",
            _ => return,
        };
        self.invalid(path, seconds, &format!("may not specify a duration {bound}"));
    }

    /// Checks a count, or a part of a hundred as `25%`.
    pub(super) fn count_or_percent(&mut self, path: &str, value: &Value) {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match value {
            Value::String(text) if !text.strip_suffix('%').is_some_and(digits) => {
                let detail = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
                    '93%', regex used for validation is '[0-9]+%')";
                self.invalid(path, value, detail);
            }
            Value::Number(number) if number.as_i64().is_some_and(|count| count < 0) => {
                self.invalid(path, value, "must be greater than or equal to 0");
            }
            _ => {}
        }
    }

    /// Checks a count, or a part of a hundred that is at most all of it.
    pub(super) fn count_or_part(&mut self, path: &str, value: &Value) {
        self.count_or_percent(path, value);
        let percent = value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<u64>().ok());
        if percent.is_some_and(|percent| percent > 100) {
            self.invalid(path, value, "must not be greater than 100%");
        }
    }

    /// Checks that the finalizers of a resource are those of Kubernetes, or have a domain.
    pub(super) fn check_finalizers(&mut self) {
        const PLAIN: [&str; 3] = ["foregroundDeletion", "kubernetes", "orphan"];
        for (at, name) in self.at("/metadata/finalizers").as_array().into_iter().flatten().enumerate() {
            if !name.as_str().is_some_and(|name| name.contains('/') || PLAIN.contains(&name)) {
                let detail = "name is neither a standard finalizer name nor is it fully qualified";
                self.invalid(format!("metadata.finalizers[{at}]"), name, detail);
            }
        }
    }

    /// Checks that a field has the value that it had before.
    pub(super) fn immutable(&mut self, pointer: &str) {
        let Some(old) = self.old else { return };
        let now = self.at(pointer);
        if old.pointer(pointer).unwrap_or(&Value::Null) != now {
            self.invalid(path(pointer), now, "field is immutable");
        }
    }
}

/// Returns the items of a list; none for any other value.
pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns an object without some of its fields.
pub(super) fn without(value: &Value, names: &[&str]) -> Value {
    let mut value = value.clone();
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|name, _| !names.contains(&name.as_str()));
    }
    value
}

/// Returns a text; an empty one for any other value.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns a pointer as the path of a field.
fn path(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

/// Returns a value for display: its JSON text, up to a bound.
fn shown(value: &Value) -> String {
    const CHARS_MAX: usize = 1024;
    let text = value.to_string();
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
