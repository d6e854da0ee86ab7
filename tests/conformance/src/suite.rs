//! The list of all cases, and the macro that declares them as tests.

/// Calls another macro with some arguments and the names of all cases. A case that is missing here is dead code,
/// which the compiler reports.
#[doc(hidden)]
#[macro_export]
macro_rules! all_cases {
    ($macro:path, $arguments:tt) => {
        $macro! {
            $arguments
            applies {
                fields_no_longer_applied_are_removed_and_fields_of_others_stay
                a_conflict_names_field_and_owner_and_changes_nothing
                force_takes_a_field_and_its_former_owner_does_not_remove_it
                a_shared_field_stays_until_its_last_manager_drops_it
                an_apply_that_changes_neither_value_nor_owner_makes_no_revision
                a_new_owner_alone_makes_a_revision_of_an_apply
                an_update_takes_a_field_and_the_applier_then_conflicts
                a_status_is_applied_as_all_else_is
                a_strategic_patch_of_a_status_merges_by_the_keys_of_the_schema
                a_client_side_apply_of_kubectl_does_not_conflict_with_its_server_side_apply
                labels_finalizers_and_owners_are_merged_by_item
                an_apply_can_carry_preconditions
                a_dry_run_finds_conflicts_and_stores_nothing
                a_deletion_waits_for_the_finalizers_of_every_manager
                an_item_of_a_list_may_leave_out_a_key_that_has_a_default
                a_field_that_is_null_is_not_applied_and_a_null_in_a_list_is_refused
            }
            deletes {
                a_resource_without_finalizers_goes_at_once
                finalizers_hold_a_deletion_and_the_last_one_lets_it_go
                a_second_deletion_changes_only_the_propagation
                a_finalizer_cannot_be_added_to_a_resource_being_deleted
                a_name_that_is_used_again_is_another_resource
                foreground_and_orphan_leave_their_finalizer
            }
            garbage {
                dependents_of_a_deleted_owner_are_deleted_and_theirs_too
                a_missed_deletion_is_found_at_the_start
                a_resource_whose_owner_never_was_is_deleted
                an_owner_of_the_same_name_is_not_the_owner
                one_living_owner_is_enough
                an_owner_outside_of_namespaces_counts
                a_dependent_outside_of_namespaces_lives_as_long_as_its_owner_in_one
                foreground_deletes_from_the_leaves_up
                foreground_deletion_releases_dependents_with_another_owner
                a_ring_of_owners_can_be_deleted_in_the_foreground
                orphans_stay_and_forget_their_owner
                a_deletion_half_done_at_the_start_is_finished
                a_dependent_with_finalizers_holds_up_a_foreground_deletion
            }
            histories {
                history_cut_anywhere_among_deletions_loses_none
                a_watch_that_is_thousands_of_events_behind_loses_none
                a_watch_reaches_the_revision_that_the_store_reports
                a_dry_run_leaves_no_trace_for_any_watch
            }
            lists {
                a_list_is_in_the_order_of_namespace_and_name
                a_list_ignores_the_version_and_leaves_other_kinds_out
                selectors_pick_by_namespace_label_field_and_owner
                pages_together_are_the_list
                a_counted_page_says_how_many_resources_remain
                a_page_with_a_limit_ends_where_its_documents_come_to_four_mebibytes
                all_pages_show_the_moment_of_the_first_one
                a_list_at_a_revision_shows_the_resources_of_then
                a_page_after_history_was_cut_is_expired
                a_wrong_limit_selector_or_token_is_invalid
                kinds_are_those_of_which_resources_exist
                dependents_are_found_across_kinds_and_follow_changes
            }
            managers {
                every_verb_notes_its_manager
                a_status_is_owned_apart_from_the_rest
                owners_that_are_not_understood_stay_and_a_reset_forgets_them
                owners_are_those_that_an_update_or_a_patch_of_the_resource_names
                owners_that_come_to_too_much_are_refused
                a_manager_cannot_have_just_any_name
            }
            names {
                a_document_that_is_not_acceptable_is_refused_with_the_path
                a_document_is_read_back_as_it_was_written
                a_document_too_large_or_too_deep_is_refused
                a_small_patch_cannot_become_a_large_document
                a_hostile_key_is_not_found
                a_refused_write_leaves_no_trace
                the_name_of_a_namespace_is_one_part_of_a_dns_name
                unknown_metadata_fields_are_pruned_and_reported
                equal_numbers_are_stored_alike
                a_whole_number_that_does_not_fit_is_not_an_integer
            }
            schemas {
                a_document_is_pruned_filled_in_and_checked
                every_way_of_writing_is_checked_and_a_refusal_changes_nothing
                a_status_is_checked_when_it_is_written_and_only_then
                a_status_that_the_schema_does_not_know_is_left_out
                a_document_that_became_invalid_can_be_labelled_reported_on_and_deleted
                a_write_that_only_repeats_the_defaults_changes_nothing
                unknown_fields_are_reported_or_refused_on_request
            }
            versions {
                a_document_of_any_version_is_checked_by_its_schema_and_stored_in_one_version
                an_older_document_gets_the_stored_version_with_the_next_write
                owners_of_fields_keep_the_version_that_they_wrote
            }
            watches {
                a_watch_event_has_the_change_and_the_resource_before_it
                a_watch_of_a_kind_leaves_others_out
                a_watch_knows_how_far_it_has_come_and_no_further
                a_revision_in_the_future_is_refused
                a_compacted_revision_is_expired_and_the_oldest_one_misses_nothing
                a_watch_that_is_too_slow_ends_with_expired
                a_cancelled_wait_loses_nothing
                a_watch_wakes_up_for_a_later_write
                a_read_finds_what_a_watch_has_delivered
                a_closed_store_ends_its_watches_after_the_last_event
                list_then_watch_has_neither_gap_nor_duplicate
                watchers_from_any_revision_see_every_event_once_in_order
            }
            writes {
                a_created_resource_has_its_metadata_filled_in
                revisions_only_grow_and_by_one
                creating_an_existing_resource_is_refused_and_changes_nothing
                an_old_revision_or_another_uid_is_a_conflict_and_changes_nothing
                a_write_that_changes_nothing_makes_no_revision
                the_generation_grows_with_the_spec_only
                status_is_written_by_its_own_verb_alone
                a_generated_name_begins_as_asked_and_is_new_each_time
                a_merge_patch_sets_and_removes
                a_json_patch_is_all_or_nothing
                a_patch_cannot_change_host_owned_metadata
                apply_creates_then_merges_then_changes_nothing
                writing_to_a_missing_resource_is_not_found
                one_of_many_concurrent_updates_of_one_revision_wins
                concurrent_patches_without_precondition_all_count
                after_close_everything_is_refused
            }
        }
    };
}

/// Declares all cases as tests of the current module, for the store that a [`Make`](crate::Make) makes:
/// `suite!(crate::memory)`. Attributes of the tests may follow: `suite!(crate::memory, ignore = "why")`.
#[macro_export]
macro_rules! suite {
    ($make:path $(, $attribute:meta)*) => {
        $crate::all_cases!($crate::declare, ($make, [$($attribute),*]));
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! declare {
    (($make:path, $attributes:tt) $($module:ident { $($name:ident)* })*) => {
        $(mod $module {
            $($crate::test!($make, $attributes, $module, $name);)*
        })*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! test {
    ($make:path, [$($attribute:meta),*], $module:ident, $name:ident) => {
        #[tokio::test(flavor = "multi_thread")]
        $(#[$attribute])*
        async fn $name() {
            $crate::cases::$module::$name($make).await
        }
    };
}

/// Gives out each case as a function.
macro_rules! publish {
    (() $($module:ident { $($name:ident)* })*) => {
        /// The cases, each as a function that panics where the store breaks its promise.
        #[doc(hidden)]
        #[allow(missing_docs, reason = "the names of cases are sentences")]
        pub mod cases {
            $(pub mod $module {
                $(pub fn $name(make: $crate::Make) -> std::pin::Pin<Box<dyn Future<Output = ()>>> {
                    Box::pin($crate::$module::$name(make))
                })*
            })*
        }
    };
}

all_cases!(publish, ());
