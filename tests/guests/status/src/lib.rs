//! Reads its resource, and writes the length of its text into the status, to measure the cost of a typical
//! reconcile.

use homeostat_sdk::prelude::*;

#[derive(Serialize, Deserialize)]
struct MeasuredText {
    text: String,
}

#[derive(Serialize, Deserialize)]
struct Length {
    characters: usize,
}

impl Kind for MeasuredText {
    const API_VERSION: &str = "demo.homeostat.dev/v1";
    const NAME: &str = "Measured";
    const PLURAL: &str = "measureds";
    type Status = Length;
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
