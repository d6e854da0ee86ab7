//! Reads its resource, and writes the length of its text into the status, to measure the cost of a typical
//! reconcile.

use homeostat_sdk::prelude::*;

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", kind = "Measured", status = Length, schema = "disabled")]
struct MeasuredText {
    text: String,
}

#[derive(Serialize, Deserialize)]
struct Length {
    characters: usize,
}

struct Guest;

impl Reconciler for Guest {
    fn describe() -> Spec {
        Spec::manages::<MeasuredText>()
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        let Some(mut measured) = MeasuredText::get_opt(&key)? else {
            return Ok(Outcome::settled());
        };
        let characters = measured.spec.text.chars().count();
        measured.set_status(Length { characters })?;
        Ok(Outcome::settled())
    }
}

homeostat_sdk::export!(Guest);
