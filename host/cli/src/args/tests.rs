use clap::CommandFactory;
use homeostat_component::TierPolicy;

use super::*;

#[test]
fn the_grammar_has_no_contradictions() {
    Args::command().debug_assert();
}

#[test]
fn commands_read_as_people_type_them() {
    for line in [
        "homeostat run examples/apps",
        "homeostat run --listen 127.0.0.1:8080 --data /var/lib/h --store memory --log-format json manifests",
        "homeostat dev examples/apps --exit-when-settled",
        "homeostat run examples/apps --instances 4096",
        "homeostat inspect web.wasm -o json",
        "homeostat bench tests/guests/noop --keys 100 --workers 4 --seconds 1",
        "homeostat queue",
        "homeostat queue deployments --state parked",
        "homeostat queue cancel deployments deployment web -n red",
        "homeostat queue postpone controller/deployments deployment/web --after 10m",
        "homeostat queue -n red cancel deployments deployment web",
        "homeostat queue controller/cancel",
        "homeostat hosts -o wide",
        "homeostat drain --wait 1m30s",
        "homeostat uncordon",
        "homeostat enqueue deployment web --after 1h30m --priority high --controller deployments -o json",
    ] {
        let parsed = Args::try_parse_from(line.split(' '));
        assert!(parsed.is_ok(), "{line}: {}", parsed.err().map(|error| error.to_string()).unwrap_or_default());
    }
    for line in [
        "homeostat",
        "homeostat rnu x",
        "homeostat run",
        "homeostat bench x --keys 0",
        "homeostat run x --store disk",
        "homeostat queue postpone deployments deployment web",
        "homeostat enqueue deployment web --priority urgent",
        "homeostat enqueue deployment web --after soon",
        "homeostat run x --instances 0",
        "homeostat drain --wait soon",
        "homeostat dev x --instances 4097",
    ] {
        assert!(Args::try_parse_from(line.split(' ')).is_err(), "{line}");
    }
}

#[test]
fn every_command_says_what_it_is_for() {
    for command in Args::command().get_subcommands() {
        assert!(command.get_about().is_some(), "{} has no help", command.get_name());
        for argument in command.get_arguments() {
            assert!(argument.get_help().is_some(), "{} {} has no help", command.get_name(), argument.get_id());
        }
    }
}

#[test]
fn a_host_has_the_instances_that_it_is_told_and_compiles_baseline_code_first() {
    for (line, wanted) in [("homeostat run x --instances 8", 8), ("homeostat run x", 256)] {
        let Command::Run(run) = Args::try_parse_from(line.split(' ')).unwrap().command else { panic!("{line}") };
        let options = run.host.engine_options(std::path::Path::new("data")).unwrap();
        assert_eq!((options.instances_max, options.tiers), (wanted, TierPolicy::BaselineFirst));
    }
}
