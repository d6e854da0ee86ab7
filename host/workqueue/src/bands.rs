//! Lists of ready keys, and the rule that picks the band to serve.

use crate::{Priority, slab::Slab};

/// No entry.
const NIL: u32 = u32::MAX;

/// The neighbours of an entry in its list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    before: u32,
    behind: u32,
}

impl Default for Links {
    fn default() -> Links {
        Links { before: NIL, behind: NIL }
    }
}

/// An entry that can be in one list at a time.
pub(crate) trait ListNode {
    fn links(&self) -> &Links;
    fn links_mut(&mut self) -> &mut Links;
}

/// A doubly linked FIFO list whose links are stored in the entries. Removing from the middle needs no search.
#[derive(Debug)]
pub(crate) struct IntrusiveList {
    first: u32,
    last: u32,
    len: usize,
}

impl IntrusiveList {
    pub(crate) fn new() -> IntrusiveList {
        IntrusiveList { first: NIL, last: NIL, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn first(&self) -> Option<u32> {
        (self.first != NIL).then_some(self.first)
    }

    /// Appends an entry that is in no list.
    #[inline]
    pub(crate) fn push<T: ListNode>(&mut self, slab: &mut Slab<T>, slot: u32) {
        *slab[slot].links_mut() = Links { before: self.last, behind: NIL };
        match self.last {
            NIL => self.first = slot,
            last => slab[last].links_mut().behind = slot,
        }
        self.last = slot;
        self.len += 1;
    }

    /// Removes an entry of this list.
    #[inline]
    pub(crate) fn remove<T: ListNode>(&mut self, slab: &mut Slab<T>, slot: u32) {
        let Links { before, behind } = *slab[slot].links();
        match before {
            NIL => self.first = behind,
            before => slab[before].links_mut().behind = behind,
        }
        match behind {
            NIL => self.last = before,
            behind => slab[behind].links_mut().before = before,
        }
        self.len -= 1;
    }

    /// Returns the entry after an entry of this list.
    pub(crate) fn next_of<T: ListNode>(slab: &Slab<T>, slot: u32) -> Option<u32> {
        let behind = slab[slot].links().behind;
        (behind != NIL).then_some(behind)
    }

    /// Returns the entries from first to last.
    pub(crate) fn iter<'a, T: ListNode>(&self, slab: &'a Slab<T>) -> impl Iterator<Item = u32> + use<'a, T> {
        let mut next = self.first;
        std::iter::from_fn(move || {
            let slot = (next != NIL).then_some(next)?;
            next = slab[slot].links().behind;
            Some(slot)
        })
    }
}

/// The ready keys: a list for each priority, and how often each was passed over.
#[derive(Debug)]
pub(crate) struct Bands {
    lines: [IntrusiveList; 5],
    /// Claims in a row from other bands while this band had a key.
    passes: [u32; 5],
    len: usize,
}

impl Bands {
    pub(crate) fn new() -> Bands {
        Bands { lines: std::array::from_fn(|_| IntrusiveList::new()), passes: [0; 5], len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn lens(&self) -> [usize; 5] {
        std::array::from_fn(|band| self.lines[band].len())
    }

    #[inline]
    pub(crate) fn push<T: ListNode>(&mut self, slab: &mut Slab<T>, slot: u32, priority: Priority) {
        self.lines[priority.index()].push(slab, slot);
        self.len += 1;
    }

    #[inline]
    pub(crate) fn remove<T: ListNode>(&mut self, slab: &mut Slab<T>, slot: u32, priority: Priority) {
        self.lines[priority.index()].remove(slab, slot);
        self.len -= 1;
    }

    /// Takes the next key: the first of the highest band. Exception: if bands were passed over
    /// `ageing_claims` times or more, the first key of the band that was passed over most; of several such
    /// bands, the lowest.
    #[inline]
    pub(crate) fn pop<T: ListNode>(&mut self, slab: &mut Slab<T>, ageing_claims: u32) -> Option<u32> {
        let waiting = |band: &usize| self.lines[*band].len() > 0;
        let highest = (0..5).rev().find(waiting)?;
        if self.lines[highest].len() == self.len {
            // The common case: all ready keys are in this band, so no band is passed over.
            self.passes = [0; 5];
            return self.take_first(slab, highest);
        }
        let passed_over = (0..5).filter(waiting).filter(|band| self.passes[*band] >= ageing_claims);
        let band = passed_over.rev().max_by_key(|band| self.passes[*band]).unwrap_or(highest);
        for (other, passes) in self.passes.iter_mut().enumerate() {
            let passed_over = other != band && self.lines[other].len() > 0;
            *passes = if passed_over { passes.saturating_add(1) } else { 0 };
        }
        self.take_first(slab, band)
    }

    /// Takes the first key of the highest band, if that is `floor` or above. No band counts as passed over.
    pub(crate) fn pop_from<T: ListNode>(&mut self, slab: &mut Slab<T>, floor: Priority) -> Option<u32> {
        let band = (floor.index()..5).rev().find(|band| self.lines[*band].len() > 0)?;
        self.take_first(slab, band)
    }

    /// Returns how many keys are in this band and those above.
    pub(crate) fn len_from(&self, floor: Priority) -> usize {
        self.lines[floor.index()..].iter().map(IntrusiveList::len).sum()
    }

    #[inline]
    fn take_first<T: ListNode>(&mut self, slab: &mut Slab<T>, band: usize) -> Option<u32> {
        let slot = self.lines[band].first()?;
        self.remove(slab, slot, Priority::ALL[band]);
        Some(slot)
    }

    /// Returns the first key of each non-empty band, highest band first.
    pub(crate) fn firsts(&self) -> impl Iterator<Item = u32> {
        self.lines.iter().rev().filter_map(IntrusiveList::first)
    }

    /// Returns all keys, by band from the highest, in the order of each list.
    pub(crate) fn iter<'a, T: ListNode>(&'a self, slab: &'a Slab<T>) -> impl Iterator<Item = u32> + 'a {
        self.lines.iter().rev().flat_map(|line| line.iter(slab))
    }
}
