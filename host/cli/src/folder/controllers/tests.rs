use super::*;

#[test]
fn what_was_told_is_told_again_only_when_it_is_something_else() {
    let now = Instant::now();
    let why = |bytes: &[u8], reason: &str| Why {
        digest: Some(Digest::of(bytes)),
        reason: reason.to_owned(),
        is_local: false,
    };
    let told = || Refusal { since: now, why: why(b"1", "cut off"), told: true };
    let later = now + Duration::from_secs(1);
    assert!(Refusal::after(Some(told()), why(b"1", "cut off"), later).told);
    assert!(!Refusal::after(Some(told()), why(b"2", "cut off"), later).told);
    assert!(!Refusal::after(Some(told()), why(b"1", "other"), later).told);
    assert!(!Refusal::after(None, why(b"1", "cut off"), later).told);
}

#[test]
fn patience_starts_anew_with_every_change() {
    let now = Instant::now();
    let why = || Why { digest: None, reason: "gone".to_owned(), is_local: true };
    let untold = Refusal { since: now, why: why(), told: false };
    let later = now + Duration::from_secs(1);
    let after = Refusal::after(Some(untold), why(), later);
    assert!(after.since == later && !after.told);
}

#[test]
fn reasons_are_a_list_and_digests_are_short() {
    assert_eq!(list(&["one", "two\nlines"]), "  - one\n  - two\n    lines");
    assert_eq!(short("sha256:0123456789abcdef"), "sha256:0123456789ab");
    assert_eq!(short("odd"), "odd");
}

#[test]
fn what_is_brought_says_who_brought_it_and_from_what() {
    let document = json!({ "metadata": { "name": "a", "labels": { "b": "c" } }, "spec": { "component": {} } });
    let (one, source) = brought(&document, Some(&Digest::of(b"1")));
    assert_eq!(one["metadata"]["labels"], json!({ "b": "c", MANAGED_BY: MANAGER }));
    assert_eq!(one["metadata"]["annotations"][SOURCE], source.as_str());
    assert_eq!(one["spec"]["component"]["digest"], Digest::of(b"1").as_str());
    assert_ne!(brought(&document, Some(&Digest::of(b"2"))).1, source, "other code is another source");
    assert_eq!(brought(&document, Some(&Digest::of(b"1"))).1, source);
}
