//! What every operator promises, and this one, too. It has no pods.

use foobar_operator::SAMPLE;
use kubewright_cluster::{Promises, TestCluster, promises};

use crate::outside::Outside;

fn kept() -> Promises {
    let outside = Outside::open();
    Promises::of(move || outside.operator(), SAMPLE)
}

promises!(kept();
    a_child_changed_by_hand_is_put_right,
    a_deleted_child_comes_back,
    a_deleted_resource_leaves_nothing,
    an_error_of_the_server_is_told_until_it_passes,
    an_operator_may_be_killed_after_any_write,
    an_operator_that_is_removed_leaves_everything_as_it_is,
    children_belong_to_their_resource,
    the_files_in_config_are_up_to_date,
    what_is_as_it_should_be_is_left_alone,
);

#[tokio::test]
async fn a_resource_without_a_type_is_looked_after() {
    kept().a_resource_from_before_a_field_is_looked_after("/spec/type").await;
}

/// Some faults, at all steps of the way; `kubewright explore` tries all of them.
#[test]
fn whatever_goes_wrong_is_survived() {
    if TestCluster::is_left_out("the explorer has a cluster of its own") {
        return;
    }
    kubewright_explore::explore(foobar_operator::operator).sample(SAMPLE).runs(25).run().assert_survived();
}
