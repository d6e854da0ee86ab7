//! How many controllers fit in a process, the cost of an active one, and how little they affect one another.

use std::path::Path;

use anyhow::{Result, bail};

use super::{crowd, first, flight, idle, neighbours};
use crate::arguments::Size;
use crate::values::Values;

pub(crate) async fn run(work: &str, size: &Size, guests: &Path) -> Result<Values> {
    match work {
        "idle one" => idle::one(size, guests).await,
        "idle distinct" => idle::distinct(size, guests).await,
        "compile" => idle::compile(size, guests).await,
        "first answer" => first::run(size, guests).await,
        "in flight" => flight::run(size, guests).await,
        "crowd" => crowd::run(size, guests).await,
        "alone" => neighbours::alone(size, guests).await,
        _ => match (work.strip_prefix("beside "), work.strip_prefix(idle::COMPILE_GUEST)) {
            (Some(attack), _) => neighbours::beside(attack, size, guests).await,
            (None, Some(name)) => idle::compile_guest(name, guests).await,
            (None, None) => bail!("density has no work {work}"),
        },
    }
}
