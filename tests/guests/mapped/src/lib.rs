//! Exercises every kind of mapping: the status of a `Mapped` lists the `Source` documents that point at it.
//!
//! A `Source` maps to a `Mapped` by its name, by the label `mapped`, by the string or list at `/spec/mapped`,
//! and by the guest's own mapper. The mapper reads `/spec/through` as names separated by spaces. Two names
//! are special there: for `foreign` the mapper returns a key of another kind; for `later` it fails while
//! there is no `Mapped` of that name.

use homeostat_sdk::ChangedResource;
use homeostat_sdk::prelude::*;

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", kind = "Mapped", status = Sources, schema = "disabled")]
struct MappedSpec {}

#[derive(Serialize, Deserialize)]
struct Sources {
    /// Names of the sources, sorted.
    sources: Vec<String>,
}

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", schema = "disabled")]
struct Source {
    #[serde(default)]
    mapped: OneOrMany,
    #[serde(default)]
    through: String,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl Default for OneOrMany {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

struct Guest;

impl Reconciler for Guest {
    fn describe() -> Spec {
        Spec::manages::<MappedSpec>()
            .watch(Watch::of::<Source>(Mapping::same_name()).named("same-name"))
            .watch(Watch::of::<Source>(Mapping::label("mapped")).named("label"))
            .watch(Watch::of::<Source>(Mapping::field("/spec/mapped")).named("field"))
            .watch(Watch::of::<Source>(Mapping::guest()).named("guest"))
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        let Some(mut mapped) = MappedSpec::get_opt(&key)? else {
            return Ok(Outcome::settled());
        };
        let all = Source::list(Selector::everything().in_namespace(&key.namespace)).all()?;
        let sources =
            all.iter().filter(|source| points_at(source, &key.name)).map(|source| source.metadata.name.clone());
        let sources = sources.collect();
        mapped.set_status(Sources { sources })?;
        Ok(Outcome::settled())
    }
}

impl Mapper for Guest {
    fn map(watch: &str, changed: ChangedResource) -> Result<Vec<Key>, Failure> {
        if watch != "guest" {
            return Err(Failure::never(format!("nobody should ask for {watch:?}")));
        }
        let source: Resource<Source> = changed.resource()?;
        source.spec.through.split_whitespace().map(|name| lead_to(changed.key(), name)).collect()
    }
}

fn lead_to(source: &Key, name: &str) -> Result<Key, Failure> {
    let key = source.beside::<MappedSpec>(name);
    match name {
        "foreign" => Ok(source.beside::<Source>(name)),
        "later" if MappedSpec::get_opt(&key)?.is_none() => Err(Failure::new("not yet")),
        _ => Ok(key),
    }
}

fn points_at(source: &Resource<Source>, name: &str) -> bool {
    let by_field = match &source.spec.mapped {
        OneOrMany::One(one) => one == name,
        OneOrMany::Many(many) => many.iter().any(|one| one == name),
    };
    by_field
        || source.metadata.name == name
        || source.metadata.labels.get("mapped").is_some_and(|label| label == name)
        || source.spec.through.split_whitespace().any(|one| one == name)
}

homeostat_sdk::export!(Guest: mapper);
