use serde::{Deserialize, Serialize};

use super::*;
use crate::Time;

#[derive(Debug, Serialize, Deserialize)]
struct Thing {}

impl Kind for Thing {
    const API_VERSION: &str = "example.com/v1";
    const NAME: &str = "Thing";
    const PLURAL: &str = "things";
    type Status = ();
}

fn thing(uid: &str) -> Resource<Thing> {
    let mut thing = Resource::new("default", uid, Thing {});
    thing.metadata.uid = uid.to_owned();
    thing
}

#[test]
fn a_part_is_what_the_selector_means_and_nobody_else_manages() {
    let (parent, other) = (thing("parent"), thing("other"));
    let mut selector = LabelSelector::default();
    selector.match_labels.insert("app".to_owned(), "web".to_owned());
    let meant = || thing("part").label("app", "web");
    let relation = |part: Resource<Thing>| Relation::of(&parent, &part, &selector);
    assert_eq!(relation(meant().owned_by(&parent)), Relation::Part);
    assert_eq!(relation(thing("part").owned_by(&parent)), Relation::Lost);
    assert_eq!(relation(meant()), Relation::Orphan);
    assert_eq!(relation(thing("part")), Relation::Stranger);
    assert_eq!(relation(meant().owned_by(&other)), Relation::Stranger);
    // An owner that does not manage it does not prevent adoption.
    let mut shared = meant().owned_by(&other);
    shared.metadata.owner_references[0].controller = None;
    assert_eq!(relation(shared), Relation::Orphan);
}

#[test]
fn resources_being_deleted_are_neither_adopted_nor_released() {
    let parent = thing("parent");
    let mut selector = LabelSelector::default();
    selector.match_labels.insert("app".to_owned(), "web".to_owned());
    let going = |mut part: Resource<Thing>| {
        part.metadata.deletion_timestamp = Some(Time::from_unix_milliseconds(0));
        Relation::of(&parent, &part, &selector)
    };
    assert_eq!(going(thing("part").label("app", "web")), Relation::Stranger);
    assert_eq!(going(thing("part").owned_by(&parent)), Relation::Part);
}
