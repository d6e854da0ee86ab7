//! Compresses the definitions of the built-in kinds.

use std::path::Path;
use std::{env, fs};

use miniz_oxide::deflate::compress_to_vec;

/// The strongest compression.
const LEVEL: u8 = 10;

#[expect(clippy::disallowed_methods, reason = "cargo tells the folder of outputs in this way alone")]
fn main() {
    let source = "data/definitions.txt";
    println!("cargo::rerun-if-changed={source}");
    let text = fs::read(source).expect("the package contains its data");
    let folder = env::var_os("OUT_DIR").expect("cargo sets it");
    let compressed = compress_to_vec(&text, LEVEL);
    fs::write(Path::new(&folder).join("definitions.deflate"), compressed).expect("the folder can be written");
}
