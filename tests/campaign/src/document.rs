//! The documents that the campaigns write. The content follows from a name and a counter, so a partial
//! document is recognised.

use homeostat_store::{Key, Kind, Resource};
use homeostat_testing::Dice;
use serde_json::{Value, json};

/// Maximum number of owners that documents name.
pub(crate) const OWNERS: u64 = 5;

/// The writes that left a document as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    /// The counter of the write that set everything except the status.
    pub(crate) spec: u64,
    /// The counter of the write that set the status; `None` if it was never set.
    pub(crate) status: Option<u64>,
}

impl State {
    /// Returns the counter of the last write.
    pub(crate) fn last(self) -> u64 {
        self.spec.max(self.status.unwrap_or(0))
    }
}

/// Returns the kind of all documents.
pub(crate) fn kind() -> Kind {
    Kind::new("campaign.example", "v1", "Item")
}

/// Returns the key of a name.
pub(crate) fn key(name: &str) -> Key {
    Key::new(kind(), "default", name)
}

/// Returns the name of a document. A task only writes its own documents.
pub(crate) fn name(task: u64, number: u64) -> String {
    format!("task{task}-{number}")
}

/// Returns the task that a name belongs to.
pub(crate) fn task(name: &str) -> Option<u64> {
    name.strip_prefix("task")?.split_once('-')?.0.parse().ok()
}

/// Returns the document that the write with this counter makes.
pub(crate) fn document(name: &str, counter: u64) -> Value {
    let mut document = json!({
        "apiVersion": "campaign.example/v1",
        "kind": "Item",
        "metadata": {"name": name, "namespace": "default"},
        "spec": content(name, counter, "spec"),
    });
    if let Some(number) = owner(name, counter) {
        document["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "Owner", "name": "owner", "uid": owner_uid(number)}]);
    }
    document
}

/// Returns the status that the write with this counter makes.
pub(crate) fn status(name: &str, counter: u64) -> Value {
    content(name, counter, "status")
}

/// Returns the uid of an owner.
pub(crate) fn owner_uid(number: u64) -> String {
    format!("owner-{number}")
}

/// Returns the owner that the document of this write names.
pub(crate) fn owner(name: &str, counter: u64) -> Option<u64> {
    let mut dice = dice(name, counter, "owner");
    dice.percent(60).then(|| dice.below(OWNERS))
}

/// Returns the writes that left a resource as it is.
///
/// # Errors
/// The content that no write has made.
pub(crate) fn state(resource: &Resource) -> Result<State, String> {
    let name = resource.key().name();
    let refuse = |what: &str| Err(format!("{name} at revision {} {what}", resource.revision()));
    if resource.key() != &key(name) {
        return refuse("has another kind or namespace");
    }
    let counter = |content: &Value| content.get("counter").and_then(Value::as_u64);
    let Some(spec) = counter(&resource.document()["spec"]) else { return refuse("has a spec without a counter") };
    if resource.document()["spec"] != content(name, spec, "spec") {
        return refuse("has a spec that no write made");
    }
    let owners = resource.owners();
    if owners.first().map(|owner| owner.uid.clone()) != owner(name, spec).map(owner_uid) || owners.len() > 1 {
        return refuse("has owners that no write made");
    }
    let status = match resource.status() {
        Value::Null => None,
        status => match counter(status) {
            Some(counter) if *status == content(name, counter, "status") => Some(counter),
            _ => return refuse("has a status that no write made"),
        },
    };
    Ok(State { spec, status })
}

/// Makes a text of up to 10 KiB, mostly short.
fn content(name: &str, counter: u64, part: &str) -> Value {
    let mut dice = dice(name, counter, part);
    let length = match dice.below(10) {
        0..6 => dice.below(200),
        6..9 => dice.below(2 << 10),
        _ => dice.below(10 << 10),
    };
    let mut text = String::new();
    while (text.len() as u64) < length {
        text.push_str(&format!("{:016x}", dice.number()));
    }
    json!({"counter": counter, "text": text})
}

fn dice(name: &str, counter: u64, part: &str) -> Dice {
    let seed =
        name.bytes().chain(part.bytes()).fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    Dice::stream(seed, counter)
}
