//! A minimal controller: it greets the name in each `Greeting`.

use homeostat_sdk::prelude::*;

/// Asks for a greeting.
#[derive(Resource, Serialize, Deserialize, JsonSchema)]
#[resource(group = "demo.homeostat.dev", version = "v1", status = GreetingStatus)]
#[resource(printcolumn(name = "Message", type = "string", json_path = ".status.message"))]
#[resource(printcolumn(name = "Age", type = "date", json_path = ".metadata.creationTimestamp"))]
struct Greeting {
    name: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct GreetingStatus {
    message: String,
}

struct Greeter;

impl Reconciler for Greeter {
    fn describe() -> Spec {
        Spec::manages::<Greeting>()
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        let Some(mut greeting) = Greeting::get_opt(&key)? else {
            return Ok(Outcome::settled());
        };
        let message = format!("Hello, {}!", greeting.spec.name);
        greeting.set_status(GreetingStatus { message })?;
        Ok(Outcome::settled())
    }
}

homeostat_sdk::export!(Greeter);

#[cfg(test)]
mod tests;
