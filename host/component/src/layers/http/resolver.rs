//! Resolves names to the addresses that a request may connect to.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::grants::{AddressRange, AddressScope};

/// Resolves host names.
#[async_trait]
pub(super) trait Resolver: Send + Sync + 'static {
    /// Returns the addresses of a host, the best first. Ports are ignored.
    async fn resolve(&self, host: &str) -> io::Result<Vec<SocketAddr>>;
}

/// The resolver of the operating system.
pub(super) struct System;

#[async_trait]
impl Resolver for System {
    async fn resolve(&self, host: &str) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((host, 0)).await?.collect())
    }
}

/// Filters the addresses of another resolver to the permitted ones.
pub(super) struct FilteringResolver {
    resolver: Arc<dyn Resolver>,
    allowed: Arc<BTreeSet<AddressRange>>,
}

impl FilteringResolver {
    pub(super) fn new(resolver: &Arc<dyn Resolver>, allowed: &BTreeSet<AddressRange>) -> Self {
        Self { resolver: Arc::clone(resolver), allowed: Arc::new(allowed.clone()) }
    }
}

impl Resolve for FilteringResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (resolver, allowed) = (Arc::clone(&self.resolver), Arc::clone(&self.allowed));
        Box::pin(async move {
            let found = resolver.resolve(name.as_str()).await?;
            let permitted: Addrs = Box::new(permitted(found, &allowed)?.into_iter());
            Ok(permitted)
        })
    }
}

/// A forbidden address of a host without any permitted address.
#[derive(Debug, thiserror::Error)]
#[error("{address} may not be connected to")]
pub(super) struct ForbiddenAddress {
    pub(super) address: IpAddr,
}

impl ForbiddenAddress {
    /// Finds this error among the causes of another one.
    pub(super) fn behind<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        std::iter::successors(Some(error), |error| error.source()).find_map(|error| error.downcast_ref())
    }
}

/// Checks the host of a URL if it is an address literal.
///
/// # Errors
/// When the address is forbidden.
pub(super) fn check_literal(host: Option<&str>, allowed: &BTreeSet<AddressRange>) -> Result<(), ForbiddenAddress> {
    let host = host.unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    match host.parse() {
        Ok(address) if !may_connect(address, allowed) => Err(ForbiddenAddress { address }),
        _ => Ok(()),
    }
}

/// Returns the permitted addresses. An empty list of addresses is no error.
fn permitted(found: Vec<SocketAddr>, allowed: &BTreeSet<AddressRange>) -> Result<Vec<SocketAddr>, ForbiddenAddress> {
    let (permitted, refused): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|address| may_connect(address.ip(), allowed));
    match refused.first() {
        Some(address) if permitted.is_empty() => Err(ForbiddenAddress { address: address.ip() }),
        _ => Ok(permitted),
    }
}

fn may_connect(address: IpAddr, allowed: &BTreeSet<AddressRange>) -> bool {
    match AddressScope::of(address) {
        AddressScope::Public => true,
        AddressScope::Within(range) => allowed.contains(&range),
        AddressScope::Nowhere => false,
    }
}
