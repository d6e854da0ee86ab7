//! Test a Homeostat reconciler natively: resources go in, the reconciler runs, and the test looks at the outcome.
//!
//! A [`World`] has the host's own store, queue, mappings, garbage collector and schemas, in memory. Its time moves only
//! when the test moves it, and its store fails when the test says so.
//!
//! ```
//! use homeostat_sdk::prelude::*;
//! use homeostat_sdk_testing::World;
//!
//! # #[derive(Serialize, Deserialize)]
//! # struct Greeting { name: String }
//! # #[derive(Serialize, Deserialize, PartialEq, Debug)]
//! # struct GreetingStatus { message: String }
//! # impl Kind for Greeting {
//! #     const API_VERSION: &str = "demo.homeostat.dev/v1";
//! #     const NAME: &str = "Greeting";
//! #     const PLURAL: &str = "greetings";
//! #     type Status = GreetingStatus;
//! # }
//! # struct Greeter;
//! # impl Reconciler for Greeter {
//! #     fn describe() -> Spec { Spec::manages::<Greeting>() }
//! #     fn reconcile(key: Key) -> Result<Outcome, Failure> {
//! #         let Some(mut greeting) = Greeting::get_opt(&key)? else { return Ok(Outcome::settled()) };
//! #         let message = format!("Hello, {}!", greeting.spec.name);
//! #         greeting.set_status(GreetingStatus { message })?;
//! #         Ok(Outcome::settled())
//! #     }
//! # }
//! let mut world = World::<Greeter>::of();
//! world.put(&Resource::new("default", "a", Greeting { name: "World".into() }));
//! world.settle();
//! let greeting = world.get::<Greeting>(&Greeting::key("default", "a")).expect("it is there");
//! assert_eq!(greeting.status, Some(GreetingStatus { message: "Hello, World!".into() }));
//! ```
//!
//! Deliberately absent: a network, and the grants and limits of a manifest. `homeostat test` has grants.

mod convert;
mod native_host;
mod native_reconciler;
mod world;

pub use homeostat_simulator::{InjectedFault as Fault, Operation, RecordedEvent, RecordedLine};
pub use world::World;
