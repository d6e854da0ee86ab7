//! Tests with the compiler of this machine.

use super::*;
use crate::functions::linker_script;
use crate::script_argument;

fn linker(flags: &[&str]) -> Linker {
    let rustc = Path::new(env!("CARGO")).with_file_name("rustc");
    Linker { rustc, program: None, flags: flags.iter().map(|flag| (*flag).to_owned()).collect() }
}

/// `rustc` links with LLD by default on this target alone.
#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
#[test]
fn lld_puts_listed_functions_first() {
    const SOURCE: &str = "#[inline(never)] fn first() { print!(\"a\") } #[inline(never)] fn listed() { print!(\"b\") } fn main() { first(); listed() }";
    let folder = tempfile::tempdir().unwrap();
    let (script, map) = (folder.path().join("a b.ld"), folder.path().join("map"));
    std::fs::write(&script, linker_script("crate program\n_RNvCs*_5probe6listed\n")).unwrap();
    let arguments = [format!("-T{}", script.display()), format!("-Wl,-Map={}", map.display())];
    let v0 = linker(&["-Csymbol-mangling-version=v0"]);
    assert!(v0.link(SOURCE, &arguments.each_ref().map(String::as_str), &folder.path().join("program")));
    let map = std::fs::read_to_string(map).unwrap();
    let places = ["_5probe6listed)", "_5probe5first)"].map(|name| map.find(name).unwrap());
    let start = map.find(".text.start").unwrap();
    let text = start + map[start..].find(" .text\n").unwrap();
    assert!((start..text).contains(&places[0]) && !(start..text).contains(&places[1]), "{places:?} {start} {text}");
    assert!(script_argument(&linker(&[]), folder.path()).is_some(), "the committed list is a script that LLD reads");
}

/// glibc loads packed relocations from version 2.36 on.
#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
#[test]
fn relocations_are_packed_where_a_program_with_them_runs() {
    const WITH_ADDRESSES: &str =
        "fn main() { print!(\"{:?}\", std::env::args().map(|argument| argument.len()).collect::<Vec<_>>()) }";
    let folder = tempfile::tempdir().unwrap();
    let (whole, packed) = (folder.path().join("whole"), folder.path().join("packed"));
    if linker(&[]).links_running_programs(crate::PACKED, folder.path()) {
        assert!(linker(&["-Cstrip=symbols"]).link(WITH_ADDRESSES, &[], &whole));
        assert!(linker(&["-Cstrip=symbols"]).link(WITH_ADDRESSES, &[crate::PACKED], &packed));
        let [whole, packed] = [whole, packed].map(|program| std::fs::metadata(program).unwrap().len());
        assert!(packed < whole, "{packed} {whole}");
    }
    assert!(!linker(&[]).links_running_programs("-Wl,--no-such-argument", folder.path()));
}

#[test]
fn another_linker_gets_no_script() {
    let folder = tempfile::tempdir().unwrap();
    for flags in ["-Clink-arg=-fuse-ld=bfd", "-Clinker=no-such-linker"] {
        assert_eq!(script_argument(&linker(&[flags]), folder.path()), None, "{flags}");
    }
}
