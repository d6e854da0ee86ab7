//! The addresses and the ports of nodes that a service chooses itself: they are of the ranges, and no other service has them.
//!
//! Deliberately absent: those that the host chooses for a service. No node routes them, and two services can get the same one.
//!
//! Source: `pkg/registry/core/service` of Kubernetes.

use std::net::Ipv4Addr;

use homeostat_builtin::{NODE_PORTS, SERVICE_RANGE};
use homeostat_store::schema::{Reason, Violation};
use homeostat_store::{Kind, Query, Request, Resource, ResourcePages, Store};
use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard};

use crate::error::found;
use crate::new_resource::sent_value;
use crate::{Error, Kinds};

/// The turn of the writes that choose an address or a port: they follow each other.
#[derive(Default)]
pub(crate) struct ServiceAddresses {
    turn: Mutex<()>,
}

impl ServiceAddresses {
    /// Checks what a write chooses for a service. The write has its turn until the result is dropped; `None` if it chooses
    /// nothing.
    ///
    /// # Errors
    /// [`Error::Store`], also for an address or a port that another service has, or that is not of its range.
    pub(crate) async fn check(
        &self,
        store: &dyn Store,
        kinds: &Kinds,
        request: &Request,
    ) -> Result<Option<MutexGuard<'_, ()>>, Error> {
        let Some(sent) = sent_value(&request.write).filter(|_| request.subresource.is_none()) else { return Ok(None) };
        let Ok(target) = request.write.target() else { return Ok(None) };
        let is_service = target.kind.same_type(&services()) && kinds.has_built_in_schema(&target.kind);
        if !is_service || !may_choose(sent) {
            return Ok(None);
        }
        let planned = store.submit(Request { dry_run: true, ..request.clone() }).await?.resource;
        let stored = found(store.get(planned.key()).await)?;
        let had = stored.as_ref().map(|stored| Choices::of(stored)).unwrap_or_default();
        let choices = Choices::of(&planned).of_sender(sent, &had);
        if choices.is_empty() {
            return Ok(None);
        }
        choices.check_ranges(&planned)?;
        let turn = self.turn.lock().await;
        let mut pages = ResourcePages::new(store, Query::all(services()));
        while let Some(page) = pages.next_page().await? {
            for other in page.iter().filter(|other| other.key() != planned.key()) {
                choices.check_apart(&planned, other)?;
            }
        }
        Ok(Some(turn))
    }
}

/// Returns whether a document or patch names a field of an address or a port of nodes. Most do not.
fn may_choose(sent: &Value) -> bool {
    let text = sent.to_string();
    text.contains("clusterIP") || text.contains("nodePort")
}

/// Addresses, and ports of nodes with their places in the list of ports.
#[derive(Default)]
struct Choices {
    addresses: Vec<String>,
    ports: Vec<(usize, u64)>,
}

impl Choices {
    fn of(service: &Resource) -> Self {
        let spec = &service.document()["spec"];
        let list = |name: &str| spec[name].as_array().map(Vec::as_slice).unwrap_or_default();
        let addresses = list("clusterIPs").iter().filter_map(Value::as_str).filter(|address| *address != "None");
        let ports = list("ports").iter().map(|port| port["nodePort"].as_u64().unwrap_or_default()).enumerate();
        Self {
            addresses: addresses.map(str::to_owned).collect(),
            ports: ports.filter(|(_, port)| *port != 0).collect(),
        }
    }

    /// Returns those that the sender of a write chose, and that the service did not have.
    fn of_sender(mut self, sent: &Value, had: &Self) -> Self {
        self.addresses.retain(|address| !had.addresses.contains(address) && has(sent, &address.as_str().into()));
        self.ports.retain(|(_, port)| !had.ports.iter().any(|(_, old)| old == port) && has(sent, &(*port).into()));
        self
    }

    fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.ports.is_empty()
    }

    fn check_ranges(&self, service: &Resource) -> Result<(), Error> {
        let (first, length) = SERVICE_RANGE;
        // Addresses of version 6 have no range here.
        let is_outside = |address: &&String| {
            address.parse::<Ipv4Addr>().is_ok_and(|address| (address.to_bits() ^ first.to_bits()) >> (32 - length) != 0)
        };
        if let Some(address) = self.addresses.iter().find(is_outside) {
            return Err(address_refused(service, address, "the provided network does not match the current range"));
        }
        let Some(place) = self.ports.iter().find(|(_, port)| !NODE_PORTS.contains(port)) else { return Ok(()) };
        let (first, last) = (NODE_PORTS.start(), NODE_PORTS.end());
        let reason = format!("provided port is not in the valid range. The range of valid ports is {first}-{last}");
        Err(port_refused(service, *place, &reason))
    }

    /// Checks that another service has none of these.
    fn check_apart(&self, service: &Resource, other: &Resource) -> Result<(), Error> {
        let other = Self::of(other);
        if let Some(address) = self.addresses.iter().find(|address| other.addresses.contains(address)) {
            return Err(address_refused(service, address, "provided IP is already allocated"));
        }
        let is_taken = |(_, port): &&(usize, u64)| other.ports.iter().any(|(_, of_other)| of_other == port);
        match self.ports.iter().find(is_taken) {
            Some(place) => Err(port_refused(service, *place, "provided port is already allocated")),
            None => Ok(()),
        }
    }
}

/// Returns whether a value is in a document or patch.
fn has(sent: &Value, value: &Value) -> bool {
    match sent {
        Value::Array(items) => items.iter().any(|item| has(item, value)),
        Value::Object(fields) => fields.values().any(|field| has(field, value)),
        _ => sent == value,
    }
}

fn address_refused(service: &Resource, address: &str, reason: &str) -> Error {
    let addresses = &service.document()["spec"]["clusterIPs"];
    refused(service, "spec.clusterIPs".to_owned(), format!("{addresses}: failed to allocate IP {address}: {reason}"))
}

fn port_refused(service: &Resource, (at, port): (usize, u64), reason: &str) -> Error {
    refused(service, format!("spec.ports[{at}].nodePort"), format!("{port}: {reason}"))
}

fn refused(service: &Resource, path: String, detail: String) -> Error {
    let what = format!("Service {:?}", service.key().name());
    homeostat_store::Error::invalid_fields(what, vec![Violation { path, reason: Reason::Invalid, detail }]).into()
}

fn services() -> Kind {
    Kind::new("", "v1", "Service")
}

#[cfg(test)]
mod tests;
