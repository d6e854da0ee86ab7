//! A minimal controller: it greets the name in each `Greeting`.

use homeostat_sdk::prelude::*;

#[derive(Serialize, Deserialize)]
pub(crate) struct Greeting {
    pub(crate) name: String,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct GreetingStatus {
    pub(crate) message: String,
}

impl Kind for Greeting {
    const API_VERSION: &str = "demo.homeostat.dev/v1";
    const NAME: &str = "Greeting";
    const PLURAL: &str = "greetings";
    type Status = GreetingStatus;
}

pub(crate) struct Greeter;

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
