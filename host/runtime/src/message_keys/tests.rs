use proptest::prelude::*;
use serde_json::json;

use super::*;

fn keys(name: &str) -> MessageKeys {
    MessageKeys { each: None, namespace: None, name: Template::parse(name, is_word).unwrap() }
}

fn made(keys: &MessageKeys, body: Value) -> Result<Vec<ListedKey>, MessageError> {
    keys.of_message(body.to_string().as_bytes(), |word| (word == "subject").then(|| "orders".to_owned()))
}

fn name(text: &str) -> ListedKey {
    pair("", text)
}

fn pair(namespace: &str, name: &str) -> ListedKey {
    ListedKey { namespace: namespace.to_owned(), name: name.to_owned() }
}

/// The source has a word that this message lacks.
fn is_word(word: &str) -> bool {
    matches!(word, "subject" | "subject.9")
}

#[test]
fn template_joins_text_and_values_of_the_body() {
    let body = json!({ "repository": { "owner": { "login": "ann" }, "name": "shop" }, "a/b": { "~": 7 } });
    assert_eq!(made(&keys("{/repository/owner/login}-{/repository/name}"), body.clone()), Ok(vec![name("ann-shop")]));
    assert_eq!(made(&keys("n{/a~1b/~0}"), body), Ok(vec![name("n7")]));
    assert_eq!(made(&keys("fixed"), json!(null)), Ok(vec![name("fixed")]));
    assert_eq!(made(&keys("{}"), json!("whole")), Ok(vec![name("whole")]));
}

#[test]
fn a_word_of_the_source_needs_no_body() {
    let named = keys("{subject}-a").of_message(b"no JSON", |_| Some("orders".to_owned()));
    assert_eq!(named, Ok(vec![name("orders-a")]));
    assert_eq!(made(&keys("{subject.9}"), json!(1)), Err(MessageError::NoWord("subject.9".to_owned())));
    assert!(keys("{/a}").of_message(b"no JSON", |_| None).unwrap_err().to_string().contains("not JSON"));
}

#[test]
fn each_item_of_a_list_makes_one_key() {
    let keys = MessageKeys {
        each: Some(Pointer::parse("/orders").unwrap()),
        namespace: Some(Template::parse("{/shop}", is_word).unwrap()),
        name: Template::parse("order-{/id}", is_word).unwrap(),
    };
    let body = json!({ "orders": [{ "shop": "a", "id": 1 }, { "shop": "b", "id": "2" }] });
    assert_eq!(made(&keys, body), Ok(vec![pair("a", "order-1"), pair("b", "order-2")]));
    assert_eq!(made(&keys, json!({ "orders": [] })), Ok(vec![]));
}

#[test]
fn message_makes_all_of_its_keys_or_none() {
    let list = MessageKeys { each: Some(Pointer::parse("").unwrap()), ..keys("{/id}") };
    let missing = MessageError::NoValue(Pointer("/id".into()));
    assert_eq!(made(&list, json!([{ "id": "a" }, {}])), Err(missing));
    assert_eq!(made(&list, json!({ "id": "a" })), Err(MessageError::NoList(Pointer(String::new()))));
}

#[test]
fn list_longer_than_the_bound_is_refused() {
    let list = MessageKeys { each: Some(Pointer::parse("").unwrap()), ..keys("{}") };
    let items = |count: usize| json!((0..count).collect::<Vec<_>>());
    assert_eq!(made(&list, items(MESSAGE_KEYS_MAX)).unwrap().len(), MESSAGE_KEYS_MAX);
    let items_max = MESSAGE_KEYS_MAX + 1;
    let refused = made(&list, items(items_max));
    assert_eq!(refused, Err(MessageError::ManyKeys { pointer: Pointer(String::new()), items: items_max }));
}

#[test]
fn value_that_is_no_text_or_integer_is_refused() {
    for value in [json!(null), json!(true), json!(1.5), json!([]), json!({}), json!("")] {
        let refused = made(&keys("{/id}"), json!({ "id": value }));
        assert_eq!(refused, Err(MessageError::NoValue(Pointer("/id".into()))), "{value}");
    }
}

#[test]
fn name_longer_than_the_bound_is_refused() {
    assert!(made(&keys("{}"), json!("x".repeat(NAME_BYTES_MAX))).is_ok());
    assert_eq!(made(&keys("{}{}"), json!("x".repeat(NAME_BYTES_MAX))), Err(MessageError::LongName));
}

#[test]
fn template_with_lone_braces_or_a_bad_pointer_is_refused() {
    for text in ["", "{", "}", "{/a", "a}b", "{a}", "{/a~}", "{/a~2}", "{{/a}", &"x".repeat(TEMPLATE_BYTES_MAX + 1)] {
        assert!(Template::parse(text, is_word).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn no_body_makes_it_panic_or_exceed_the_bounds(body in any::<Vec<u8>>(), text in "\\PC{0,40}") {
        if let Ok(name) = Template::parse(&text, is_word) {
            let keys = MessageKeys { each: None, namespace: None, name };
            for ListedKey { name, .. } in keys.of_message(&body, |_| None).unwrap_or_default() {
                prop_assert!(name.len() <= NAME_BYTES_MAX);
            }
        }
    }
}

#[test]
fn a_word_names_a_token_of_the_subject() {
    assert_eq!(subject_word("a.b.c", "subject").as_deref(), Some("a.b.c"));
    assert_eq!(subject_word("a.b.c", "subject.1").as_deref(), Some("a"));
    assert_eq!(subject_word("a.b.c", "subject.3").as_deref(), Some("c"));
    assert_eq!(subject_word("a.b.c", "subject.4"), None);
    for (word, is_one) in
        [("subject", true), ("subject.32", true), ("subject.0", false), ("subject.33", false), ("stem", false)]
    {
        assert_eq!(is_subject_word(word), is_one, "{word}");
    }
}
