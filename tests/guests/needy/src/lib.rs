//! Requests `spec.url` through `wasi:http`, and writes the status code or the error into its status.

use homeostat_sdk::http;
use homeostat_sdk::prelude::*;

#[derive(Serialize, Deserialize)]
struct Needy {
    url: String,
}

#[derive(Serialize, Deserialize)]
struct NeedyStatus {
    code: Option<u16>,
    error: Option<String>,
}

impl Kind for Needy {
    const API_VERSION: &str = "demo.homeostat.dev/v1";
    const NAME: &str = "Needy";
    const PLURAL: &str = "needies";
    type Status = NeedyStatus;
}

struct Guest;

impl Reconciler for Guest {
    fn describe() -> Spec {
        Spec::manages::<Needy>()
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        let Some(mut needy) = Needy::get_opt(&key)? else {
            return Ok(Outcome::settled());
        };
        let status = match http::get(&needy.spec.url).send() {
            Ok(answer) => NeedyStatus { code: Some(answer.status), error: None },
            Err(error) => NeedyStatus { code: None, error: Some(error.to_string()) },
        };
        needy.set_status(status)?;
        Ok(Outcome::settled())
    }
}

homeostat_sdk::export!(Guest);
