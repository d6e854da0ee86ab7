use std::cell::RefCell;

use super::*;

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, value.parse().unwrap());
    }
    headers
}

/// Returns the user, and what its sender needs rights for.
fn asked(pairs: &[(&'static str, &'static str)]) -> (Result<Option<Caller>, Failure>, Vec<String>) {
    let needed = RefCell::new(Vec::new());
    let user = user(&headers(pairs), |attributes| {
        let Subject::Resource { group, plural, subresource, namespace, name } = attributes.about else {
            unreachable!("each is about a resource")
        };
        let (part, namespace) = (subresource.unwrap_or_default(), namespace.unwrap_or_default());
        needed.borrow_mut().push(format!("{group}/{plural}/{part}/{namespace}/{}", name.unwrap_or_default()));
        Ok(())
    });
    (user, needed.into_inner())
}

#[test]
fn a_request_without_these_headers_acts_as_its_sender() {
    let (user, needed) = asked(&[("authorization", "Bearer x")]);
    assert_eq!((user.ok().flatten(), needed), (None, Vec::new()));
}

#[test]
fn each_part_of_the_user_needs_its_own_right() {
    let (user, needed) = asked(&[
        ("impersonate-user", "alice"),
        ("impersonate-group", "devs"),
        ("impersonate-group", "admins"),
        ("impersonate-uid", "7"),
        ("impersonate-extra-example.com%2fteam", "a"),
        ("impersonate-extra-example.com%2fteam", "b"),
    ]);
    let user = user.ok().flatten().unwrap();
    assert_eq!((user.name.as_str(), user.uid.as_deref()), ("alice", Some("7")));
    assert_eq!(user.all_groups().collect::<Vec<_>>(), ["devs", "admins", "system:authenticated"]);
    assert_eq!(user.extra["example.com/team"], ["a", "b"]);
    assert_eq!(
        needed,
        [
            "/users///alice",
            "/groups///devs",
            "/groups///admins",
            "authentication.k8s.io/userextras/example.com/team//a",
            "authentication.k8s.io/userextras/example.com/team//b",
            "authentication.k8s.io/uids///7",
        ]
    );
}

#[test]
fn a_service_account_has_its_groups_unless_others_are_named() {
    let (user, needed) = asked(&[("impersonate-user", "system:serviceaccount:a:robot")]);
    let groups = user.ok().flatten().unwrap().groups;
    assert_eq!(groups, ["system:serviceaccounts", "system:serviceaccounts:a"]);
    assert_eq!(needed, ["/serviceaccounts//a/robot"]);
    let (user, _) = asked(&[("impersonate-user", "system:serviceaccount:a:robot"), ("impersonate-group", "x")]);
    assert_eq!(user.ok().flatten().unwrap().groups, ["x"]);
}

#[test]
fn a_caller_that_is_not_authenticated_has_no_group_of_those_that_are() {
    let (user, _) = asked(&[("impersonate-user", "system:anonymous")]);
    assert_eq!(user.ok().flatten().unwrap().all_groups().collect::<Vec<_>>(), ["system:unauthenticated"]);
}

#[test]
fn groups_without_a_user_are_refused() {
    for name in ["impersonate-group", "impersonate-uid", "impersonate-extra-x"] {
        let (user, _) = asked(&[(name, "x")]);
        assert_eq!(user.err().map(|failure| failure.code()), Some(400), "{name}");
    }
}

#[test]
fn what_the_sender_may_not_do_is_refused() {
    let refuse = |_: &Attributes<'_>| Err(Failure::forbidden("no"));
    let failure = user(&headers(&[("impersonate-user", "alice")]), refuse).err().unwrap();
    assert_eq!(failure.code(), 403);
}
