//! Two things are made together, and the first stands for both: after a crash in between, there is never a second. Or
//! something is made only in the beginning, and not again.

use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use kubewright::{Verb, prelude::*, workload::child_meta};
use kubewright_explore::Oracle;

use super::{
    Done,
    gadgets::{self, one_is_found},
    is_found,
};
use crate::gadget::{Doing, Gadget, SAMPLE, text};

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

struct Binds(Done);

impl Reconciler<Gadget> for Binds {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, gadget: &Gadget, cx: &Context<Gadget>) -> Result<Next> {
        let name = gadget.name_any();
        if self.0 == Done::Wrong && cx.get::<Role>(&name)?.is_some() {
            return Ok(Next::on_change());
        }
        let rule = PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["configmaps".to_owned()]),
            verbs: vec!["get".to_owned()],
            ..PolicyRule::default()
        };
        cx.apply(Role { metadata: child_meta(gadget, ""), rules: Some(vec![rule]) }).await?;
        let role_ref = RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "Role".to_owned(),
            name: name.clone(),
        };
        let (kind, namespace) = ("ServiceAccount".to_owned(), gadget.namespace());
        let subjects = Some(vec![Subject { kind, name, namespace, ..Subject::default() }]);
        cx.apply(RoleBinding { metadata: child_meta(gadget, ""), role_ref, subjects }).await?;
        Ok(Next::on_change())
    }
}

#[test]
fn a_role_stands_for_its_binding() {
    let operator = |done| {
        // Nobody gives others a right that they don't have.
        let controller = Controller::of::<Gadget>().needs::<ConfigMap>(&[Verb::Get]);
        let controller = controller.owns::<Role>().owns::<RoleBinding>();
        Operator::new("gadget-operator").controller(controller.run(Binds(done)))
    };
    is_found(operator, SAMPLE, &[Oracle::EndState]);
}

#[test]
fn what_is_made_for_the_first_generation_is_not_made_again() {
    let wrong: Doing = |gadget, cx| Box::pin(begin(gadget, cx, gadget.metadata.generation == Some(1)));
    let right: Doing = |gadget, cx| Box::pin(begin(gadget, cx, true));
    one_is_found(wrong, right, Oracle::EndState);
}

async fn begin(gadget: &Gadget, cx: &Context<Gadget>, is_first: bool) -> Result<Next> {
    if is_first {
        cx.apply(gadgets::secret(gadget, "always the same")).await?;
    }
    cx.apply(text(gadget)).await?;
    Ok(Next::on_change())
}
