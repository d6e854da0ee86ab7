//! A controller that greets the name in each `Greeting`.

use homeostat_sdk::prelude::*;

/// Asks for a greeting.
///
/// The comments become descriptions in the schema of the kind: `homeostat crd` prints it.
#[derive(Resource, Serialize, Deserialize, JsonSchema)]
#[resource(group = "{{name}}.example.dev", version = "v1", status = GreetingStatus)]
#[resource(printcolumn(name = "Message", type = "string", json_path = ".status.message"))]
#[resource(printcolumn(name = "Age", type = "date", json_path = ".metadata.creationTimestamp"))]
struct Greeting {
    /// The name of the person to greet.
    name: String,
}

/// The status of a `Greeting`.
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
        // The key is all there is: the greeting may be gone by now.
        let Some(mut greeting) = Greeting::get_opt(&key)? else {
            return Ok(Outcome::settled());
        };
        if greeting.spec.name.is_empty() {
            // Trying again cannot help: the key waits until its resource changes.
            return Err(Failure::never("spec.name is empty"));
        }
        let message = format!("Hello, {}!", greeting.spec.name);
        greeting.set_status(GreetingStatus { message })?;
        Ok(Outcome::settled())
    }
}

homeostat_sdk::export!(Greeter);
