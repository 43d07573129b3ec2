//! Two writes for one thing: the new size is noted, then the volume is made larger. After a crash in between, the note
//! says that all is done.

use kubewright::{prelude::*, workload::child_meta};
use kubewright_explore::Oracle;
use serde_json::json;

use super::{Done, is_found};

const NOTE: &str = "bugs.example.com/size";

#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug)]
#[kube(group = "bugs.example.com", version = "v1", kind = "Disk", namespaced)]
pub(crate) struct DiskSpec {
    /// In GiB. A volume never shrinks.
    #[x_kube(validation = Rule::new("self >= oldSelf"))]
    pub size: i64,
}

struct Resize(Done);

impl Reconciler<Disk> for Resize {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, disk: &Disk, cx: &Context<Disk>) -> Result<Next> {
        let size = disk.spec.size;
        if self.0 == Done::Right {
            cx.apply(volume(disk, size)).await?;
            return Ok(Next::on_change());
        }
        let noted = disk.annotations().get(NOTE).and_then(|noted| noted.parse().ok()).unwrap_or(0);
        if noted == 0 {
            cx.apply(volume(disk, size)).await?;
        }
        if size > noted {
            let note = json!({"metadata": {"annotations": {NOTE: size.to_string()}}});
            cx.patch(&cx.object(), note).await?;
            cx.apply(volume(disk, size)).await?;
        }
        Ok(Next::on_change())
    }
}

/// The volume, as far as it matters here.
fn volume(disk: &Disk, size: i64) -> ConfigMap {
    let data = [("size".to_owned(), format!("{size}Gi"))].into();
    ConfigMap { metadata: child_meta(disk, "data"), data: Some(data), ..ConfigMap::default() }
}

fn operator(done: Done) -> Operator {
    let controller = Controller::of::<Disk>().owns::<ConfigMap>();
    Operator::new("disk-operator")
        .controller(controller.needs::<Disk>(&[kubewright::Verb::Patch]).run(Resize(done)))
}

#[test]
fn the_note_is_written_before_what_it_notes() {
    let sample = "{apiVersion: bugs.example.com/v1, kind: Disk, metadata: {name: sample}, spec: {size: 1}}";
    is_found(operator, sample, &[Oracle::EndState]);
}
