//! The sources that a volume can have, with their required fields.

use homeostat_store::schema::quantity_in_nanos;
use serde_json::Value;

use super::paths::{check_descending, check_steps};
use super::{files, network, projected};
use crate::rules::report::{Report, text};

pub(super) const MORE_THAN_ONE: &str = "may not specify more than 1 volume type";

/// The supported types of a path of the host.
const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
const PARTITION_MAX: i64 = 255;

/// Checks the fields of a source, besides that the required ones are there.
pub(super) type Check = fn(&mut Report<'_>, &Value, &str);

/// A source that a volume can have.
#[derive(Clone, Copy)]
pub(super) struct Source {
    /// The field of the volume.
    pub(super) name: &'static str,
    /// Texts and lists that are not empty.
    pub(super) required: &'static [&'static str],
    pub(super) check: Check,
}

impl Source {
    const fn new(name: &'static str, required: &'static [&'static str]) -> Self {
        Self { name, required, check: |_, _, _| {} }
    }

    const fn with(self, check: Check) -> Self {
        Self { check, ..self }
    }

    /// Checks a source of the volume at a path.
    pub(super) fn check(&self, report: &mut Report<'_>, source: &Value, volume: &str) {
        // Kubernetes has another name for it in its errors.
        let name = if self.name == "gcePersistentDisk" { "persistentDisk" } else { self.name };
        let path = format!("{volume}.{name}");
        require(report, source, &path, self.required);
        (self.check)(report, source, &path);
    }

    /// Returns its name in the error of a volume that has two sources. Kubernetes misspells two of them.
    pub(super) fn name_if_forbidden(&self) -> &'static str {
        match self.name {
            "cephfs" => "cephFS",
            "downwardAPI" => "downwarAPI",
            name => name,
        }
    }
}

pub(super) const AWS: Source = Source::new("awsElasticBlockStore", &["volumeID"]).with(check_partition);
pub(super) const AZURE_DISK: Source =
    Source::new("azureDisk", &["diskName", "diskURI"]).with(network::check_azure_disk);
pub(super) const AZURE_FILE: Source = Source::new("azureFile", &["secretName", "shareName"]);
pub(super) const CEPH_FS: Source = Source::new("cephfs", &["monitors"]);
pub(super) const CINDER: Source = Source::new("cinder", &["volumeID"]).with(network::check_secret);
pub(super) const DRIVER: Source = Source::new("csi", &["driver"]).with(network::check_driver_of_pod);
pub(super) const FIBRE_CHANNEL: Source = Source::new("fc", &[]).with(network::check_fibre_channel);
pub(super) const FLEX_VOLUME: Source = Source::new("flexVolume", &["driver"]).with(network::check_options);
pub(super) const FLOCKER: Source = Source::new("flocker", &[]).with(network::check_flocker);
pub(super) const GCE: Source = Source::new("gcePersistentDisk", &["pdName"]).with(check_partition);
pub(super) const GLUSTER_FS: Source = Source::new("glusterfs", &["endpoints", "path"]);
pub(super) const HOST_PATH: Source = Source::new("hostPath", &["path"]).with(check_host_path);
pub(super) const ISCSI: Source = Source::new("iscsi", &["targetPortal", "iqn"]).with(network::check_iscsi);
pub(super) const NFS: Source = Source::new("nfs", &["server", "path"]).with(check_nfs);
pub(super) const PHOTON: Source = Source::new("photonPersistentDisk", &["pdID"]);
pub(super) const PORTWORX: Source = Source::new("portworxVolume", &["volumeID"]);
pub(super) const QUOBYTE: Source = Source::new("quobyte", &["volume"]).with(network::check_quobyte);
pub(super) const RBD: Source = Source::new("rbd", &["monitors", "image"]);
pub(super) const SCALE_IO: Source = Source::new("scaleIO", &["gateway", "system", "volumeName"]);
pub(super) const STORAGE_OS: Source = Source::new("storageos", &["volumeName"]).with(network::check_storage_os);
pub(super) const VSPHERE: Source = Source::new("vsphereVolume", &["volumePath"]);

/// The sources of the volumes of pods, in the order in which Kubernetes looks for them.
pub(super) const OF_PODS: [Source; 30] = [
    Source::new("emptyDir", &[]).with(check_empty_dir),
    HOST_PATH,
    Source::new("gitRepo", &["repository"]).with(check_git),
    GCE,
    AWS,
    Source::new("secret", &["secretName"]).with(files::check_keys),
    NFS,
    ISCSI,
    GLUSTER_FS,
    FLOCKER,
    Source::new("persistentVolumeClaim", &["claimName"]),
    RBD,
    CINDER,
    CEPH_FS,
    QUOBYTE,
    Source::new("downwardAPI", &[]).with(files::check_fields),
    FIBRE_CHANNEL,
    FLEX_VOLUME,
    Source::new("configMap", &["name"]).with(files::check_keys),
    AZURE_FILE,
    VSPHERE,
    PHOTON,
    PORTWORX,
    AZURE_DISK,
    STORAGE_OS,
    Source::new("projected", &[]).with(projected::check),
    SCALE_IO,
    DRIVER,
    Source::new("ephemeral", &[]),
    Source::new("image", &[]),
];

/// Checks that texts and lists are not empty.
pub(super) fn require(report: &mut Report<'_>, fields: &Value, path: &str, names: &[&str]) {
    for name in names {
        let is_empty = match &fields[*name] {
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            _ => true,
        };
        if is_empty {
            report.required(format!("{path}.{name}"), "");
        }
    }
}

fn check_empty_dir(report: &mut Report<'_>, source: &Value, path: &str) {
    if quantity_in_nanos(&source["sizeLimit"]).is_some_and(|amount| amount < 0) {
        report.forbidden(format!("{path}.sizeLimit"), "SizeLimit field must be a valid resource quantity");
    }
}

fn check_host_path(report: &mut Report<'_>, source: &Value, path: &str) {
    if text(&source["path"]).is_empty() {
        return;
    }
    check_steps(report, &source["path"], &format!("{path}.path"));
    if !source["type"].is_null() && !HOST_PATH_TYPES.contains(&text(&source["type"])) {
        report.unsupported(format!("{path}.type"), &source["type"], &HOST_PATH_TYPES);
    }
}

fn check_git(report: &mut Report<'_>, source: &Value, path: &str) {
    check_descending(report, &source["directory"], &format!("{path}.directory"));
}

fn check_partition(report: &mut Report<'_>, source: &Value, path: &str) {
    let partition = &source["partition"];
    if partition.as_i64().is_some_and(|number| !(0..=PARTITION_MAX).contains(&number)) {
        report.invalid(format!("{path}.partition"), partition, "must be between 1 and 255, inclusive");
    }
}

fn check_nfs(report: &mut Report<'_>, source: &Value, path: &str) {
    let folder = text(&source["path"]);
    if !folder.starts_with('/') {
        report.invalid(format!("{path}.path"), &folder.into(), "must be an absolute path");
    }
}
