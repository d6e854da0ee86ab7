use super::*;

fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

#[test]
fn a_table_has_columns_and_no_lines() {
    let mut table = Table::new(["NAME", "READY", "AGE"]);
    table.row(row(&["web", "3/3", "5m"]));
    table.row(row(&["a-longer-name", "0/1", "12s"]));
    let expected = "NAME            READY   AGE\nweb             3/3     5m\na-longer-name   0/1     12s\n";
    assert_eq!(table.to_string(), expected);
}

#[test]
fn later_rows_align_with_the_first_ones() {
    let mut table = Table::new(["NAME", "AGE"]);
    table.row(row(&["web-server", "5m"]));
    assert_eq!(table.take(), "NAME         AGE\nweb-server   5m\n");
    table.row(row(&["db", "6m"]));
    assert_eq!(table.take(), "db           6m\n");
    table.row(row(&["a-much-longer-name", "6m"]));
    assert_eq!(table.take(), "a-much-longer-name   6m\n");
    assert_eq!(table.take(), "");
}

#[test]
fn control_characters_in_a_header_or_a_cell_are_escaped() {
    let mut table = Table::new(["MESSAGE\nNAME"]);
    table.row(row(&["a\u{1b}[31m\nb"]));
    assert_eq!(table.to_string(), "MESSAGE\\nNAME\na\\u{1b}[31m\\nb\n");
}

#[test]
fn an_empty_cell_keeps_its_column() {
    let mut table = Table::new(["A", "B", "C"]);
    table.row(row(&["x", "", "z"]));
    assert_eq!(table.to_string(), "A   B   C\nx       z\n");
}
