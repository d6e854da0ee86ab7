//! Follows the `Note` that its `spec.target` names, which no mapping leads back from. Its status repeats the
//! note.

use homeostat_sdk::prelude::*;
use homeostat_sdk::watches;

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", status = FollowerStatus, schema = "disabled")]
struct Follower {
    target: String,
}

#[derive(Serialize, Deserialize)]
struct FollowerStatus {
    text: String,
}

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", schema = "disabled")]
struct Note {
    text: String,
}

struct Guest;

impl Reconciler for Guest {
    fn describe() -> Spec {
        // The watch only declares the kind; no note has the label, so it queues no key.
        Spec::manages::<Follower>().watch(Watch::of::<Note>(Mapping::label("demo.homeostat.dev/nobody")))
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        let Some(mut follower) = Follower::get_opt(&key)? else {
            return Ok(Outcome::settled());
        };
        let note = key.beside::<Note>(&follower.spec.target);
        watches::follow(&note)?;
        let text = Note::get_opt(&note)?.map_or_else(|| "nothing".to_owned(), |note| note.spec.text);
        follower.set_status(FollowerStatus { text })?;
        Ok(Outcome::settled())
    }
}

homeostat_sdk::export!(Guest);
