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
    let libraries: Vec<_> = map.libraries("_ZN1a17hE").collect();
    assert_eq!(libraries, [&None, &Some("libhomeostat_store".to_owned())]);
    assert_eq!(map.libraries("_ZN1b17hE").count(), 0);
}
