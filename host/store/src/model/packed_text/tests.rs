use homeostat_testing::Dice;
use serde_json::json;

use super::PackedText;
use crate::Resource;

fn text(at: usize) -> String {
    let labels = json!({ "app": format!("web-{at}"), "app.kubernetes.io/managed-by": "homeostat" });
    let metadata = json!({ "name": format!("pod-{at}"), "namespace": "default", "labels": labels });
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": { "node": at % 7 } }).to_string()
}

#[test]
fn a_text_comes_back_as_it_was() {
    let dictionary = PackedText::dictionary(&text(0));
    for at in 0..100 {
        let packed = PackedText::new(&text(at), &dictionary).expect("similar texts are compressed well");
        assert_eq!(*packed.unpack(), *text(at));
        assert_eq!(packed.length(), text(at).len());
    }
}

#[test]
fn similar_texts_take_a_third_of_their_length_at_most() {
    let dictionary = PackedText::dictionary(&text(0));
    let packed = PackedText::new(&text(99), &dictionary).expect("similar texts are compressed well");
    assert!(packed.packed.len() < text(99).len() / 3, "{} of {}", packed.packed.len(), text(99).len());
}

#[test]
fn a_text_that_would_stay_long_is_not_packed() {
    let mut dice = Dice::new(7);
    let noise = |dice: &mut Dice| (0..64).map(|_| format!("{:016x}", dice.number())).collect::<String>();
    let dictionary = PackedText::dictionary(&noise(&mut dice));
    assert!(PackedText::new(&noise(&mut dice), &dictionary).is_none());
    assert!(PackedText::new("", &dictionary).is_none());
}

#[test]
fn a_packed_resource_shares_the_key_of_the_state_before_it() {
    let state = |name: &str| {
        let document = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}});
        Resource::from_document(document).expect("it has a name")
    };
    let (before, after, other) = (state("a"), state("a"), state("b"));
    let dictionary = PackedText::dictionary(before.text());
    let name = |resource: &Resource| resource.key().name().as_ptr();
    assert_ne!(name(&before), name(&after));
    assert_eq!(name(&after.packed(&dictionary, Some(&before))), name(&before));
    let packed = after.packed(&dictionary, Some(&other));
    assert_eq!((name(&packed), packed.key()), (name(&after), after.key()));
}
