//! A controller that greets the name in each `Greeting`.

use homeostat_sdk::prelude::*;

/// The spec of a `Greeting`.
#[derive(Serialize, Deserialize)]
struct Greeting {
    name: String,
}

/// The status of a `Greeting`.
#[derive(Serialize, Deserialize)]
struct GreetingStatus {
    message: String,
}

impl Kind for Greeting {
    const API_VERSION: &str = "{{name}}.example.dev/v1";
    const NAME: &str = "Greeting";
    const PLURAL: &str = "greetings";
    type Status = GreetingStatus;
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
