//! Requests `spec.url` through `wasi:http`, and writes the URL with the status code or the error into its status.

use homeostat_sdk::http;
use homeostat_sdk::prelude::*;

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", status = FetcherStatus, schema = "disabled")]
struct Fetcher {
    url: String,
}

#[derive(Serialize, Deserialize)]
struct FetcherStatus {
    url: String,
    code: Option<u16>,
    error: Option<String>,
}

struct Guest;

impl Reconciler for Guest {
    fn describe() -> Spec {
        Spec::manages::<Fetcher>()
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        let Some(mut fetcher) = Fetcher::get_opt(&key)? else {
            return Ok(Outcome::settled());
        };
        let (code, error) = match http::get(&fetcher.spec.url).send() {
            Ok(answer) => (Some(answer.status), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let status = FetcherStatus { url: fetcher.spec.url.clone(), code, error };
        fetcher.set_status(status)?;
        Ok(Outcome::settled())
    }
}

homeostat_sdk::export!(Guest);
