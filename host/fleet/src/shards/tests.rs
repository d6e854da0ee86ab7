use proptest::prelude::{ProptestConfig, proptest};

use super::{LeaseName, SHARDS_MAX, ShardBy, Shards};

/// These numbers are the same for ever: hosts of two versions share them.
#[test]
fn a_key_has_the_same_shard_in_every_version_of_the_host() {
    let shards = Shards::new(16, ShardBy::Key).unwrap();
    let keys = [("default", "a"), ("default", "b"), ("", "cluster-wide"), ("a/b", "c")];
    assert_eq!(keys.map(|(namespace, name)| shards.shard_of(namespace, name)), [11, 0, 2, 2]);
    let shards = Shards::new(16, ShardBy::Namespace).unwrap();
    assert_eq!(["default", "", "kube-system"].map(|namespace| shards.shard_of(namespace, "x")), [6, 2, 1]);
}

#[test]
fn shards_by_namespace_keep_a_namespace_together() {
    let shards = Shards::new(64, ShardBy::Namespace).unwrap();
    let all = (0..100).map(|name| shards.shard_of("one", &name.to_string()));
    assert_eq!(all.collect::<std::collections::BTreeSet<_>>().len(), 1);
}

#[test]
fn no_shards_and_too_many_are_refused() {
    assert_eq!(Shards::new(0, ShardBy::Key), None);
    assert_eq!(Shards::new(SHARDS_MAX + 1, ShardBy::Key), None);
}

#[test]
fn a_lease_is_named_by_its_controller_and_its_shard() {
    let names = Shards::new(2, ShardBy::Key).unwrap().leases("widgets");
    assert_eq!(names.iter().map(ToString::to_string).collect::<Vec<_>>(), ["widgets/0-of-2", "widgets/1-of-2"]);
    assert_eq!(Shards::SINGLETON.leases("widgets")[0].to_string(), "widgets");
}

#[test]
fn shards_are_read_as_they_are_written() {
    for count in [1, 2, SHARDS_MAX] {
        for by in [ShardBy::Key, ShardBy::Namespace] {
            let text = Shards::new(count, by).unwrap().to_string();
            assert_eq!(text.parse::<Shards>().unwrap().to_string(), text);
        }
    }
    for text in ["", "0", "01", "1-by-key", "2", "257-by-key", "2-by-color", "-2-by-key", "2-by-key-by-key"] {
        assert!(text.parse::<Shards>().is_err(), "{text:?}");
    }
}

#[test]
fn leases_of_hosts_and_records_are_no_leases_of_controllers() {
    let others = [LeaseName::of_shards("web"), LeaseName::of_host("web"), LeaseName::of_garbage()];
    assert!(others.iter().all(|other| !other.is_of_controller()));
    assert_eq!(others.map(|other| other.owner().to_owned()), ["web", "web", "garbage"]);
    assert!(Shards::SINGLETON.leases("web")[0].is_of_controller());

    let record = LeaseName::of_shards("web");
    assert!(record.is_of_shards() && !record.is_of_host());
    assert!(!LeaseName::of_host("web").is_of_shards());
    assert!(!Shards::SINGLETON.leases("web")[0].is_of_shards());
}

#[test]
fn the_record_of_a_rollout_is_no_lease_and_names_its_controller() {
    let record = LeaseName::of_rollout("web");
    assert!(record.is_of_rollout() && !record.is_of_host() && !record.is_of_shards());
    assert_eq!((record.controller(), record.owner()), ("web.rollout", "web"));
    assert!(!LeaseName::of_shards("web").is_of_rollout() && !Shards::SINGLETON.leases("web")[0].is_of_rollout());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_key_has_one_shard_within_the_count(count in 1..=SHARDS_MAX, namespace in ".{0,12}", name in ".{0,12}") {
        for by in [ShardBy::Key, ShardBy::Namespace] {
            assert!(Shards::new(count, by).unwrap().shard_of(&namespace, &name) < count);
        }
    }

    #[test]
    fn keys_spread_evenly(count in 1_u32..32, salt in 0_u32..1000) {
        let shards = Shards::new(count, ShardBy::Key).unwrap();
        let mut found = vec![0_u32; count as usize];
        for name in 0..count * 200 {
            found[shards.shard_of("default", &format!("{salt}-{name}")) as usize] += 1;
        }
        assert!(found.iter().all(|keys| (120..300).contains(keys)), "{found:?}");
    }
}
