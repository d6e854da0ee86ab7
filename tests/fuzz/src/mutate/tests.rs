use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{INPUT_BYTES_MAX, input};
use crate::corpus::Corpus;

fn corpus() -> Corpus {
    let inputs = vec![json!({"a": [1, "b"], "c": {"d": null}}).to_string().into_bytes(), b"no JSON".to_vec()];
    Corpus { given: inputs.len(), inputs, words: vec!["a".to_owned(), "b".to_owned()] }
}

#[test]
fn the_corpus_comes_first_as_it_is() {
    assert_eq!(input(&corpus(), 1, 0), corpus().inputs[0]);
    assert_eq!(input(&corpus(), 1, 1), corpus().inputs[1]);
}

#[test]
fn a_seed_and_a_number_make_one_input_and_others_make_others() {
    let made = |seed| (2..500).map(|number| input(&corpus(), seed, number)).collect::<BTreeSet<_>>();
    assert_eq!(made(1), made(1));
    assert!(made(1).len() > 250 && made(2).difference(&made(1)).count() > 200);
}

#[test]
fn inputs_are_bounded_and_some_are_json_and_some_nested_too_deeply() {
    let made: Vec<_> = (0..5000).map(|number| input(&corpus(), 1, number)).collect();
    assert!(made.iter().all(|input| input.len() <= INPUT_BYTES_MAX));
    assert!(made.iter().any(|input| serde_json::from_slice::<Value>(input).is_err()));
    let other = made.iter().skip(2).filter(|input| serde_json::from_slice::<Value>(input).is_ok()).count();
    assert!(other > 1000, "{other}");
    let open = |input: &Vec<u8>| input.iter().filter(|byte| **byte == b'[').count();
    assert!(made.iter().map(open).max() > Some(120));
}

#[test]
fn an_empty_input_can_be_changed() {
    let empty = Corpus { given: 1, inputs: vec![Vec::new()], words: Vec::new() };
    assert!((0..200).any(|number| !input(&empty, 1, number).is_empty()));
}
