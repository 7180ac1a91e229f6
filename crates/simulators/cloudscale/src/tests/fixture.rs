//! Fixtures: the documented one, and what is said about mistakes.

use bowline_simulator::World;
use bowline_simulator::fixture::parse;
use bowline_simulator::testing::documented;

use crate::{Cloudscale, Fixture, Status};

#[tokio::test]
async fn the_documented_fixture_is_what_it_says() {
    let fixture: Fixture = parse("docs", documented("")).unwrap();
    let world = World::simulated(1);
    let cloud = Cloudscale::from_fixture(&world, fixture).unwrap();
    let servers = cloud.servers();
    assert_eq!(servers.len(), 2 + 20);
    assert_eq!(servers[0].name, "worker-a");
    assert!(
        servers[0]
            .addresses
            .contains(&"10.20.0.11".parse().unwrap())
    );
    assert_eq!(servers[1].status, Status::Stopped);
    assert_eq!(world.faults.rules().len(), 2);
    let balancers = cloud.balancers();
    assert_eq!(balancers[0].pools[0].members[0].name, "10.20.0.11:31080");
    assert_eq!(balancers[0].loose_listeners.len(), 1);
}

#[test]
fn an_empty_fixture_is_an_empty_cloud() {
    for text in ["", "\n", "# nothing\n"] {
        let fixture: Fixture = parse("empty", text).unwrap();
        assert!(fixture.machines.is_empty());
    }
}

#[test]
fn a_mistake_is_named_with_its_place_and_what_is_allowed() {
    for (text, fragments) in bowline_simulator::table![
        "machnies: []", vec!["line 1", "column 1", "machnies", "machines", "networks"];
        "machines:\n  - name: a\n    flavour: b\n", vec!["line 3", "column 5", "flavour", "flavor"];
        "timings:\n  create: soon\n", vec!["line 2", "soon", "length of time"];
        "timings:\n  create: 1s..2s\n", vec!["line 2", "not a range"];
        "tokens:\n  - project: x\n", vec!["value"];
        "networks:\n  - name: n\n    subnets: [{cidr: nonsense}]\n", vec!["line 3"];
        "machines: 7", vec!["line 1"];
        "faults:\n  - action: reset\n    tmies: 1\n", vec!["line 3", "tmies", "times"];
    ] {
        let message = parse::<Fixture>("cloud.yaml", text)
            .unwrap_err()
            .to_string();
        for fragment in fragments {
            assert!(
                message.contains(fragment),
                "{message}\nshould contain {fragment}"
            );
        }
        assert!(
            message.starts_with("the fixture cloud.yaml is wrong: "),
            "{message}"
        );
    }
}

#[test]
fn the_message_of_a_mistake_reads_well() {
    let message = parse::<Fixture>("cloud.yaml", "machnies: []")
        .unwrap_err()
        .to_string();
    assert_eq!(
        message,
        "the fixture cloud.yaml is wrong: unknown field `machnies`, expected one of tokens, \
         timings, quirks, public_url, networks, machines, load_balancers, floating_ips, faults \
         at line 1, column 1"
    );
}
