//! What every operator promises, and this one, too.

use kubewright_cluster::{Promises, TestCluster, promises};
use memcached_operator::{SAMPLE, operator};

promises!(Promises::of(operator, SAMPLE));

#[tokio::test]
async fn a_resource_without_an_image_is_looked_after() {
    Promises::of(operator, SAMPLE).a_resource_from_before_a_field_is_looked_after("/spec/image").await;
}

/// Some faults, at all steps of the way; `kubewright explore` tries all of them.
#[test]
fn whatever_goes_wrong_is_survived() {
    if TestCluster::is_left_out("the explorer has a cluster of its own") {
        return;
    }
    kubewright_explore::explore(operator).sample(SAMPLE).runs(25).run().assert_survived();
}
