use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const TURN_NS: u64 = 1_000_000;

/// Two processors, and tenants whose tasks are always ready. Advances by whole quanta.
struct Machine {
    shares: FairQueue<(usize, u32)>,
    running: Vec<(usize, u32)>,
}

impl Machine {
    fn new(turns: usize) -> Self {
        Self { shares: FairQueue::new(turns), running: Vec::new() }
    }

    /// Adds a tenant with this many tasks that are always ready.
    fn busy(&mut self, tasks: u32) -> usize {
        let account = self.shares.add_tenant();
        (0..tasks).for_each(|task| self.shares.enqueue(account, (account, task), TaskClass::Normal));
        account
    }

    /// Grants all free slots and returns the tasks.
    fn start(&mut self) -> Vec<(usize, u32)> {
        let granted: Vec<_> = std::iter::from_fn(|| self.shares.grant()).collect();
        self.running.extend(&granted);
        granted
    }

    /// Ends all quanta; their tasks become ready again.
    fn end(&mut self, cost_ns: impl Fn(usize) -> u64) {
        for (account, task) in std::mem::take(&mut self.running) {
            self.shares.end(account, cost_ns(account), TaskClass::Normal);
            self.shares.enqueue(account, (account, task), TaskClass::Normal);
        }
    }
}

/// P5: a busy controller delays others by a bounded factor only.
#[test]
fn a_tenant_with_little_work_waits_for_one_quantum_beside_any_number_of_tasks() {
    let mut machine = Machine::new(2);
    for _ in 0..3 {
        machine.busy(100);
    }
    let seldom = machine.shares.add_tenant();
    for round in 0..1000 {
        machine.start();
        // Every tenant has had a quantum.
        if round % 7 == 6 {
            // It becomes ready while both processors are busy, and gets the next free one.
            machine.shares.enqueue(seldom, (seldom, 0), TaskClass::Normal);
            machine.end(|_| TURN_NS);
            assert_eq!(machine.shares.grant(), Some((seldom, 0)), "round {round}");
            machine.shares.end(seldom, 20_000, TaskClass::Normal);
        } else {
            machine.end(|_| TURN_NS);
        }
    }
}

/// P5: the measure is processor time, neither keys nor workers.
#[test]
fn busy_tenants_get_equal_time_regardless_of_quantum_costs_and_numbers_of_tasks() {
    let mut machine = Machine::new(2);
    let cost_ns =
        BTreeMap::from([(machine.busy(1), TURN_NS), (machine.busy(50), TURN_NS / 10), (machine.busy(5), TURN_NS / 3)]);
    let mut used_ns = BTreeMap::<usize, u64>::new();
    for _ in 0..10_000 {
        for (account, _) in machine.start() {
            *used_ns.entry(account).or_default() += cost_ns[&account];
        }
        machine.end(|account| cost_ns[&account]);
    }
    let (least, most) = (used_ns.values().min().unwrap(), used_ns.values().max().unwrap());
    assert!(most - least <= 2 * TURN_NS, "{used_ns:?}");
}

#[test]
fn an_idle_tenant_goes_first_once_and_then_shares_equally() {
    let mut machine = Machine::new(1);
    let busy = machine.busy(1);
    let sleeper = machine.shares.add_tenant();
    for _ in 0..1000 {
        machine.start();
        machine.end(|_| TURN_NS);
    }
    machine.shares.enqueue(sleeper, (sleeper, 0), TaskClass::Normal);
    let mut turns = BTreeMap::<usize, u64>::new();
    for _ in 0..20 {
        for (account, _) in machine.start() {
            *turns.entry(account).or_default() += 1;
        }
        machine.end(|_| TURN_NS);
    }
    assert!(turns[&busy] >= 9, "what the sleeper missed is not made up for: {turns:?}");
}

#[test]
fn the_tasks_of_one_controller_go_in_the_order_of_asking() {
    let mut shares = FairQueue::new(1);
    let account = shares.add_tenant();
    (0..3).for_each(|task| shares.enqueue(account, task, TaskClass::Normal));
    for task in 0..3 {
        assert_eq!(shares.grant(), Some(task));
        assert_eq!(shares.grant(), None, "one turn is all there is");
        shares.end(account, 1, TaskClass::Normal);
    }
    assert_eq!(shares.grant(), None);
}

/// P5: a busy controller delays others by a bounded factor only.
#[test]
fn long_quanta_leave_one_slot_for_short_ones() {
    for turns in 1..5 {
        let mut shares = FairQueue::new(turns);
        let (busy, seldom) = (shares.add_tenant(), shares.add_tenant());
        (0..10).for_each(|task| shares.enqueue(busy, task, TaskClass::Batch));
        let long = std::iter::from_fn(|| shares.grant()).count();
        assert_eq!(long, if turns == 1 { 1 } else { turns - 1 }, "of {turns} turns");
        shares.enqueue(seldom, 100, TaskClass::Normal);
        assert_eq!(shares.grant().is_some(), turns > 1, "of {turns} turns");
    }
}

/// P5: a busy controller delays others by a bounded factor only.
#[test]
fn brief_quanta_wait_only_for_each_other() {
    let mut shares = FairQueue::new(2);
    let (busy, seldom) = (shares.add_tenant(), shares.add_tenant());
    (0..3).for_each(|task| shares.enqueue(busy, task, TaskClass::Normal));
    assert_eq!([shares.grant(), shares.grant(), shares.grant()], [Some(0), Some(1), None]);
    assert!(shares.is_exhausted());
    (10..13).for_each(|task| shares.enqueue(seldom, task, TaskClass::Interactive));
    assert_eq!([shares.grant(), shares.grant(), shares.grant()], [Some(10), Some(11), None]);
    shares.end(seldom, 1, TaskClass::Interactive);
    assert_eq!([shares.grant(), shares.grant()], [Some(12), None]);
    shares.end(busy, TURN_NS, TaskClass::Normal);
    assert_eq!([shares.grant(), shares.grant()], [Some(2), None]);
}

#[test]
fn a_tenant_waiting_in_two_classes_gets_the_free_slot() {
    let mut shares = FairQueue::new(2);
    let account = shares.add_tenant();
    for (task, length) in [(0, TaskClass::Batch), (1, TaskClass::Batch), (2, TaskClass::Normal)] {
        shares.enqueue(account, task, length);
    }
    assert_eq!([shares.grant(), shares.grant(), shares.grant()], [Some(0), Some(2), None]);
    shares.end(account, TURN_NS, TaskClass::Normal);
    assert_eq!(shares.grant(), None, "the other long one has to wait");
    shares.end(account, TURN_NS, TaskClass::Batch);
    assert_eq!(shares.grant(), Some(1));
}

proptest! {
    /// In any course of events, no slot is lost or duplicated, and no waiting task is forgotten.
    #[test]
    fn quanta_are_neither_lost_nor_invented(
        steps in prop::collection::vec((0_u8..4, 0_usize..3, 0_u64..3_000_000, 0_usize..3), 0..200),
    ) {
        let mut shares = FairQueue::new(3);
        let accounts: Vec<usize> = (0..3).map(|_| shares.add_tenant()).collect();
        let (mut waiting, mut running, mut asked) = (Vec::new(), Vec::new(), 0_u32);
        for (verb, which, cost_ns, length) in steps {
            match verb {
                0 => {
                    asked += 1;
                    let length = TaskClass::ALL[length];
                    shares.enqueue(accounts[which], (which, asked, length), length);
                    waiting.push((which, asked, length));
                }
                1 if !running.is_empty() => {
                    let (which, _, length) = running.remove(which % running.len());
                    shares.end(accounts[which], cost_ns, length);
                }
                2 if !waiting.is_empty() => {
                    let gone: (usize, u32, TaskClass) = waiting.remove(which % waiting.len());
                    shares.withdraw(accounts[gone.0], &gone, gone.2);
                }
                _ => {}
            }
            while let Some(granted) = shares.grant() {
                let at = waiting.iter().position(|waiter| *waiter == granted);
                prop_assert!(at.is_some(), "{granted:?} did not wait");
                waiting.remove(at.unwrap());
                running.push(granted);
            }
            let out = |is: fn(TaskClass) -> bool| running.iter().filter(|(_, _, length)| is(*length)).count();
            let brief = out(|length| length == TaskClass::Interactive);
            let (others, long) = (running.len() - brief, out(|length| length == TaskClass::Batch));
            prop_assert!(brief <= 3 && others <= 3 && long <= 2);
            // No task waits that could run.
            let could_go = |length: TaskClass| match length {
                TaskClass::Interactive => brief < 3,
                TaskClass::Normal => others < 3,
                TaskClass::Batch => others < 3 && long < 2,
            };
            prop_assert!(!waiting.iter().any(|(_, _, length)| could_go(*length)));
        }
    }
}
