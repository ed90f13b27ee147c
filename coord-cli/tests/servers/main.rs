//! The `coord` command on the embedded store and on real servers: `docs/cli.md`, line by line.
//!
//! Tests are named `backend::promise`. Where servers come from is chosen by `COORD_TEST_ZK`, `COORD_TEST_ETCD` and
//! `COORD_TEST_REDIS`; a backend that is `off` shows as one ignored test. What disturbs a server is not run without one.

mod config;
mod contract;
mod faults;
mod inspect;
mod lab;
mod metrics;
mod run;
mod service;
mod store;
mod terminal;

use std::process::ExitCode;

use coord_testbed::{Kind, Provider, Server, ServerOptions};
use futures::future::LocalBoxFuture;
use libtest_mimic::{Arguments, Failed, Trial};

use lab::Lab;

const KINDS: [Kind; 3] = [Kind::ZooKeeper, Kind::Etcd, Kind::Redis];

/// A case, and whether it needs a server of its own to disturb.
pub(crate) struct Case {
    name: &'static str,
    disturbs: bool,
    run: fn(Lab) -> LocalBoxFuture<'static, ()>,
}

/// Cases by the names of their functions.
macro_rules! cases {
    ($disturbs:literal: $($module:ident::$name:ident),* $(,)?) => {
        [$($crate::Case {
            name: stringify!($name),
            disturbs: $disturbs,
            run: |lab| Box::pin(crate::$module::$name(lab)),
        }),*]
    };
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::from(cases![false:
        contract::input_and_exit_code_pass_through,
        contract::a_signal_that_ended_the_command_is_128_and_its_number,
        contract::what_cannot_run_is_126_and_what_is_not_there_127,
        contract::own_failure_is_125_and_wrong_usage_2,
        contract::not_acquired_is_124_or_as_asked,
        contract::the_command_is_told_about_its_lock,
        contract::a_lock_within_itself_is_refused,
        contract::a_signal_while_waiting_leaves_the_line,
        contract::signals_while_running_reach_the_command,
        contract::ignored_signals_stay_ignored,
        contract::the_command_has_a_process_group_of_its_own,
        contract::the_lock_is_free_only_after_the_command_was_reaped,
        contract::a_killed_coord_takes_the_command_with_it,
        contract::nothing_of_ours_is_left_behind,
        terminal::the_terminal_is_lent_to_the_command,
        store::keys_are_written_read_listed_and_deleted,
        store::any_bytes_come_back_as_they_went_in,
        store::a_watch_writes_a_line_an_event_and_ends_quietly_with_its_reader,
        store::a_watch_ends_with_its_reader_also_when_nothing_happens,
        store::doctor_tells_what_the_store_is,
        inspect::a_transaction_is_applied_whole_or_tells_what_did_not_hold,
        inspect::explain_says_the_same_on_every_store,
        inspect::keys_are_copied_to_another_store_and_back,
        metrics::a_store_is_seen_from_outside,
        config::a_namespace_is_published_followed_and_rolled_back,
        service::an_instance_is_there_as_long_as_its_command,
        service::told_to_stop_it_drains_first,
        service::the_command_is_told_to_stop_after_the_drain,
        service::a_service_is_watched,
        service::a_frozen_process_is_missed_and_comes_back_and_a_killed_one_is_gone,
        run::input_and_exit_code_pass_through_whatever_is_held,
        run::each_command_is_told_what_is_held,
        run::a_signal_while_waiting_ends_the_waiting,
        run::a_leader_that_is_told_to_stop_resigns_after_its_command,
        run::another_leads_after_the_leader_was_killed,
        run::a_leader_whose_entry_was_deleted_stands_again,
        run::as_many_run_at_once_as_there_are_permits,
        run::a_job_runs_once_a_period,
        run::a_job_whose_host_died_runs_again_only_if_asked,
        run::a_barrier_holds_everybody_until_it_is_removed,
        run::a_group_begins_and_ends_together,
        faults::an_entry_deleted_by_others_stops_the_command_at_once,
        faults::a_frozen_coord_does_not_keep_the_command_running,
    ]);
    cases.extend(cases![true:
        contract::credentials_stay_with_coord,
        faults::the_command_is_told_to_stop_before_the_lock_is_lost,
        faults::a_command_that_does_not_listen_is_killed_in_time,
        faults::on_lost_term_leaves_the_end_to_the_command,
        faults::on_lost_ignore_only_warns,
        run::a_leader_without_its_store_is_stopped_in_time_and_leads_again,
        run::a_store_that_forgets_is_shared_all_the_same,
        store::doctor_tells_what_is_wrong,
    ]);
    cases
}

/// The tests of one kind of server, and the server that they share, which must outlive them.
async fn of_kind(kind: Kind, start: bool) -> (Vec<Trial>, Option<Server>) {
    let alone = |name: &str, result: Result<(), String>| {
        Trial::test(format!("{}::{name}", kind.name()), move || result.map_err(Failed::from))
    };
    let provider = match Provider::choose(kind).await {
        Ok(Provider::Off) => return (vec![alone("off", Ok(())).with_ignored_flag(true)], None),
        Ok(provider) => provider,
        Err(error) => return (vec![alone("provider", Err(error.to_string()))], None),
    };
    let shared = if start {
        match Server::start(kind, &provider, ServerOptions::new()).await {
            Ok(server) => Some(server),
            Err(error) => return (vec![alone("server", Err(error.to_string()))], None),
        }
    } else {
        None
    };
    let url = shared.as_ref().map(Server::url).unwrap_or_default();
    let trials = cases().into_iter().map(|case| {
        // Somebody else's server is not disturbed.
        let ignored = case.disturbs && matches!(provider, Provider::Url(_));
        let lab = Lab::on_server(kind, provider.clone(), &url, case.name);
        trial(kind.name(), case, lab).with_ignored_flag(ignored)
    });
    (trials.collect(), shared)
}

/// The tests of the embedded store.
fn embedded() -> Vec<Trial> {
    let cases = cases().into_iter().filter(|case| cfg!(feature = "sqlite") && !case.disturbs);
    cases.map(|case| trial("sqlite", case, Lab::on_file())).collect()
}

fn trial(store: &str, case: Case, lab: Lab) -> Trial {
    Trial::test(format!("{store}::{}", case.name), move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on((case.run)(lab));
        Ok(())
    })
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime for the tests");
    let mut tests = embedded();
    let mut shared = Vec::new();
    for kind in KINDS {
        let filter = arguments.filter.as_deref().unwrap_or("");
        let wanted = filter.starts_with(&format!("{}::", kind.name())) || !filter.contains("::");
        let (trials, server) = runtime.block_on(of_kind(kind, wanted && !arguments.list));
        tests.extend(trials);
        shared.extend(server);
    }
    let conclusion = libtest_mimic::run(&arguments, tests);
    for server in shared {
        // A server that does not stop is killed when it is dropped.
        let _ = runtime.block_on(server.stop());
    }
    conclusion.exit_code()
}
