//! What is in a list is only added to: what is no longer asked for stays in it.

use k8s_openapi::api::{
    discovery::v1::{Endpoint, EndpointSlice},
    rbac::v1::{PolicyRule, Role},
};
use kubewright::{Verb, prelude::*, workload::child_meta};
use kubewright_explore::Oracle;

use super::{
    Done, is_found,
    lists::{TEAM, Team},
};

/// What a list comes to: what is wanted; if it is done wrong, after all that is there already.
fn list<T: PartialEq>(done: Done, there: Option<Vec<T>>, wanted: impl Iterator<Item = T>) -> Vec<T> {
    let mut all = there.filter(|_| done == Done::Wrong).unwrap_or_default();
    for one in wanted {
        if !all.contains(&one) {
            all.push(one);
        }
    }
    all
}

struct Permits(Done);

impl Reconciler<Team> for Permits {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, team: &Team, cx: &Context<Team>) -> Result<Next> {
        let wanted = team.spec.people.iter().map(|name| PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["configmaps".to_owned()]),
            resource_names: Some(vec![name.clone()]),
            verbs: vec!["get".to_owned()],
            ..PolicyRule::default()
        });
        let there = cx.get::<Role>(&team.name_any())?.and_then(|role| role.rules.clone());
        let rules = Some(list(self.0, there, wanted));
        cx.apply(Role { metadata: child_meta(team, ""), rules }).await?;
        Ok(Next::on_change())
    }
}

#[test]
fn what_was_allowed_once_stays_allowed() {
    let operator = |done| {
        // Nobody gives others a right that they don't have.
        let controller = Controller::of::<Team>().owns::<Role>().needs::<ConfigMap>(&[Verb::Get]);
        Operator::new("team-operator").controller(controller.run(Permits(done)))
    };
    is_found(operator, TEAM, &[Oracle::History]);
}

struct Lists(Done);

impl Reconciler<Team> for Lists {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, team: &Team, cx: &Context<Team>) -> Result<Next> {
        let wanted = team.spec.people.iter().map(|name| Endpoint {
            addresses: vec![format!("10.1.1.{}", name.len())],
            hostname: Some(name.clone()),
            ..Endpoint::default()
        });
        let there = cx.get::<EndpointSlice>(&team.name_any())?.and_then(|slice| slice.endpoints.clone());
        let slice = EndpointSlice {
            metadata: child_meta(team, ""),
            address_type: "IPv4".to_owned(),
            endpoints: Some(list(self.0, there, wanted)),
            ports: None,
        };
        cx.apply(slice).await?;
        Ok(Next::on_change())
    }
}

#[test]
fn addresses_of_those_who_left_stay() {
    let operator = |done| {
        let controller = Controller::of::<Team>().owns::<EndpointSlice>();
        Operator::new("team-operator").controller(controller.run(Lists(done)))
    };
    is_found(operator, TEAM, &[Oracle::History]);
}
