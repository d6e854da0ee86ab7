use std::collections::HashMap;

use homeostat_testing::Dice;

use super::*;

/// Q12: after any inserts and removals, exactly the present numbers are found, also if all hashes collide.
#[test]
fn present_numbers_are_found_even_if_all_hashes_collide() {
    for different in [1, 3, 16, 1 << 32] {
        let mut index = Index::new();
        let mut there: HashMap<u32, Hash> = HashMap::new();
        for step in 0..3000 {
            let number = Dice::new(step).below(40) as u32;
            // The highest hashes: their slots wrap around the end of the table.
            let hash = Hash(u32::MAX - Dice::new(u64::from(number)).below(different) as u32);
            match there.remove(&number) {
                Some(hash) => index.remove(hash, number),
                None => {
                    index.insert(hash, number);
                    there.insert(number, hash);
                }
            }
            for number in 0..40 {
                let hash = Hash(u32::MAX - Dice::new(u64::from(number)).below(different) as u32);
                let found = index.find(hash, |its| its == number);
                assert_eq!(found, there.contains_key(&number).then_some(number), "step {step}");
            }
        }
    }
}

/// Q12: a steady flow of keys neither grows nor rebuilds the table, and a table that was full frees its
/// memory.
#[test]
fn the_table_grows_and_shrinks_with_its_content() {
    let mut index = Index::new();
    for number in 0..100_u32 {
        index.insert(index.hash(&number), number);
    }
    let places = index.capacity();
    for number in 100..100_000_u32 {
        index.insert(index.hash(&number), number);
        index.remove(index.hash(&(number - 100)), number - 100);
        assert_eq!(index.capacity(), places);
    }
    for number in 100_000..200_000_u32 {
        index.insert(index.hash(&number), number);
    }
    assert!(index.capacity() < 300_000);
    for number in 99_900..200_000_u32 {
        index.remove(index.hash(&number), number);
    }
    assert!(index.capacity() <= PLACES_KEPT, "{} places", index.capacity());
}
