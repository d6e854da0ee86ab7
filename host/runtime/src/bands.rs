//! The bands of the words for priorities, which guests and manifests share.

use homeostat_component::QueuePriority;
use homeostat_workqueue::Priority;

/// Returns the band of a word.
pub(crate) fn band(priority: QueuePriority) -> Priority {
    match priority {
        QueuePriority::Lowest => Priority::LOWEST,
        QueuePriority::Low => Priority::LOW,
        QueuePriority::Normal => Priority::NORMAL,
        QueuePriority::High => Priority::HIGH,
        QueuePriority::Highest => Priority::HIGHEST,
    }
}
