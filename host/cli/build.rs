//! Puts the functions that hosts run together in the program.

fn main() {
    homeostat_orderfile::order_functions();
}
