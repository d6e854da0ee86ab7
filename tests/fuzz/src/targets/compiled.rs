//! A file of a compiled component is loaded if it is intact. Otherwise the component is recompiled and the
//! file replaced.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::OnceLock;

use anyhow::{Context, Result};
use homeostat_component::{Engine, EngineOptions};
use tempfile::TempDir;

use crate::target::{Acceptance, Outcome, same};
use crate::test_store;

/// The component of both files. A component with refused types would not be compiled at all.
const GUEST: &str = include_str!("../../corpus/component/smallest.wat");
/// The folder's key. A random one would make different files in every run.
const KEY: [u8; 32] = [7; 32];

/// A folder with two compiled components.
struct CompiledFolder {
    engine: Engine,
    component: Vec<u8>,
    /// The first file, and its intact content.
    file: PathBuf,
    good: Vec<u8>,
    /// The content of the second file.
    other: Vec<u8>,
    _folder: TempDir,
}

fn disk() -> &'static CompiledFolder {
    static DISK: OnceLock<CompiledFolder> = OnceLock::new();
    DISK.get_or_init(|| CompiledFolder::new().expect("a folder, an engine, and two components that are good"))
}

impl CompiledFolder {
    fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let compiled = folder.path().join("compiled");
        fs::DirBuilder::new().mode(0o700).create(&compiled)?;
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(compiled.join("key"))?.write_all(&KEY)?;
        let options = EngineOptions {
            instances_max: 1,
            parallel_compilation: false,
            compiled: Some(compiled.clone()),
            ..EngineOptions::default()
        };
        let engine = Engine::new(options)?;
        let entries = || -> Result<Vec<PathBuf>> {
            let all = fs::read_dir(&compiled)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
            Ok(all.into_iter().filter(|path| path.extension().is_some_and(|end| end == "compiled")).collect())
        };
        let component = named("one")?;
        load(&engine, &component);
        let file = entries()?.pop().context("the first one is not kept")?;
        load(&engine, &named("two")?);
        let second = entries()?.into_iter().find(|path| *path != file).context("the second one is not kept")?;
        let (good, other) = (fs::read(&file)?, fs::read(second)?);
        Ok(Self { engine, component, file, good, other, _folder: folder })
    }
}

/// Returns the guest with a custom section of this name, which gives it its own digest.
fn named(name: &str) -> Result<Vec<u8>> {
    let length = u8::try_from(name.len())?;
    let custom = [&[0, length + 1, length], name.as_bytes()].concat();
    Ok([wat::parse_str(GUEST)?, custom].concat())
}

/// Compiles the component or loads its file.
fn load(engine: &Engine, component: &[u8]) {
    drop(test_store::wait(engine.load(component)));
}

/// Returns the intact file, and one of another component.
pub(crate) fn inputs() -> Result<Vec<Vec<u8>>> {
    let disk = disk();
    Ok(vec![disk.good.clone(), disk.other.clone()])
}

pub(crate) fn judge(input: &[u8]) -> Outcome {
    let CompiledFolder { engine, component, file, good, .. } = disk();
    fs::write(file, input).map_err(|error| error.to_string())?;
    let before = engine.compilation_counts().good;
    load(engine, component);
    let again = engine.compilation_counts().good - before;
    same("a damaged file is recompiled", &again, &u64::from(input != good))?;
    // Bytes are not compared: the compiler's order of a component's tables differs from run to run.
    let before = engine.compilation_counts().good;
    load(engine, component);
    same("a rewritten file is loaded", &(engine.compilation_counts().good - before), &0)?;
    Ok(if input == good { Acceptance::Accepted } else { Acceptance::Rejected })
}
