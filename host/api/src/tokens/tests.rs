use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use super::*;

const ALICE: &str = "alice-has-a-long-token";
const BOB: &str = "bob-has-a-long-token-too";

fn entry(name: &str, token: &str, access: &str) -> String {
    format!("- {{name: {name}, token: \"{token}\", access: {access}}}\n")
}

fn file(text: &str, mode: u32) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    fs::set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
    file
}

fn open(file: &tempfile::NamedTempFile) -> Result<Tokens, String> {
    let reason = |error: Error| std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    Tokens::open(file.path().into(), Metrics::default()).map_err(reason)
}

#[tokio::test]
async fn a_token_is_found_by_all_of_it() {
    let file = file(&(entry("alice", ALICE, "read") + &entry("bob", BOB, "write")), 0o600);
    let tokens = Arc::new(open(&file).unwrap());
    let name = async |token: &str| tokens.find(token).await.map(|found| found.owner.name.clone());
    assert_eq!(name(ALICE).await.as_deref(), Some("alice"));
    assert_eq!(name(BOB).await.as_deref(), Some("bob"));
    for other in ["alice-has-a-long-toke", "alice-has-a-long-token ", ""] {
        assert_eq!(name(other).await, None, "{other}");
    }
}

#[test]
fn a_file_that_others_can_read_is_refused() {
    for mode in [0o644, 0o640, 0o604, 0o620] {
        let file = file(&entry("alice", ALICE, "read"), mode);
        let error = open(&file).unwrap_err();
        assert!(error.contains("chmod 600") && error.contains(&format!("{mode:o}")), "{error}");
    }
    assert!(open(&file(&entry("alice", ALICE, "read"), 0o400)).is_ok());
}

#[test]
fn invalid_token_file_is_refused_by_position_and_never_quoted() {
    let secret = "SECRET-SECRET-SECRET";
    let twice = entry("alice", ALICE, "read");
    for (text, message) in [
        (format!("- {{name: alice, token: {secret}}}\n"), "line 1"),
        (twice.clone() + &format!("- {{name: bob, token: {secret}, access: admin}}\n"), "line 2"),
        (twice.clone() + &format!("- {{name: bob, token: {secret}, access: read, more: {secret}}}\n"), "line 2"),
        (twice.clone() + &format!("- {{{secret}: bob}}\n"), "line 2"),
        (twice.clone() + &format!("- {secret}\n"), "line 2"),
        (secret.to_owned(), "line 1"),
        (format!("- {{name: [{secret}], token: {{{secret}: 1}}, access: read}}\n"), "line 1"),
        (twice.clone() + &entry("bob", "short", "read"), "line 2, column 3: the token of bob has fewer than 16"),
        (twice.clone() + &entry("bob", "", "read"), "the token of bob has fewer than 16"),
        (twice.clone() + &entry("bob", "with a space in the token", "read"), "is not allowed in a header"),
        (twice.clone() + &entry("\"\"", BOB, "read"), "the name is empty"),
        (twice.clone() + &entry("alice", BOB, "read"), "`alice` appears twice"),
        (twice + &entry("bob", ALICE, "write"), "bob has the same token as alice"),
    ] {
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.contains(message), "{text}: {error}");
        let is_quoted = [secret, ALICE, BOB].into_iter().any(|token| error.contains(token));
        assert!(!is_quoted, "{error}");
    }
    assert!(parse("").is_err(), "a file that is being written may be empty");
    assert_eq!(parse("[]").unwrap().len(), 0);
}

#[test]
fn no_token_is_printed_or_kept() {
    let file = file(&entry("alice", ALICE, "read"), 0o600);
    let tokens = open(&file).unwrap();
    let printed = format!("{tokens:?} {:?}", tokens.0.last_value());
    assert!(printed.contains("alice") && !printed.contains(ALICE), "{printed}");
}

#[test]
fn a_changed_file_is_read_again_and_a_broken_one_is_not_taken_over() {
    let file = file(&entry("alice", ALICE, "read"), 0o600);
    let tokens = open(&file).unwrap();
    let names = || {
        tokens.0.reload();
        tokens.0.last_value().values().map(|caller| caller.name.clone()).collect::<Vec<_>>()
    };
    fs::write(file.path(), entry("bob", BOB, "read")).unwrap();
    assert_eq!(names(), ["bob"]);
    fs::write(file.path(), "- {name: broken").unwrap();
    assert_eq!(names(), ["bob"]);
    fs::write(file.path(), entry("alice", ALICE, "read")).unwrap();
    fs::set_permissions(file.path(), Permissions::from_mode(0o644)).unwrap();
    assert_eq!(names(), ["bob"]);
    fs::set_permissions(file.path(), Permissions::from_mode(0o600)).unwrap();
    assert_eq!(names(), ["alice"]);
    fs::remove_file(file.path()).unwrap();
    assert_eq!(names(), ["alice"]);
}

#[tokio::test(start_paused = true)]
async fn removed_token_is_revoked_without_another_request() {
    let file = file(&(entry("alice", ALICE, "read") + &entry("bob", BOB, "write")), 0o600);
    let tokens = Arc::new(open(&file).unwrap());
    let (alice, bob) = (tokens.find(ALICE).await.unwrap(), tokens.find(BOB).await.unwrap());
    let is_over = async |token: &KnownToken| tokio::time::timeout(CHECK_INTERVAL * 5, token.revoked()).await.is_ok();
    assert!(!is_over(&alice).await);
    fs::write(file.path(), entry("bob", BOB, "write")).unwrap();
    assert!(is_over(&alice).await);
    assert!(!is_over(&bob).await);
    fs::write(file.path(), entry("bob", BOB, "read")).unwrap();
    assert!(is_over(&bob).await, "it has other rights");
}

#[test]
fn rights_of_a_token_are_checked_by_position() {
    let entry = |rights: &str| format!("- {{name: alice, token: \"{ALICE}\", {rights}}}\n");
    assert!(parse(&entry("groups: [devs]")).is_ok());
    assert!(parse(&entry("rules: [{apiGroups: [''], resources: [pods], verbs: [get], namespaces: [a]}]")).is_ok());
    for (rights, message) in [
        ("groups: []", "alice has neither `access` nor `groups` nor `rules`"),
        ("groups: [\"\"]", "a group of alice is empty"),
        ("rules: [{resources: [pods], verbs: [get]}]", "needs `apiGroups` and `resources`"),
        ("rules: [{apiGroups: [''], resources: [pods]}]", "a rule of alice has no verbs"),
        ("rules: [{apiGroups: [''], resources: [pods], verbs: [get], more: 1}]", "expected a list"),
    ] {
        let error = parse(&entry(rights)).unwrap_err().to_string();
        assert!(error.starts_with("line 1") && error.contains(message), "{rights}: {error}");
    }
    let many = format!("groups: [{}]", vec!["g"; GROUPS_MAX + 1].join(", "));
    assert!(parse(&entry(&many)).unwrap_err().to_string().contains("more than 100 groups"));
}
