//! A controller whose kind comes from its settings.

use homeostat_sdk::prelude::*;
use homeostat_sdk_testing::World;

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.dev", version = "v1", schema = "disabled")]
struct Site {}

struct SettingsReader;

impl Reconciler for SettingsReader {
    fn describe() -> Spec {
        let kind = config::require("kind").unwrap_or_else(|error| panic!("{error}"));
        Spec::manages_dynamic(DynamicKind::new("demo.dev/v1", &kind, "sites"))
    }

    fn reconcile(_key: Key) -> Result<Outcome, Failure> {
        Ok(Outcome::settled())
    }
}

#[test]
fn a_controller_describes_itself_with_the_settings_of_its_world() {
    let mut world = World::<SettingsReader>::with_config(&[("kind", "Site")]);
    world.put(&Resource::new("default", "a", Site {}));
    assert_eq!(world.settle(), 1);
}

#[test]
#[should_panic(expected = "the setting \"kind\" is missing")]
fn a_missing_setting_fails_where_the_controller_reads_it() {
    drop(World::<SettingsReader>::of());
}
