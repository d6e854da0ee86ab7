//! Tests of the groups of built-in kinds.

use super::BuiltInGroups;

fn names(text: &str) -> Result<Vec<&'static str>, String> {
    let groups: BuiltInGroups = text.parse()?;
    Ok(groups.kinds().map(|kind| kind.name.as_str()).collect())
}

#[test]
fn groups_are_chosen_by_their_names() {
    assert_eq!(names("batch"), Ok(vec!["CronJob", "Job"]));
    assert_eq!(names("none"), Ok(vec![]));
    assert!(names("core, apps").is_ok_and(|names| names.contains(&"Pod") && names.contains(&"Deployment")));
    assert!(names("all").is_ok_and(|names| names.contains(&"Lease")));
    assert!(names("app").is_err_and(|error| error.contains("apps")));
}
