//! Exercises every mapping to a cluster-scoped kind. The status of a `Realm` lists the namespaced `Plot`s and
//! the cluster-scoped `River`s that point at it.
//!
//! A `Plot` maps to a `Realm` by its name, by the label `realm`, by the string at `/spec/realm` and by its
//! owner; a `River` by the label. Rivers are read-only: a `Realm` whose `/spec/digs` names one tries to write
//! it, which the role refuses.

use homeostat_sdk::prelude::*;

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", scope = "Cluster", status = Land, schema = "disabled")]
struct Realm {
    /// The river that it tries to write; empty for none.
    #[serde(default)]
    digs: String,
}

#[derive(Serialize, Deserialize)]
struct Land {
    /// `namespace/name` of the plots, sorted.
    plots: Vec<String>,
    /// Names of the rivers, sorted.
    rivers: Vec<String>,
}

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", schema = "disabled")]
struct Plot {
    #[serde(default)]
    realm: String,
}

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", scope = "Cluster", schema = "disabled")]
struct River {}

struct Guest;

impl Reconciler for Guest {
    fn describe() -> Spec {
        Spec::manages::<Realm>()
            .ignore_status()
            .watch(Watch::of::<Plot>(Mapping::same_name()).named("same-name").secondary())
            .watch(Watch::of::<Plot>(Mapping::label("realm")).named("label").secondary())
            .watch(Watch::of::<Plot>(Mapping::field("/spec/realm")).named("field").secondary())
            .watch(Watch::of::<Plot>(Mapping::owner()).named("owner").secondary())
            .watches::<River>(Mapping::label("realm"))
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        let Some(mut realm) = Realm::get_opt(&key)? else {
            return Ok(Outcome::settled());
        };
        if !realm.spec.digs.is_empty() {
            Resource::new("", &realm.spec.digs, River {}).apply().map_err(Failure::never)?;
        }
        let plots = Plot::list(Selector::everything()).all()?;
        let plots = plots.iter().filter(|plot| points_at(plot, &realm));
        let plots = plots.map(|plot| format!("{}/{}", plot.metadata.namespace, plot.metadata.name)).collect();
        let rivers = River::list(Selector::everything()).all()?;
        let rivers = rivers.into_iter().filter(|river| is_labelled(&river.metadata, &key.name));
        let rivers = rivers.map(|river| river.metadata.name).collect();
        realm.set_status(Land { plots, rivers })?;
        Ok(Outcome::settled())
    }
}

fn points_at(plot: &Resource<Plot>, realm: &Resource<Realm>) -> bool {
    let name = &realm.metadata.name;
    plot.metadata.name == *name
        || plot.spec.realm == *name
        || is_labelled(&plot.metadata, name)
        || plot.metadata.is_controlled_by(realm)
}

fn is_labelled(metadata: &Metadata, name: &str) -> bool {
    metadata.labels.get("realm").is_some_and(|label| label == name)
}

homeostat_sdk::export!(Guest);
