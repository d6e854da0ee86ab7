//! `wasi:random`: every random byte comes from an effect, so that a replay draws the same bytes.
//!
//! That includes the seed of hash tables: a guest whose result depends on the order of a hash table then
//! behaves the same in a replay.

use wasmtime::bail;
use wasmtime::component::Linker;

use super::{WASI_VERSION, answer};
use crate::call_context::CallContext;
use crate::call_context::State;
use crate::effect::Effect;
use crate::limits::contract::RANDOM_BYTES_MAX;

pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    for (interface, prefix) in [("random", "get-random"), ("insecure", "get-insecure-random")] {
        let mut instance = linker.instance(&format!("wasi:random/{interface}@{WASI_VERSION}"))?;
        instance.func_wrap_async(&format!("{prefix}-bytes"), |store, (length,): (u64,)| {
            Box::new(async move { Ok((draw(&store.data().context, length).await?,)) })
        })?;
        instance.func_wrap_async(&format!("{prefix}-u64"), |store, (): ()| {
            Box::new(async move { Ok((number(&store.data().context).await?,)) })
        })?;
    }
    let mut instance = linker.instance(&format!("wasi:random/insecure-seed@{WASI_VERSION}"))?;
    instance.func_wrap_async("insecure-seed", |store, (): ()| {
        Box::new(async move {
            let bytes: [u8; 16] = exactly(draw(&store.data().context, 16).await?)?;
            let seed = u128::from_le_bytes(bytes);
            #[expect(clippy::cast_possible_truncation, reason = "the two halves are what is wanted")]
            Ok(((seed as u64, (seed >> 64) as u64),))
        })
    })
}

async fn number(port: &CallContext) -> wasmtime::Result<u64> {
    Ok(u64::from_le_bytes(exactly(draw(port, 8).await?)?))
}

async fn draw(port: &CallContext, length: u64) -> wasmtime::Result<Vec<u8>> {
    if length > RANDOM_BYTES_MAX {
        bail!("{length} random bytes asked for in one call, {RANDOM_BYTES_MAX} allowed");
    }
    let bytes = u32::try_from(length)?;
    let answer = answer!(port.perform(Effect::Random { bytes }).await?, Bytes);
    if answer.len() as u64 != length {
        bail!("the host answered {} random bytes instead of {length}", answer.len());
    }
    Ok(answer.to_vec())
}

fn exactly<const N: usize>(bytes: Vec<u8>) -> wasmtime::Result<[u8; N]> {
    bytes.try_into().map_err(|_| wasmtime::format_err!("the host answered the wrong number of random bytes"))
}
