use super::*;

#[test]
fn numbers_name_their_entries_until_they_are_removed() {
    let mut slab = Slab::new();
    let numbers: Vec<u32> = (0..1000).map(|value| slab.insert(value)).collect();
    for (value, number) in numbers.iter().enumerate() {
        assert_eq!(slab[*number], value);
    }
    for number in numbers.iter().step_by(2) {
        slab.remove(*number);
    }
    assert_eq!(slab.get(numbers[0]), None);
    assert_eq!(slab[numbers[1]], 1);
    assert_eq!(slab.iter().count(), 500);
}

#[test]
fn freed_numbers_are_used_again_before_memory_grows() {
    let mut slab = Slab::new();
    let numbers: Vec<u32> = (0..300).map(|value| slab.insert(value)).collect();
    let capacity = slab.capacity();
    for round in 0..1000 {
        let number = numbers[round % 256];
        slab.remove(number);
        assert_eq!(slab.insert(round), number, "the hole in the first chunk is filled");
    }
    assert_eq!(slab.capacity(), capacity);
}

#[test]
fn emptied_chunks_give_their_memory_back() {
    let mut slab = Slab::new();
    let numbers: Vec<u32> = (0..100_000).map(|value| slab.insert(value)).collect();
    for number in &numbers[1..] {
        slab.remove(*number);
    }
    assert_eq!(slab[numbers[0]], 0);
    assert!(slab.capacity() <= CHUNK, "one entry keeps one chunk: {}", slab.capacity());
    slab.remove(numbers[0]);
    assert!(slab.capacity() <= CELLS_KEPT);
    assert!(slab.chunks.len() <= 1 && slab.roomy.len() == slab.chunks.len());
}

#[test]
fn one_late_entry_in_a_high_chunk_keeps_that_chunk_only() {
    let mut slab = Slab::new();
    let numbers: Vec<u32> = (0..10_000).map(|value| slab.insert(value)).collect();
    for number in &numbers[..9_999] {
        slab.remove(*number);
    }
    assert_eq!(slab[numbers[9_999]], 9_999);
    assert!(slab.capacity() <= CHUNK);
    assert_eq!(slab.insert(7), 0, "new entries go to the lowest chunk");
}
