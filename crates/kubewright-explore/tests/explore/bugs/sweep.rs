//! Secrets whose resource is not to be seen are swept away. It had been created again.

use kubewright::{prelude::*, workload::child_meta};
use kubewright_explore::Oracle;

use super::{Done, is_found};

const OF: &str = "bugs.example.com/user";

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "bugs.example.com", version = "v1", kind = "User", namespaced)]
pub(crate) struct UserSpec {
    pub role: String,
}

struct Issue;

impl Reconciler<User> for Issue {
    async fn reconcile(&self, user: &User, cx: &Context<User>) -> Result<Next> {
        let mut metadata = child_meta(user, "token");
        metadata.labels.get_or_insert_default().insert(OF.to_owned(), user.name_any());
        let data = [("role".to_owned(), user.spec.role.clone())].into();
        cx.apply(Secret { metadata, string_data: Some(data), ..Secret::default() }).await?;
        Ok(Next::on_change())
    }
}

struct Sweep(Done);

impl Reconciler<Secret> for Sweep {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, secret: &Secret, cx: &Context<Secret>) -> Result<Next> {
        let Some(user) = secret.labels().get(OF) else { return Ok(Next::on_change()) };
        let is_gone = match self.0 {
            Done::Wrong => cx.get::<User>(user)?.is_none(),
            Done::Right => cx.get::<User>(user)?.is_none() && cx.live().get::<User>(user).await?.is_none(),
        };
        if is_gone {
            cx.delete(&cx.object()).await?;
        }
        Ok(Next::on_change())
    }
}

fn operator(done: Done) -> Operator {
    let sweep = Controller::of_existing::<Secret>().reads::<User>().needs::<User>(&[kubewright::Verb::Get]);
    Operator::new("user-operator")
        .controller(Controller::of::<User>().owns::<Secret>().run(Issue))
        .controller(sweep.needs::<Secret>(&[kubewright::Verb::Delete]).run(Sweep(done)))
}

#[test]
fn what_is_not_seen_is_taken_for_gone() {
    let sample =
        "{apiVersion: bugs.example.com/v1, kind: User, metadata: {name: sample}, spec: {role: reader}}";
    is_found(operator, sample, &[Oracle::Destruction]);
}
