//! Monitors addresses: the status of a `Monitor` shows whether its URL responds as expected.
//!
//! An unexpected response is recorded in the status. A missing response is recorded too, and then the
//! reconcile fails. The host retries with backoff, up to the controller's maximum, and returns to the usual
//! rate after the first success.

mod check;

use check::{Due, Monitor, MonitorStatus, State};
use homeostat_sdk::http;
use homeostat_sdk::prelude::*;

struct Uptime;

impl Reconciler for Uptime {
    fn describe() -> Spec {
        Spec::manages::<Monitor>()
            // Each check ends with a write of the status, which must not trigger another check.
            .ignore_status()
            .backoff(Duration::from_secs(1), Duration::from_secs(60))
            .concurrency(16)
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        let Some(mut monitor) = Monitor::get_opt(&key)? else {
            return Ok(Outcome::settled());
        };
        let generation = monitor.metadata.generation;
        match monitor.spec.due(generation, monitor.status.as_ref(), Time::now()) {
            Due::Now => {}
            Due::In(delay) => return Ok(Outcome::again_after(delay)),
            Due::Never(error) => return Err(Failure::never(error)),
        }

        let started = Time::now();
        let answer = http::get(&monitor.spec.url).timeout(monitor.spec.timeout.0).without_body().send();
        let answer = answer.map(|answer| (answer.status, Time::now().since(started)));
        let last = monitor.status.take();
        let status = monitor.spec.judge(generation, last.as_ref(), &answer, Time::now());
        emit_event(last.as_ref(), &status, &monitor.spec.url);
        monitor.set_status(status)?;
        match answer {
            Ok(_) => Ok(Outcome::again_after(monitor.spec.every.0)),
            Err(error @ http::Error::Invalid(_)) => Err(Failure::never(error)),
            Err(error) => Err(error.into()),
        }
    }
}

/// Emits an event when the site goes down or comes back.
fn emit_event(last: Option<&MonitorStatus>, now: &MonitorStatus, url: &str) {
    match (last.map(|last| last.state), now.state) {
        (Some(before), after) if before == after => {}
        (None, State::Up) => {}
        (Some(_), State::Up) => events::normal("Up", format_args!("{url} answers again")),
        (_, State::Down) => events::warning("Down", format_args!("{url} is down")),
    }
}

homeostat_sdk::export!(Uptime);

#[cfg(test)]
mod tests;
