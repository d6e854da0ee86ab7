//! Derives one input from another: mutates its JSON if it is JSON, or else its bytes.

mod bytes;
mod json;
#[cfg(test)]
mod tests;

use homeostat_testing::Dice;

use crate::corpus::Corpus;

/// Maximum length of a generated input, in bytes. Longer inputs of a corpus keep their length.
pub(crate) const INPUT_BYTES_MAX: usize = 64 << 10;

/// Maximum number of mutations of one input.
const CHANGES_MAX: usize = 5;

/// Makes input number `number` of a seed. The first inputs are the given ones of the corpus.
pub(crate) fn input(corpus: &Corpus, seed: u64, number: u64) -> Vec<u8> {
    if let Some(input) = usize::try_from(number).ok().and_then(|number| corpus.inputs[..corpus.given].get(number)) {
        return input.clone();
    }
    let mut dice = Dice::stream(seed, number);
    let mut input = dice.one(&corpus.inputs).cloned().unwrap_or_default();
    let bytes_max = INPUT_BYTES_MAX.max(input.len());
    // Usually few, because a heavily mutated input is refused at once.
    let most = 1 + dice.index(CHANGES_MAX);
    let changes = 1 + dice.index(most);
    if dice.percent(70)
        && let Ok(mut value) = serde_json::from_slice(&input)
    {
        (0..changes).for_each(|_| json::change(&mut value, corpus, &mut dice));
        input = value.to_string().into_bytes();
    } else {
        (0..changes).for_each(|_| bytes::change(&mut input, corpus, &mut dice));
    }
    input.truncate(bytes_max);
    input
}
