use super::*;

fn grants(value: Value) -> Grants {
    serde_json::from_value(value).unwrap()
}

#[test]
fn the_proposal_can_be_pasted_and_everything_else_is_a_comment() {
    let line = |kind: &str| json!([{ "kinds": [kind], "verbs": ["get"], "namespaces": ["*"], "names": ["a\n- b"] }]);
    let learned = LearnedGrants {
        grants: grants(json!({ "resources": line("Pod") })),
        denied: grants(json!({ "resources": line("Secret") })),
        unused: vec!["resources[1]: Node, to get".to_owned()],
    };
    let seen = NeedsSnapshot {
        settings: vec!["greeting".to_owned()],
        clock: 2,
        absent: vec!["file \"/etc/hosts\"".to_owned()],
        ..NeedsSnapshot::default()
    };
    let page = page("web", &learned, &seen).unwrap();
    let read: Value = serde_saphyr::from_str(&page).unwrap();
    assert_eq!(
        read,
        json!({ "grants": { "resources": [{ "kinds": ["Pod"], "verbs": ["get"], "names": ["a\n- b"] }] } })
    );
    assert_eq!(grants(read["grants"].clone()), learned.grants, "what is left out is the default");
    for part in [
        "Secret",
        "Granted, but not used:\n#   resources[1]: Node, to get\n",
        "it reads the settings greeting, clocks.",
        "not available to any controller:\n#   file \"/etc/hosts\"\n",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
}

#[test]
fn no_observations_give_no_grants() {
    let page = page("web", &LearnedGrants::default(), &NeedsSnapshot::default()).unwrap();
    assert!(page.ends_with("grants: {}\n"), "{page}");
}
