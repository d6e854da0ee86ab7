//! Formats durations and sizes with about three digits.

/// Formats microseconds in a suitable unit.
pub(crate) fn micros(us: u64) -> String {
    match us {
        0..1_000 => format!("{us}us"),
        1_000..10_000 => format!("{:.1}ms", us as f64 / 1e3),
        10_000..1_000_000 => format!("{}ms", us / 1000),
        1_000_000..100_000_000 => format!("{:.1}s", us as f64 / 1e6),
        _ => format!("{}s", us / 1_000_000),
    }
}

/// Formats bytes in Kubernetes' notation: `64Ki`, `1.5Mi`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
    let Some((name, unit)) = UNITS.into_iter().find(|(_, unit)| bytes >= *unit) else { return bytes.to_string() };
    let count = bytes as f64 / unit as f64;
    if count < 10.0 { format!("{count:.1}{name}") } else { format!("{count:.0}{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_short_and_have_their_unit() {
        let times = [0, 999, 1_500, 25_400, 1_500_000, 250_000_000].map(micros);
        assert_eq!(times, ["0us", "999us", "1.5ms", "25ms", "1.5s", "250s"]);
        let sizes = [0, 1023, 1 << 10, 1536 << 10, 20 << 20, 3 << 30].map(size);
        assert_eq!(sizes, ["0", "1023", "1.0Ki", "1.5Mi", "20Mi", "3.0Gi"]);
    }
}
