//! Puts the functions that hosts run together, as in the host's own program, and checks which foreign programs this
//! machine has, for the tests that need one.

#[path = "../build.rs"]
mod foreign_programs;

fn main() {
    foreign_programs::main();
    for instruction in homeostat_orderfile::instructions() {
        println!("{instruction}");
    }
}
