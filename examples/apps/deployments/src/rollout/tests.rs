use serde_json::json;

use super::*;

fn rolling(desired: u32, surge: u32, unavailable: u32) -> Rollout {
    Rollout { desired, surge, unavailable, recreate: false, paused: false }
}

/// Creates a set that was last resized when the Deployment asked for `desired` replicas, up to `max` in
/// total.
fn set(replicas: u32, available: u32, desired: u32, max: u32) -> Set {
    let there = Some(replicas);
    Set { replicas, available, there, empty: replicas == 0, desired_then: Some(desired), max_then: Some(max) }
}

fn limits(replicas: u32, surge: serde_json::Value, unavailable: serde_json::Value) -> (u32, u32) {
    let deployment: Deployment = serde_json::from_value(json!({
        "replicas": replicas, "selector": {}, "template": {},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
    }))
    .unwrap();
    let Rollout { surge, unavailable, .. } = Rollout::of(&deployment);
    (surge, unavailable)
}

#[test]
fn surge_is_rounded_up_and_unavailable_down() {
    assert_eq!(limits(5, json!("25%"), json!("25%")), (2, 1));
    assert_eq!(limits(4, json!("25%"), json!("25%")), (1, 1));
    assert_eq!(limits(3, json!(2), json!(0)), (2, 0));
    assert_eq!(limits(10, json!("0%"), json!("100%")), (0, 10));
}

#[test]
fn without_any_room_one_may_be_unavailable() {
    assert_eq!(limits(5, json!(0), json!(0)), (0, 1));
    assert_eq!(limits(1, json!("0%"), json!("25%")), (0, 1));
}

#[test]
fn a_share_that_is_none_is_refused() {
    for wrong in [json!("25"), json!("a%"), json!(-1), json!(1.5), json!("-5%"), json!(null)] {
        assert!(serde_json::from_value::<Share>(wrong.clone()).is_err(), "{wrong} was taken");
    }
}

#[test]
fn without_a_strategy_it_rolls_by_quarters() {
    let deployment: Deployment = serde_json::from_value(json!({"selector": {}, "template": {}})).unwrap();
    let Rollout { desired, surge, unavailable, recreate, paused } = Rollout::of(&deployment);
    assert_eq!((desired, surge, unavailable, recreate, paused), (1, 1, 0, false, false));
}

#[test]
fn the_first_set_gets_everything() {
    assert_eq!(rolling(5, 2, 1).plan(None, &[]), Plan { new: Some(5), old: vec![] });
}

#[test]
fn a_rolling_update_starts_with_the_surge_and_what_may_be_missing() {
    let plan = rolling(5, 2, 1).plan(None, &[set(5, 5, 5, 7)]);
    assert_eq!(plan, Plan { new: Some(2), old: vec![4] });
}

#[test]
fn the_new_set_does_not_grow_before_the_old_ones_have_shrunk() {
    let unknown = Set { there: None, ..set(4, 4, 5, 7) };
    assert_eq!(rolling(5, 2, 1).plan(Some(set(2, 2, 5, 7)), &[unknown]).new, Some(2));
    let shrinking = Set { there: Some(5), ..set(4, 4, 5, 7) };
    assert_eq!(rolling(5, 2, 1).plan(Some(set(2, 2, 5, 7)), &[shrinking]).new, Some(2));
    assert_eq!(rolling(5, 2, 1).plan(Some(set(2, 2, 5, 7)), &[set(4, 4, 5, 7)]).new, Some(3));
}

#[test]
fn unhealthy_old_pods_go_first() {
    let old = [set(3, 0, 10, 13), set(8, 8, 10, 13)];
    let plan = rolling(10, 3, 2).plan(Some(set(2, 2, 10, 13)), &old);
    assert_eq!(plan.old, [0, 6]);
}

#[test]
fn an_image_that_never_gets_ready_stops_the_rollout() {
    let plan = rolling(5, 2, 1).plan(Some(set(3, 0, 5, 7)), &[set(4, 4, 5, 7)]);
    assert_eq!(plan, Plan { new: Some(3), old: vec![4] });
}

#[test]
fn recreating_waits_for_the_last_old_pod() {
    let rollout = Rollout { recreate: true, ..rolling(3, 0, 0) };
    assert_eq!(rollout.plan(None, &[set(3, 3, 3, 3)]), Plan { new: None, old: vec![0] });
    let going = Set { empty: false, ..set(0, 0, 3, 3) };
    assert_eq!(rollout.plan(None, &[going]), Plan { new: None, old: vec![0] });
    assert_eq!(rollout.plan(None, &[set(0, 0, 3, 3)]), Plan { new: Some(3), old: vec![0] });
}

#[test]
fn another_number_of_replicas_goes_to_the_only_set() {
    assert_eq!(rolling(8, 2, 2).plan(Some(set(5, 5, 5, 7)), &[]), Plan { new: Some(8), old: vec![] });
    let template_changed_too = rolling(8, 2, 2).plan(None, &[set(5, 5, 5, 7)]);
    assert_eq!(template_changed_too, Plan { new: None, old: vec![8] });
}

#[test]
fn another_number_of_replicas_is_shared_out_by_size() {
    let up = rolling(20, 5, 5).plan(Some(set(5, 3, 10, 13)), &[set(8, 8, 10, 13)]);
    assert_eq!(up, Plan { new: Some(10), old: vec![15] });
    let down = rolling(5, 2, 1).plan(Some(set(4, 4, 10, 13)), &[set(8, 8, 10, 13)]);
    assert_eq!(down, Plan { new: Some(3), old: vec![4] });
    let nothing = rolling(0, 0, 0).plan(Some(set(5, 5, 10, 13)), &[set(8, 8, 10, 13)]);
    assert_eq!(nothing, Plan { new: Some(0), old: vec![0] });
}

#[test]
fn a_new_set_that_has_just_what_is_needed_ends_the_rollout() {
    let plan = rolling(5, 2, 1).plan(Some(set(5, 5, 10, 13)), &[set(8, 8, 10, 13)]);
    assert_eq!(plan, Plan { new: Some(5), old: vec![0] });
}

#[test]
fn a_paused_rollout_creates_nothing_and_still_scales() {
    let rollout = Rollout { paused: true, ..rolling(8, 2, 2) };
    assert_eq!(rollout.plan(None, &[set(5, 5, 8, 10)]), Plan { new: None, old: vec![8] });
    let halfway = rollout.plan(Some(set(4, 4, 8, 10)), &[set(6, 6, 8, 10)]);
    assert_eq!(halfway, Plan { new: Some(4), old: vec![6] });
}

/// ReplicaSets with pods, each ready or not. The last set is the new one.
struct World {
    seed: u64,
    rollout: Rollout,
    sets: Vec<(Set, Vec<bool>)>,
}

impl World {
    fn below(&mut self, end: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % end
    }

    fn plan(&self) -> Vec<u32> {
        let (new, old) = self.sets.split_last().unwrap();
        let old: Vec<Set> = old.iter().map(|(set, _)| *set).collect();
        let plan = self.rollout.plan(Some(new.0), &old);
        plan.old.into_iter().chain(plan.new).collect()
    }

    /// Performs one write of the plan; then the controller stops.
    fn write_one(&mut self) {
        let plan = self.plan();
        let (desired, max) = (Some(self.rollout.desired), Some(self.rollout.max()));
        // The new set first, as the controller does.
        let differs =
            |&index: &usize| self.sets[index].0.replicas != plan[index] || self.sets[index].0.desired_then != desired;
        if let Some(index) = (0..self.sets.len()).rev().find(differs) {
            let set = &mut self.sets[index].0;
            (set.replicas, set.there, set.desired_then, set.max_then) = (plan[index], None, desired, max);
            set.available = set.available.min(set.replicas);
        }
    }

    /// Performs one step of a ReplicaSet's controller.
    fn settle_one(&mut self, index: usize) {
        let (set, pods) = &mut self.sets[index];
        if pods.len() < set.replicas as usize {
            pods.push(false);
        } else if pods.len() > set.replicas as usize {
            let least = pods.iter().position(|ready| !ready).unwrap_or(0);
            pods.remove(least);
        }
    }

    fn step(&mut self) {
        let index = usize::try_from(self.below(self.sets.len() as u64)).unwrap();
        match self.below(4) {
            0 => self.write_one(),
            1 => self.settle_one(index),
            2 => {
                if let Some(pod) = self.sets[index].1.iter_mut().find(|ready| !**ready) {
                    *pod = true;
                }
            }
            _ => {
                let (set, pods) = &mut self.sets[index];
                let ready = u32::try_from(pods.iter().filter(|ready| **ready).count()).unwrap();
                set.available = ready.min(set.replicas);
                set.there = Some(u32::try_from(pods.len()).unwrap());
            }
        }
    }
}

#[test]
fn a_rollout_keeps_its_promises_wherever_it_is_stopped_and_comes_to_an_end() {
    for seed in 0..500 {
        let mut world = World { seed, rollout: rolling(1, 1, 0), sets: Vec::new() };
        let desired = u32::try_from(world.below(12)).unwrap() + 1;
        let surge = u32::try_from(world.below(5)).unwrap();
        let unavailable = u32::try_from(world.below(u64::from(desired) + 1)).unwrap();
        let unavailable = if surge == 0 { unavailable.max(1) } else { unavailable };
        world.rollout = rolling(desired, surge, unavailable);
        let (desired, max) = (world.rollout.desired, world.rollout.max());
        world.sets.push((set(0, 0, desired, max), Vec::new()));
        world.sets.push((set(desired, desired, desired, max), vec![true; desired as usize]));
        world.sets.push((set(0, 0, desired, max), Vec::new()));
        for _ in 0..5000 {
            world.step();
            let asked: u32 = world.sets.iter().map(|(set, _)| set.replicas).sum();
            assert!(asked <= max, "seed {seed}: {asked} replicas, {max} at most");
            let pods: usize = world.sets.iter().map(|(_, pods)| pods.len()).sum();
            assert!(pods <= max as usize, "seed {seed}: {pods} pods, {max} at most");
            let ready = world.sets.iter().flat_map(|(_, pods)| pods).filter(|ready| **ready).count();
            assert!(ready >= world.rollout.min_available() as usize, "seed {seed}: only {ready} ready");
        }
        let sizes: Vec<u32> = world.sets.iter().map(|(set, _)| set.replicas).collect();
        assert_eq!(sizes, [0, 0, desired], "seed {seed}");
        assert_eq!(world.plan(), sizes, "seed {seed}: it does not come to rest");
    }
}

#[test]
fn scaling_in_the_middle_of_a_rollout_comes_to_an_end_too() {
    for seed in 0..200 {
        let mut world = World { seed, rollout: rolling(10, 3, 2), sets: Vec::new() };
        world.sets.push((set(10, 10, 10, 13), vec![true; 10]));
        world.sets.push((set(0, 0, 10, 13), Vec::new()));
        for _ in 0..world.below(60) {
            world.step();
        }
        let desired = u32::try_from(world.below(30)).unwrap();
        world.rollout = rolling(desired, 3, 2);
        for _ in 0..5000 {
            world.step();
        }
        let sizes: Vec<u32> = world.sets.iter().map(|(set, _)| set.replicas).collect();
        assert_eq!(sizes, [0, desired], "seed {seed}");
    }
}
