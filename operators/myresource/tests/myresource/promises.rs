//! What every operator promises, and this one, too. Its pods are not replaced once they have done their work.

use kubewright_cluster::{Promises, TestCluster, promises};
use myresource_operator::{SAMPLE, operator};

promises!(Promises::of(operator, SAMPLE);
    a_child_changed_by_hand_is_put_right,
    a_crashing_pod_is_told_until_it_is_mended,
    a_deleted_child_comes_back,
    a_deleted_resource_leaves_nothing,
    a_missing_image_is_told_until_it_is_there,
    an_error_of_the_server_is_told_until_it_passes,
    an_operator_may_be_killed_after_any_write,
    an_operator_that_is_removed_leaves_everything_as_it_is,
    children_belong_to_their_resource,
    the_files_in_config_are_up_to_date,
    what_is_as_it_should_be_is_left_alone,
);

#[tokio::test]
async fn a_resource_without_memory_is_looked_after() {
    Promises::of(operator, SAMPLE).a_resource_from_before_a_field_is_looked_after("/spec/memory").await;
}

/// Some faults, at all steps of the way; `kubewright explore` tries all of them.
#[test]
fn whatever_goes_wrong_is_survived() {
    if TestCluster::is_left_out("the explorer has a cluster of its own") {
        return;
    }
    kubewright_explore::explore(operator).sample(SAMPLE).runs(25).run().assert_survived();
}
