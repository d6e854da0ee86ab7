//! The schedules of cron jobs, in the words of the parser of Kubernetes.
//!
//! Source: `parser.go` of `github.com/robfig/cron/v3`.

use std::ops::RangeInclusive;

/// A field of a schedule: its range, and the names of its values, the first of which is the start of the range.
struct Field {
    range: RangeInclusive<u32>,
    names: &'static str,
}

const FIELDS: [Field; 5] = [
    Field { range: 0..=59, names: "" },
    Field { range: 0..=23, names: "" },
    Field { range: 1..=31, names: "" },
    Field { range: 1..=12, names: "jan feb mar apr may jun jul aug sep oct nov dec" },
    Field { range: 0..=6, names: "sun mon tue wed thu fri sat" },
];

const DESCRIPTORS: [&str; 7] = ["@annually", "@daily", "@hourly", "@midnight", "@monthly", "@weekly", "@yearly"];

/// Returns why a text is no schedule; `None` for a schedule.
pub(super) fn fault(schedule: &str) -> Option<String> {
    if let Some(span) = schedule.strip_prefix("@every ") {
        let is_duration = homeostat_cel::duration(span).is_some();
        return (!is_duration).then(|| format!("failed to parse duration {schedule}: time: invalid duration {span:?}"));
    }
    if schedule.starts_with('@') {
        return (!DESCRIPTORS.contains(&schedule)).then(|| format!("unrecognized descriptor: {schedule}"));
    }
    let given: Vec<&str> = schedule.split_whitespace().collect();
    if given.len() != FIELDS.len() {
        let (count, listed) = (given.len(), given.join(" "));
        return Some(format!("expected exactly {} fields, found {count}: [{listed}]", FIELDS.len()));
    }
    given.iter().zip(&FIELDS).find_map(|(text, field)| field.fault(text))
}

impl Field {
    fn fault(&self, text: &str) -> Option<String> {
        text.split(',').filter(|range| !range.is_empty()).find_map(|range| self.check_range(range).err())
    }

    /// Checks a range with its step, as `1-5/2`.
    fn check_range(&self, text: &str) -> Result<(), String> {
        let steps: Vec<&str> = text.split('/').collect();
        let ends: Vec<&str> = steps[0].split('-').collect();
        let (min, max) = (*self.range.start(), *self.range.end());
        let (start, mut end) = match ends[..] {
            ["*" | "?", ..] => (min, max),
            [one] => (self.number(one)?, self.number(one)?),
            [start, end] => (self.number(start)?, self.number(end)?),
            _ => return Err(format!("too many hyphens: {text}")),
        };
        let step = match steps[..] {
            [_] => 1,
            [_, step] => number(step)?,
            _ => return Err(format!("too many slashes: {text}")),
        };
        if steps.len() == 2 && ends.len() == 1 {
            end = max;
        }
        if start < min {
            return Err(format!("beginning of range ({start}) below minimum ({min}): {text}"));
        }
        if end > max {
            return Err(format!("end of range ({end}) above maximum ({max}): {text}"));
        }
        if start > end {
            return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
        }
        if step == 0 { Err(format!("step of range should be a positive number: {text}")) } else { Ok(()) }
    }

    /// Returns the number of a text, which may be a name.
    fn number(&self, text: &str) -> Result<u32, String> {
        let lower = text.to_ascii_lowercase();
        match self.names.split_whitespace().zip(*self.range.start()..).find(|(name, _)| *name == lower) {
            Some((_, number)) => Ok(number),
            None => number(text),
        }
    }
}

fn number(text: &str) -> Result<u32, String> {
    match text.parse::<i64>() {
        Ok(number @ ..0) => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
        Err(_) => Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")),
    }
}

#[cfg(test)]
mod tests {
    use super::fault;

    #[test]
    fn schedules_are_refused_in_the_words_of_the_parser_of_kubernetes() {
        for valid in ["*/5 * * * *", "0 0 1 JAN sun", "1-5/2,7 ? * * mon-fri", "@hourly", "@every 1h30m"] {
            assert_eq!(fault(valid), None, "{valid}");
        }
        for (schedule, wanted) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("a * * * *", "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax"),
            ("@often", "unrecognized descriptor: @often"),
        ] {
            assert_eq!(fault(schedule).as_deref(), Some(wanted), "{schedule}");
        }
    }
}
