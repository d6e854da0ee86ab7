//! `wasi:cli`, inert: no arguments, no environment, closed standard input, no terminals. Standard output and
//! standard error go to the log, line by line. `exit` ends the guest as a trap.

use std::sync::Arc;

use bytes::Bytes;
use wasmtime::component::{Linker, Resource, ResourceType};
use wasmtime::format_err;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::{
    DynInputStream, DynOutputStream, InputStream, OutputStream, Pollable, StreamError, StreamResult,
};

use super::WASI_VERSION;
use crate::call_context::CallContext;
use crate::call_context::State;
use crate::effect::Level;

/// The maximum bytes of one write.
const WRITE_BYTES_MAX: usize = 64 << 10;

pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let name = |interface: &str| format!("wasi:cli/{interface}@{WASI_VERSION}");

    let mut environment = linker.instance(&name("environment"))?;
    environment.func_wrap("get-environment", |_, (): ()| Ok((Vec::<(String, String)>::new(),)))?;
    environment.func_wrap("get-arguments", |_, (): ()| Ok((Vec::<String>::new(),)))?;
    environment.func_wrap("initial-cwd", |_, (): ()| Ok((None::<String>,)))?;

    let mut exit = linker.instance(&name("exit"))?;
    exit.func_wrap("exit", |_, (status,): (Result<(), ()>,)| exit_error(u8::from(status.is_err())))?;
    exit.func_wrap("exit-with-code", |_, (code,): (u8,)| exit_error(code))?;

    let mut stdin = linker.instance(&name("stdin"))?;
    stdin.func_wrap("get-stdin", |mut store, (): ()| {
        let stream: DynInputStream = Box::new(ClosedStdin);
        Ok((store.data_mut().table.push(stream)?,))
    })?;
    for (interface, level) in [("stdout", Level::Info), ("stderr", Level::Warn)] {
        let mut instance = linker.instance(&name(interface))?;
        instance.func_wrap(&format!("get-{interface}"), move |mut store, (): ()| {
            let state: &mut State = store.data_mut();
            let stream: DynOutputStream = Box::new(LogOutput { level, context: Arc::clone(&state.context) });
            Ok((state.table.push(stream)?,))
        })?;
    }

    let input = ResourceType::host::<TerminalInput>();
    linker.instance(&name("terminal-input"))?.resource("terminal-input", input, |_, _| Ok(()))?;
    let output = ResourceType::host::<TerminalOutput>();
    linker.instance(&name("terminal-output"))?.resource("terminal-output", output, |_, _| Ok(()))?;
    let mut terminal = linker.instance(&name("terminal-stdin"))?;
    terminal.func_wrap("get-terminal-stdin", |_, (): ()| Ok((None::<Resource<TerminalInput>>,)))?;
    let mut terminal = linker.instance(&name("terminal-stdout"))?;
    terminal.func_wrap("get-terminal-stdout", |_, (): ()| Ok((None::<Resource<TerminalOutput>>,)))?;
    let mut terminal = linker.instance(&name("terminal-stderr"))?;
    terminal.func_wrap("get-terminal-stderr", |_, (): ()| Ok((None::<Resource<TerminalOutput>>,)))
}

fn exit_error(code: u8) -> wasmtime::Result<()> {
    Err(format_err!("the guest called exit with code {code}; a controller returns, it does not exit"))
}

/// No handles of these types exist.
struct TerminalInput;
struct TerminalOutput;

/// Standard input, which is at its end from the start.
struct ClosedStdin;

#[async_trait]
impl Pollable for ClosedStdin {
    async fn ready(&mut self) {}
}

#[async_trait]
impl InputStream for ClosedStdin {
    fn read(&mut self, _: usize) -> StreamResult<Bytes> {
        Err(StreamError::Closed)
    }
}

/// Standard output or standard error.
struct LogOutput {
    level: Level,
    context: Arc<CallContext>,
}

#[async_trait]
impl Pollable for LogOutput {
    async fn ready(&mut self) {}
}

#[async_trait]
impl OutputStream for LogOutput {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.context.write_output(self.level, &bytes).map_err(StreamError::Trap)
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES_MAX)
    }
}
