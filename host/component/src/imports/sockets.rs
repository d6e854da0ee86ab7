//! `wasi:sockets`, inert: sockets can be created, but cannot connect. Every name lookup fails.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use wasmtime::component::{Linker, LinkerInstance, Resource, ResourceType, Val};
use wasmtime_wasi::p2::bindings::sockets::network::{ErrorCode, IpAddressFamily};

use super::inert::{link_constant, link_error, unnamed};
use super::{WASI_VERSION, clock};
use crate::call_context::State;
use crate::effect::WasiResource;

/// The error of functions that need the network.
const DENIED: &str = "access-denied";
/// Functions that need a bound or connected socket.
const OF_TCP: [&str; 20] = [
    "finish-bind",
    "finish-connect",
    "start-listen",
    "finish-listen",
    "accept",
    "local-address",
    "remote-address",
    "set-listen-backlog-size",
    "keep-alive-enabled",
    "set-keep-alive-enabled",
    "keep-alive-idle-time",
    "set-keep-alive-idle-time",
    "keep-alive-interval",
    "set-keep-alive-interval",
    "keep-alive-count",
    "set-keep-alive-count",
    "hop-limit",
    "set-hop-limit",
    "shutdown",
    "receive-buffer-size",
];
const OF_UDP: [&str; 5] =
    ["finish-bind", "local-address", "remote-address", "unicast-hop-limit", "set-unicast-hop-limit"];
const OF_BOTH: [&str; 3] = ["set-receive-buffer-size", "send-buffer-size", "set-send-buffer-size"];

/// The network. Its number is irrelevant: there is only one.
pub(super) struct Network;
/// A TCP socket; its number is its address family.
pub(super) struct Tcp;
/// A UDP socket; its number is its address family.
pub(super) struct Udp;
/// No handles of these types exist.
struct Addresses;
struct IncomingDatagrams;
struct OutgoingDatagrams;

pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let name = |interface: &str| format!("wasi:sockets/{interface}@{WASI_VERSION}");

    let mut network = linker.instance(&name("network"))?;
    network.resource("network", ResourceType::host::<Network>(), |_, _| Ok(()))?;
    link_constant(&mut network, "network-error-code", Val::Option(None))?;
    let mut only = linker.instance(&name("instance-network"))?;
    only.func_wrap("instance-network", |_, (): ()| Ok((Resource::<Network>::new_own(0),)))?;

    let mut tcp = linker.instance(&name("tcp"))?;
    socket::<Tcp>(&mut tcp, "tcp-socket")?;
    link_error(&mut tcp, "[method]tcp-socket.start-bind", tcp_address, |_| DENIED)?;
    link_error(&mut tcp, "[method]tcp-socket.start-connect", tcp_address, |_| DENIED)?;
    link_constant(&mut tcp, "[method]tcp-socket.is-listening", Val::Bool(false))?;
    for method in OF_TCP.into_iter().chain(OF_BOTH) {
        link_error(&mut tcp, &format!("[method]tcp-socket.{method}"), unnamed, |_| "invalid-state")?;
    }
    let mut create = linker.instance(&name("tcp-create-socket"))?;
    create.func_wrap("create-tcp-socket", |_, (family,): (IpAddressFamily,)| Ok((made::<Tcp>(family),)))?;

    let mut udp = linker.instance(&name("udp"))?;
    socket::<Udp>(&mut udp, "udp-socket")?;
    link_error(&mut udp, "[method]udp-socket.start-bind", udp_address, |_| DENIED)?;
    link_error(&mut udp, "[method]udp-socket.stream", udp_address, |_| DENIED)?;
    for method in OF_UDP.into_iter().chain(["receive-buffer-size"]).chain(OF_BOTH) {
        link_error(&mut udp, &format!("[method]udp-socket.{method}"), unnamed, |_| "invalid-state")?;
    }
    stream::<IncomingDatagrams>(&mut udp, "incoming-datagram-stream", &["receive"])?;
    stream::<OutgoingDatagrams>(&mut udp, "outgoing-datagram-stream", &["check-send", "send"])?;
    let mut create = linker.instance(&name("udp-create-socket"))?;
    create.func_wrap("create-udp-socket", |_, (family,): (IpAddressFamily,)| Ok((made::<Udp>(family),)))?;

    let mut lookup = linker.instance(&name("ip-name-lookup"))?;
    stream::<Addresses>(&mut lookup, "resolve-address-stream", &["resolve-next-address"])?;
    link_error(&mut lookup, "resolve-addresses", host_name, |_| "permanent-resolver-failure")
}

/// Links a resource whose handles are sockets.
fn socket<T: 'static>(instance: &mut LinkerInstance<'_, State>, resource: &str) -> wasmtime::Result<()> {
    instance.resource(resource, ResourceType::host::<T>(), |_, _| Ok(()))?;
    subscribe::<T>(instance, resource)?;
    instance.func_wrap(&format!("[method]{resource}.address-family"), |_, (socket,): (Resource<T>,)| {
        Ok((if socket.rep() == 4 { IpAddressFamily::Ipv4 } else { IpAddressFamily::Ipv6 },))
    })
}

/// Links a resource without handles.
fn stream<T: 'static>(
    instance: &mut LinkerInstance<'_, State>,
    resource: &str,
    methods: &[&str],
) -> wasmtime::Result<()> {
    instance.resource(resource, ResourceType::host::<T>(), |_, _| Ok(()))?;
    for method in methods {
        link_error(instance, &format!("[method]{resource}.{method}"), unnamed, |_| "invalid-state")?;
    }
    subscribe::<T>(instance, resource)
}

/// Links a `subscribe` that is ready at once.
fn subscribe<T: 'static>(instance: &mut LinkerInstance<'_, State>, resource: &str) -> wasmtime::Result<()> {
    instance.func_wrap(&format!("[method]{resource}.subscribe"), |mut store, (_,): (Resource<T>,)| {
        Ok((clock::timer(store.data_mut(), 0)?,))
    })
}

fn made<T: 'static>(family: IpAddressFamily) -> Result<Resource<T>, ErrorCode> {
    Ok(Resource::new_own(match family {
        IpAddressFamily::Ipv4 => 4,
        IpAddressFamily::Ipv6 => 6,
    }))
}

fn tcp_address(arguments: &[Val]) -> Option<WasiResource> {
    Some(WasiResource::Address(arguments.iter().find_map(address).map_or("tcp".to_owned(), |at| format!("tcp {at}"))))
}

fn udp_address(arguments: &[Val]) -> Option<WasiResource> {
    Some(WasiResource::Address(arguments.iter().find_map(address).map_or("udp".to_owned(), |at| format!("udp {at}"))))
}

fn host_name(arguments: &[Val]) -> Option<WasiResource> {
    arguments.iter().find_map(|argument| match argument {
        Val::String(name) => Some(WasiResource::Name(name.clone())),
        _ => None,
    })
}

/// Returns the socket address in an argument.
fn address(argument: &Val) -> Option<SocketAddr> {
    match argument {
        Val::Option(Some(inner)) => address(inner),
        Val::Variant(_, Some(inner)) => {
            let Val::Record(fields) = &**inner else { return None };
            let field = |name: &str| fields.iter().find(|(field, _)| field == name).map(|(_, value)| value);
            let (Some(Val::U16(port)), Some(Val::Tuple(parts))) = (field("port"), field("address")) else {
                return None;
            };
            Some(SocketAddr::new(ip(parts)?, *port))
        }
        _ => None,
    }
}

fn ip(parts: &[Val]) -> Option<std::net::IpAddr> {
    let bytes: Option<Vec<u8>> =
        parts.iter().map(|part| if let Val::U8(byte) = part { Some(*byte) } else { None }).collect();
    let words: Option<Vec<u16>> =
        parts.iter().map(|part| if let Val::U16(word) = part { Some(*word) } else { None }).collect();
    match (bytes, words) {
        (Some(bytes), _) => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        (_, Some(words)) => Some(Ipv6Addr::from(<[u16; 8]>::try_from(words).ok()?).into()),
        _ => None,
    }
}
