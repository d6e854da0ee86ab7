use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use homeostat_digest::Digest;

use super::{AuthenticBytes, Cache, EntryName};
use crate::code::Origin;
use crate::engine::Engine;
use crate::fixture;
use crate::load::compile;
use crate::options::EngineOptions;
use crate::tier::Tier;

/// A cache folder that several hosts use in turn.
struct Disk(tempfile::TempDir);

impl Disk {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn folder(&self) -> PathBuf {
        self.0.path().join("compiled")
    }

    fn engine(&self) -> Engine {
        let options = EngineOptions { instances_max: 1, compiled: Some(self.folder()), ..EngineOptions::default() };
        Engine::new(options).unwrap()
    }

    fn cache(&self, bytes_max: u64) -> Cache {
        Cache::open(&self.folder(), bytes_max).unwrap()
    }

    fn entries(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.folder()).unwrap().map(|file| file.unwrap().path());
        let mut entries: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "compiled")).collect();
        entries.sort();
        entries
    }
}

/// Loads the ordinary fixture, and returns the origin of its code.
fn make(engine: &Engine) -> Origin {
    make_of(engine, &fixture::good())
}

fn make_of(engine: &Engine, bytes: &[u8]) -> Origin {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime
        .block_on(compile::compile_or_restore(engine, &Digest::of(bytes), Arc::new(bytes.to_owned()), Tier::Optimised))
        .unwrap()
        .origin
}

fn name(number: u8) -> EntryName {
    EntryName(Digest::parse(&format!("sha256:{number:064}")).unwrap())
}

fn path(cache: &Cache, name: &EntryName) -> PathBuf {
    cache.blobs.path(&name.0)
}

/// Returns the entry of this name, if it can be verified.
fn read(cache: &Cache, name: &EntryName) -> Option<AuthenticBytes> {
    cache.find(name)?.read()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

#[test]
fn a_restarted_host_takes_code_from_the_cache_and_compiles_nothing() {
    let disk = Disk::new();
    assert_eq!(make(&disk.engine()), Origin::Compiled);
    assert_eq!(make(&disk.engine()), Origin::Cache);
    let (entry, key) = (&disk.entries()[0], disk.folder().join("key"));
    assert_eq!((mode(&disk.folder()), mode(entry), mode(&key)), (0o700, 0o600, 0o600));
}

#[tokio::test]
async fn code_from_the_cache_runs() {
    let disk = Disk::new();
    let describe = async || {
        let component = disk.engine().load(fixture::good()).await.unwrap();
        (component.describe().clone(), component.0.code.current().origin)
    };
    let (compiled, restored) = (describe().await, describe().await);
    assert_eq!((compiled.1, restored.1), (Origin::Compiled, Origin::Cache));
    assert_eq!(compiled.0, restored.0);
}

#[test]
fn a_damaged_cache_entry_is_recompiled_and_replaced() {
    let disk = Disk::new();
    let engine = disk.engine();
    make(&engine);
    let entry = disk.entries().remove(0);
    let whole = fs::read(&entry).unwrap();
    let flipped = |at: usize, bit: u8| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << bit;
        bytes
    };
    let length = whole.len();
    // Damages the MAC, and every sixteenth byte, from the first to the last.
    let mut damaged: Vec<Vec<u8>> = [0, 15, 31, 32, 33, length - 1].map(|at| flipped(at, 0)).into();
    damaged.extend((1..16).map(|part| flipped(length * part / 16, 7)));
    damaged.extend([0, 1, 31, 32, 33, length / 2, length - 1].map(|end| whole[..end].to_vec()));
    damaged.push([whole.as_slice(), &[0]].concat());
    for (number, bytes) in damaged.iter().enumerate() {
        fs::write(&entry, bytes).unwrap();
        assert_eq!(make(&engine), Origin::Compiled, "damage {number}");
        assert_eq!(make(&engine), Origin::Cache, "after damage {number}");
    }
}

#[test]
fn cache_entries_of_a_changed_or_exposed_key_are_recompiled_and_replaced() {
    let disk = Disk::new();
    make(&disk.engine());
    // Other bytes, a truncated key, a key that others may have read, and no key.
    let key = disk.folder().join("key");
    let change: [&dyn Fn(); 4] = [
        &|| fs::write(&key, [7; 32]).unwrap(),
        &|| fs::write(&key, [7; 31]).unwrap(),
        &|| fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap(),
        &|| fs::remove_file(&key).unwrap(),
    ];
    for (number, change) in change.iter().enumerate() {
        change();
        let engine = disk.engine();
        assert_eq!((make(&engine), mode(&key)), (Origin::Compiled, 0o600), "change {number}");
        assert_eq!(make(&disk.engine()), Origin::Cache, "after change {number}");
    }
}

#[test]
fn a_cache_entry_renamed_to_another_is_recompiled() {
    let disk = Disk::new();
    let engine = disk.engine();
    let other = fixture::guest("global.get $spec", "unreachable");
    make(&engine);
    let own = disk.entries().remove(0);
    make_of(&engine, &other);
    let others = disk.entries().into_iter().find(|entry| *entry != own).unwrap();
    fs::copy(&others, &own).unwrap();
    assert_eq!(make(&engine), Origin::Compiled);
    assert_eq!((make(&engine), make_of(&engine, &other)), (Origin::Cache, Origin::Cache));
}

#[test]
fn code_compiled_for_another_engine_is_neither_found_nor_loaded() {
    let (disk, digest) = (Disk::new(), Digest::of(&fixture::good()));
    let cache = disk.cache(1 << 20);
    let own = wasmtime::Engine::new(&wasmtime::Config::new()).unwrap();
    let other = wasmtime::Engine::new(wasmtime::Config::new().epoch_interruption(true)).unwrap();
    let (own, again) =
        (EntryName::of(&digest, &own, true, Tier::Optimised), EntryName::of(&digest, &own, true, Tier::Optimised));
    let other = EntryName::of(&digest, &other, true, Tier::Optimised);
    assert_eq!(own, again);
    cache.put(&other, b"code").unwrap();
    assert!(read(&cache, &own).is_none());
    fs::copy(path(&cache, &other), path(&cache, &own)).unwrap();
    assert!(read(&cache, &own).is_none());
    assert_eq!(read(&cache, &other).unwrap().bytes(), b"code");
}

#[test]
fn an_unusable_cache_folder_costs_compile_time_and_nothing_else() {
    // A file in its place; a folder writable by others; a missing folder that cannot be created.
    let disks = [Disk::new(), Disk::new(), Disk::new()];
    fs::write(disks[0].folder(), "").unwrap();
    fs::create_dir(disks[1].folder()).unwrap();
    fs::set_permissions(disks[1].folder(), Permissions::from_mode(0o777)).unwrap();
    std::os::unix::fs::symlink("nowhere/at/all", disks[2].folder()).unwrap();
    for disk in &disks {
        let engine = disk.engine();
        assert!(engine.cache().is_none());
        assert_eq!((make(&engine), make(&engine)), (Origin::Compiled, Origin::Compiled));
    }
    assert!(disks[1].entries().is_empty());
}

#[test]
fn a_cache_folder_that_is_deleted_is_no_error() {
    let disk = Disk::new();
    let engine = disk.engine();
    fs::remove_dir_all(disk.folder()).unwrap();
    assert_eq!((make(&engine), make(&engine)), (Origin::Compiled, Origin::Compiled));
}

#[test]
fn the_least_recently_used_cache_entries_are_evicted() {
    let disk = Disk::new();
    let cache = disk.cache(3 * (1000 + 32));
    for number in 0..3 {
        cache.put(&name(number), &[number; 1000]).unwrap();
        let file = fs::File::open(path(&cache, &name(number))).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(100 - u64::from(number))).unwrap();
    }
    assert!(read(&cache, &name(0)).is_some(), "used, so that it stays");
    cache.put(&name(3), &[3; 1000]).unwrap();
    let left: Vec<bool> = (0..4).map(|number| read(&cache, &name(number)).is_some()).collect();
    assert_eq!(left, [true, false, true, true]);
    cache.put(&name(4), &[0; 4000]).unwrap();
    assert!(read(&cache, &name(4)).is_none(), "it does not fit at all");
    assert_eq!(disk.entries().len(), 3);
    assert!(read(&disk.cache(1000), &name(3)).is_none(), "what is larger than the bound is not read");
}

#[test]
fn hosts_that_start_at_once_share_one_key() {
    let disk = Disk::new();
    let caches: Vec<Cache> = std::thread::scope(|scope| {
        let opening: Vec<_> = (0..8).map(|_| scope.spawn(|| disk.cache(1 << 20))).collect();
        opening.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    std::thread::scope(|scope| {
        for cache in &caches {
            scope.spawn(|| (0..50).for_each(|round| cache.put(&name(round % 4), &[round % 4; 5000]).unwrap()));
            scope.spawn(|| {
                for round in 0..50 {
                    if let Some(found) = read(cache, &name(round % 4)) {
                        assert_eq!(found.bytes(), [round % 4; 5000]);
                    }
                }
            });
        }
    });
    let all = caches.iter().all(|cache| (0..4).all(|number| read(cache, &name(number)).is_some()));
    assert!(all, "what one wrote, all others take");
}
