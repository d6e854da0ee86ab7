//! Tests of the map.

use super::*;

#[test]
fn functions_are_found_in_the_files_that_have_their_code() {
    let map = LinkMap::parse(
        "     VMA              LMA     Size Align Out     In      Symbol
  dd1f50           dd1f50        e    16         /a-b/libhomeostat_store-0f.rlib(homeostat_store-0f.x.rcgu.o):(.text._ZN1a17hE)
  dd1f60           dd1f60        5    16         /a-b/homeostat-fa.homeostat.6b-cgu.09.rcgu.o:(.text._ZN1a17hE)
  dd1f60           dd1f60        5    16         /a-b/homeostat-fa.homeostat.6b-cgu.09.rcgu.o:(.rodata.cst)
  dd1f60           dd1f60        5    16         /usr/lib/libc_nonshared.a(atexit.oS):(.text._ZN1b17hE)",
    );
    let code = |library: Option<&str>, addresses| FunctionCode {
        library: library.map(str::to_owned),
        symbol: "_ZN1a17hE".to_owned(),
        addresses,
    };
    let (store, program) = (code(Some("libhomeostat_store"), 0xdd1f50..0xdd1f5e), code(None, 0xdd1f60..0xdd1f65));
    assert_eq!(map.functions(), [store, program]);
}
