//! What every operator promises, and this one, too.

use kubewright_cluster::{Promises, TestCluster, promises};
use myweb_operator::{SAMPLE, operator};

use super::{port, sample};

promises!(Promises::of(operator, &sample(port())));

#[tokio::test]
async fn a_resource_from_before_there_were_conditions_is_looked_after() {
    Promises::of(operator, &sample(port()))
        .a_resource_from_before_a_field_is_looked_after("/status/conditions")
        .await;
}

/// Some faults, at all steps of the way; `kubewright explore` tries all of them.
#[test]
fn whatever_goes_wrong_is_survived() {
    if TestCluster::is_left_out("the explorer has a cluster of its own") {
        return;
    }
    kubewright_explore::explore(operator).sample(SAMPLE).runs(25).run().assert_survived();
}

/// A status was written onto the resource that came after the one it was about.
#[test]
fn a_status_is_that_of_the_resource_it_is_on() {
    if TestCluster::is_left_out("the explorer has a cluster of its own") {
        return;
    }
    let plan = include_str!("plans/status-stale-resource-far.json");
    kubewright_explore::replay(operator, plan).assert_survived();
}
