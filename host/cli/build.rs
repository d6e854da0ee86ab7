//! Puts the functions that hosts run together in the program.

fn main() {
    for instruction in homeostat_orderfile::instructions() {
        println!("{instruction}");
    }
}
