//! The keys that every contender queues: the same names everywhere.

use std::sync::Arc;

/// Namespaces over which keys are spread.
pub(crate) const NAMESPACES: usize = 10;

/// A key in the queues: shared text.
pub(crate) type Name = Arc<str>;

/// Returns the namespace and the name of key number `number`.
pub(crate) fn parts(number: usize) -> (String, String) {
    (format!("ns-{}", number % NAMESPACES), format!("object-{number}"))
}

/// Returns key number `number`: `ns-7/object-127`.
pub(crate) fn name(number: usize) -> Name {
    let (namespace, object) = parts(number);
    format!("{namespace}/{object}").into()
}

/// Returns the first `count` keys.
pub(crate) fn names(count: usize) -> Vec<Name> {
    (0..count).map(name).collect()
}

/// Returns the number at the end of a key or of a name.
pub(crate) fn number(name: &str) -> Option<usize> {
    name.rsplit('-').next()?.parse().ok()
}

/// Returns the numbers below `count` in a pseudo-random order, which is the same everywhere.
///
/// A step that has no factor in common with `count` visits every number once. The step is a prime, about
/// 0.618 of 2^32.
pub(crate) fn shuffled(count: usize) -> impl Iterator<Item = usize> {
    const STEP: u64 = 2_654_435_761;
    let count = count as u64;
    (0..count).map(move |place| (place * STEP % count) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_namespace_and_a_name_that_ends_in_its_number() {
        assert_eq!(&*name(127), "ns-7/object-127");
        assert_eq!(number(&name(127)), Some(127));
        assert_eq!(number(&parts(127).1), Some(127));
    }

    #[test]
    fn a_shuffle_visits_every_number_once_and_not_in_order() {
        let order: Vec<usize> = shuffled(1000).collect();
        assert!(!order.is_sorted());
        let mut sorted = order;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1000).collect::<Vec<_>>());
    }
}
