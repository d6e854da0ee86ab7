//! Serde form of a result: `{"ok": …}` or `{"err": …}`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Reply<T, E> {
    Ok(T),
    Err(E),
}

/// Writes `result`.
pub(crate) fn serialize<S: Serializer, T: Serialize, E: Serialize>(
    result: &Result<T, E>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match result {
        Ok(value) => Reply::<&T, &E>::Ok(value),
        Err(error) => Reply::Err(error),
    }
    .serialize(serializer)
}

/// Reads what [`serialize`] wrote.
pub(crate) fn deserialize<'de, D: Deserializer<'de>, T: Deserialize<'de>, E: Deserialize<'de>>(
    deserializer: D,
) -> Result<Result<T, E>, D::Error> {
    Ok(match Reply::deserialize(deserializer)? {
        Reply::Ok(value) => Ok(value),
        Reply::Err(error) => Err(error),
    })
}
