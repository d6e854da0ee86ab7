//! The parts of the process around the host that feeders of manifests use: its files, and servers with messages.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::feeder_definition::MessageOrigin;

/// The folder of the machine whose files feeders may follow.
#[async_trait]
pub trait FeederFolder: Send + Sync + 'static {
    /// Opens a folder below it. `path` has plain segments only, separated by `/`; empty for the folder itself.
    ///
    /// # Errors
    /// The reason, for a person: it is missing, or lies outside, as through a symbolic link.
    async fn open(&self, path: &str) -> Result<Box<dyn FolderWatch>, String>;
}

/// One folder, followed.
#[async_trait]
pub trait FolderWatch: Send + Sync {
    /// Returns the regular files whose names `accepts` takes, at most `most`, and a stamp of each. A changed file has
    /// another stamp.
    ///
    /// # Errors
    /// The reason, for a person. Also for more than `most` files.
    async fn list(&mut self, accepts: NameFilter, most: usize) -> Result<BTreeMap<String, u64>, String>;

    /// Waits until a file may have changed, or for a while.
    ///
    /// *Cancel safety*: no change is lost: the next list has it.
    async fn changed(&mut self);
}

/// Tells the names of wanted files.
pub type NameFilter = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The stores whose servers have messages for feeders.
#[async_trait]
pub trait MessageStores: Send + Sync + 'static {
    /// Opens a stream of messages at the server of a store.
    ///
    /// # Errors
    /// The reason, for a person.
    async fn open(&self, store: &str, origin: &MessageOrigin) -> Result<Box<dyn MessageStream>, String>;
}

/// A stream of messages.
#[async_trait]
pub trait MessageStream: Send {
    /// Returns the next message.
    ///
    /// *Cancel safety*: no message is lost.
    ///
    /// # Errors
    /// Why the stream ended, for a person. It is opened anew.
    async fn next(&mut self) -> Result<Message, String>;

    /// Returns the number of messages that were dropped so far because too many waited. It never falls.
    fn lost(&mut self) -> u64;
}

/// One message.
pub struct Message {
    /// The subject that it was published to.
    pub subject: String,
    /// Its payload.
    pub body: Vec<u8>,
    /// The way to acknowledge it; `None` if there is none.
    pub receipt: Option<Box<dyn Receipt>>,
}

/// The way to acknowledge a message.
#[async_trait]
pub trait Receipt: Send + Sync {
    /// Tells the server what becomes of the message.
    ///
    /// # Errors
    /// Why nothing was sent, for a person. The message is delivered again.
    async fn acknowledge(&self, acknowledgement: Acknowledgement) -> Result<(), String>;
}

/// The end of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Acknowledgement {
    /// It was handled.
    Handled,
    /// It is delivered again after so long.
    Again(Duration),
    /// It makes no key, and is delivered no more.
    Rejected,
}
