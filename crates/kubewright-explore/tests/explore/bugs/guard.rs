//! Two things are made together, and the first stands for both: after a crash in between, there is never a second.

use kubewright::{prelude::*, workload::child_meta};
use kubewright_explore::Oracle;

use super::{Done, is_found};

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "bugs.example.com", version = "v1", kind = "Account", namespaced)]
pub(crate) struct AccountSpec {
    pub user: String,
}

struct Secrets(Done);

impl Reconciler<Account> for Secrets {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, account: &Account, cx: &Context<Account>) -> Result<Next> {
        let is_missing = cx.get::<Secret>(&child_name(account, "a"))?.is_none();
        if self.0 == Done::Right || is_missing {
            cx.apply(secret(account, "a")).await?;
            cx.apply(secret(account, "b")).await?;
        }
        Ok(Next::on_change())
    }
}

fn secret(account: &Account, purpose: &str) -> Secret {
    let data = [("name".to_owned(), "somebody".to_owned())].into();
    Secret { metadata: child_meta(account, purpose), string_data: Some(data), ..Secret::default() }
}

fn operator(done: Done) -> Operator {
    Operator::new("account-operator")
        .controller(Controller::of::<Account>().owns::<Secret>().run(Secrets(done)))
}

#[test]
fn the_first_of_two_stands_for_both() {
    let sample =
        "{apiVersion: bugs.example.com/v1, kind: Account, metadata: {name: sample}, spec: {user: me}}";
    is_found(operator, sample, &[Oracle::EndState]);
}
