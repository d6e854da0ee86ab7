//! The arithmetic: medians, spreads, ratios, and the table.

use serde::Serialize;

use crate::driver::Samples;
use crate::plan::{Better, Comparison, Figure, OURS, System, Work, with_commas};
use crate::values::Values;

/// One line of the results: our figure beside one peer's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(crate) figure: String,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    /// The median of our rounds.
    pub(crate) ours: f64,
    /// The median of the peer's rounds; `None` without a peer.
    pub(crate) peer: Option<f64>,
    pub(crate) peer_name: Option<&'static str>,
    /// How many times better ours is; below 1 the peer is better. `None` without a peer, and if one of the
    /// two is zero.
    pub(crate) ratio: Option<f64>,
    pub(crate) spread: Spread,
}

/// The spread of the rounds: the largest minus the smallest value, over the median. `None` if there is no
/// median to divide by.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) ours: Option<f64>,
    pub(crate) peer: Option<f64>,
}

/// Returns the rows of one work: each of its figures beside each of its peers.
pub(crate) fn rows(work: &Work, samples: &Samples) -> Vec<Row> {
    let of = |system: &System, figure: &Figure| -> Vec<f64> {
        let runs: &[Values] = samples.get(system.name).map_or(&[], Vec::as_slice);
        runs.iter().filter_map(|values| values.get(figure.value).copied()).collect()
    };
    let mut rows = Vec::new();
    for figure in &work.figures {
        let ours = of(&OURS, figure);
        for system in &work.peers {
            rows.push(row(figure, &ours, &of(system, figure), Some(system.shown)));
        }
        if work.peers.is_empty() {
            rows.push(row(figure, &ours, &[], None));
        }
    }
    rows
}

fn row(figure: &Figure, ours: &[f64], peer: &[f64], peer_name: Option<&'static str>) -> Row {
    let ours = match figure.comparison {
        Comparison::Plain => ours.to_vec(),
        Comparison::AbovePeer => ours.iter().zip(peer).map(|(ours, peer)| ours - peer).collect(),
    };
    let (our_median, peer_median) = (median(&ours).unwrap_or_default(), median(peer));
    Row {
        figure: figure.name.clone(),
        unit: figure.unit,
        better: figure.better,
        ours: our_median,
        peer: peer_median,
        peer_name,
        ratio: peer_median.and_then(|peer| ratio(figure.better, our_median, peer)),
        spread: Spread { ours: spread(&ours), peer: spread(peer) },
    }
}

/// Returns the middle value, or the mean of the two middle ones.
fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// Returns the largest minus the smallest value, over the median.
fn spread(values: &[f64]) -> Option<f64> {
    let (smallest, largest) = (values.iter().copied().reduce(f64::min)?, values.iter().copied().reduce(f64::max)?);
    median(values).filter(|median| *median != 0.0).map(|median| (largest - smallest) / median.abs())
}

/// Returns how many times better ours is.
fn ratio(better: Better, ours: f64, peer: f64) -> Option<f64> {
    if ours <= 0.0 || peer <= 0.0 {
        return None;
    }
    Some(match better {
        Better::Higher => ours / peer,
        Better::Lower => peer / ours,
    })
}

/// Returns the rows as a Markdown table.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::ASCII_MARKDOWN);
    table.set_header(["figure", "unit", "ours", "peer", "peer's name", "ratio", "spread: ours", "peer's"]);
    for row in rows {
        let percent = |spread: Option<f64>| spread.map_or("-".to_owned(), |spread| format!("{:.0} %", spread * 100.0));
        let unit = match row.better {
            Better::Higher => format!("{}, more is better", row.unit),
            Better::Lower => row.unit.to_owned(),
        };
        table.add_row([
            row.figure.clone(),
            unit,
            number(row.ours),
            row.peer.map_or("-".to_owned(), number),
            row.peer_name.unwrap_or("-").to_owned(),
            row.ratio.map_or("-".to_owned(), |ratio| format!("{} x", number(ratio))),
            percent(row.spread.ours),
            percent(row.spread.peer),
        ]);
    }
    table.to_string()
}

/// Formats a number with three significant digits.
fn number(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => {
            format!("{}{}", if number < 0.0 { "-" } else { "" }, with_commas(size.round() as usize))
        }
        size if size >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

#[cfg(test)]
mod tests;
