//! A slab of numbered entries: dense, in chunks. Growing never moves an entry, and empty chunks free their
//! memory.

use std::{
    collections::BTreeSet,
    ops::{Index, IndexMut},
};

/// Cells per chunk. At about 100 bytes per entry, a chunk takes some 6 KiB.
const CHUNK: usize = 64;
/// The first chunk keeps its memory when it becomes empty, if it has at most this many cells. So a queue of a
/// few keys never allocates.
const CELLS_KEPT: usize = 32;
/// Marks the end of a free list.
const NONE: u16 = u16::MAX;

/// A map from numbers to entries. The slab chooses the numbers and reuses them, lowest chunk first.
pub(crate) struct Slab<T> {
    chunks: Vec<Chunk<T>>,
    /// Chunks with free cells. New entries go to the first of them, so that the others can become empty.
    roomy: BTreeSet<u32>,
    /// The first of those, cached so that most inserts and removals need no search.
    first: Option<u32>,
}

struct Chunk<T> {
    cells: Vec<Cell<T>>,
    /// Head of the free list, which is chained through `Cell::Free`.
    free: u16,
    used: u16,
}

enum Cell<T> {
    Full(T),
    Free { next: u16 },
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Slab<T> {
        Slab { chunks: Vec::new(), roomy: BTreeSet::new(), first: None }
    }

    /// Stores `entry` and returns its number, which is never `u32::MAX`.
    #[inline]
    pub(crate) fn insert(&mut self, entry: T) -> u32 {
        let number = self.first.unwrap_or_else(|| self.open_chunk());
        let chunk = &mut self.chunks[number as usize];
        let cell = chunk.insert(entry, number == 0);
        if chunk.used as usize == CHUNK {
            self.roomy.remove(&number);
            self.first = self.roomy.first().copied();
        }
        number * CHUNK as u32 + u32::from(cell)
    }

    fn open_chunk(&mut self) -> u32 {
        let number = self.chunks.len() as u32;
        assert!(number < u32::MAX / CHUNK as u32, "a queue holds fewer than 2^32 keys");
        self.chunks.push(Chunk { cells: Vec::new(), free: NONE, used: 0 });
        self.roomy.insert(number);
        self.first = Some(number);
        number
    }

    /// Drops an entry in place: moving it out would cost more than the rest of a claim.
    ///
    /// # Panics
    /// When there is no entry of that number.
    #[inline]
    pub(crate) fn remove(&mut self, number: u32) {
        let (at, cell) = split(number);
        let chunk = &mut self.chunks[at];
        chunk.remove(cell);
        if chunk.used as usize == CHUNK - 1 {
            self.roomy.insert(at as u32);
            self.first = self.roomy.first().copied();
        }
        if chunk.used == 0 && (at > 0 || chunk.cells.len() > CELLS_KEPT) {
            (chunk.cells, chunk.free) = (Vec::new(), NONE);
            self.trim();
        }
    }

    /// Removes empty chunks from the end.
    fn trim(&mut self) {
        while self.chunks.last().is_some_and(|chunk| chunk.cells.is_empty()) {
            self.chunks.pop();
            self.roomy.remove(&(self.chunks.len() as u32));
        }
        self.first = self.roomy.first().copied();
        if self.chunks.len() * 4 < self.chunks.capacity() {
            self.chunks.shrink_to_fit();
        }
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        let (at, cell) = split(number);
        match self.chunks.get(at)?.cells.get(cell)? {
            Cell::Full(entry) => Some(entry),
            Cell::Free { .. } => None,
        }
    }

    /// Returns all entries with their numbers, in the order of the numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.chunks.iter().enumerate().flat_map(|(at, chunk)| {
            chunk.cells.iter().enumerate().filter_map(move |(cell, content)| match content {
                Cell::Full(entry) => Some(((at * CHUNK + cell) as u32, entry)),
                Cell::Free { .. } => None,
            })
        })
    }

    /// Returns the number of allocated cells, in use or not.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.cells.capacity()).sum()
    }
}

impl<T> Chunk<T> {
    /// The first chunk grows on demand, for the many queues with a few keys.
    #[inline]
    fn insert(&mut self, entry: T, first: bool) -> u16 {
        self.used += 1;
        if self.free == NONE {
            if self.cells.is_empty() && !first {
                self.cells.reserve_exact(CHUNK);
            }
            self.cells.push(Cell::Full(entry));
            return (self.cells.len() - 1) as u16;
        }
        let taken = self.free;
        let cell = &mut self.cells[taken as usize];
        let Cell::Free { next } = *cell else { unreachable!("the free chain has free cells only") };
        *cell = Cell::Full(entry);
        self.free = next;
        taken
    }

    #[inline]
    fn remove(&mut self, cell: usize) {
        let freed = &mut self.cells[cell];
        assert!(matches!(freed, Cell::Full(_)), "there is no entry of that number");
        *freed = Cell::Free { next: self.free };
        self.free = cell as u16;
        self.used -= 1;
    }
}

fn split(number: u32) -> (usize, usize) {
    (number as usize / CHUNK, number as usize % CHUNK)
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: u32) -> &T {
        self.get(number).expect("numbers in use name an entry")
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut T {
        let (at, cell) = split(number);
        match &mut self.chunks[at].cells[cell] {
            Cell::Full(entry) => entry,
            Cell::Free { .. } => panic!("numbers in use name an entry"),
        }
    }
}

#[cfg(test)]
mod tests;
