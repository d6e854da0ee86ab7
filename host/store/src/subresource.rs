//! The subresources through which a client writes a part of a resource.

/// A subresource that has the document of its resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subresource {
    /// The observed state. Writes of it are [`Write::UpdateStatus`](crate::Write::UpdateStatus) and the like.
    Status,
    /// The number of replicas.
    Scale,
    /// The finalizers of the content of a namespace.
    Finalize,
    /// The ephemeral containers of a pod.
    EphemeralContainers,
    /// The amounts of the containers of a pod.
    Resize,
}

impl Subresource {
    const ALL: [Self; 5] = [Self::Status, Self::Scale, Self::Finalize, Self::EphemeralContainers, Self::Resize];

    /// Returns the name, as paths, roles and `managedFields` have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Finalize => "finalize",
            Self::EphemeralContainers => "ephemeralcontainers",
            Self::Resize => "resize",
        }
    }

    /// Returns the subresource of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|subresource| subresource.as_str() == name)
    }
}
