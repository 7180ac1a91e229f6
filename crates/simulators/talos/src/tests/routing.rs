use bowline_talos_api::specs::{NodenameSpec, PlatformMetadataSpec};
use tokio::time::Instant;

use super::*;

async fn nodename(caller: &Caller, headers: &[(&'static str, &str)]) -> Result<String, Status> {
    let resource = caller.get(NodenameSpec::get_single(), headers).await?;
    Ok(resource.read::<NodenameSpec>().unwrap().nodename)
}

#[tokio::test(start_paused = true)]
async fn a_call_goes_to_the_machine_that_has_the_address() {
    let sim = Harness::new();
    let caller = sim.reader().await;
    for (headers, wanted) in [
        (&[][..], "cp-1"),
        (&[("node", "10.0.0.2")], "cp-1"),
        (&[("node", "10.0.0.3")], "cp-2"),
        (&[("node", "10.0.0.5")], "worker-1"),
        (&[("node", "fd00::5")], "worker-1"),
        (&[("node", "fd00:0::5")], "worker-1"),
        (&[("node", "203.0.113.5")], "worker-1"),
        (
            &[
                ("node", "10.0.0.6"),
                ("runtime", "Talos"),
                ("context", "prod"),
            ],
            "worker-2",
        ),
    ] {
        assert_eq!(
            nodename(&caller, headers).await.unwrap(),
            wanted,
            "{headers:?}"
        );
    }
    let version = caller.version(&[("node", "10.0.0.5")]).await.unwrap();
    assert_eq!(
        version.messages[0].metadata.as_ref().unwrap().hostname,
        "10.0.0.5"
    );
    assert_eq!(
        version.messages[0].platform.as_ref().unwrap().name,
        "hcloud"
    );
    let own = caller.version(&[]).await.unwrap();
    assert_eq!(own.messages[0].version.as_ref().unwrap().tag, "v1.13.5");
    assert!(own.messages[0].metadata.is_none());
}

#[tokio::test(start_paused = true)]
async fn bad_headers_are_refused() {
    let sim = Harness::new();
    let caller = sim.reader().await;
    for (headers, code, text) in bowline_simulator::table![
        &[("node", "10.0.0.5"), ("node", "10.0.0.6")][..], Code::InvalidArgument,
            "node metadata must be single-valued";
        &[("node", "")], Code::Internal, "invalid target \"\"";
        &[("node", "10.0.0.5:50000")], Code::Internal, "invalid target \"10.0.0.5:50000\"";
        &[("nodes", "10.0.0.5")], Code::InvalidArgument,
            "one-2-many proxying is not supported for method /cosi.resource.State/Get";
    ] {
        let refused = reported(nodename(&caller, headers).await);
        assert_eq!(refused, (code, text.to_owned()), "{headers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_does_not_exist_is_not_reachable_after_a_while() {
    let sim = Harness::new();
    let caller = sim.reader().await;
    let text = |place: &str| {
        format!(
            "connection error: desc = \"transport: Error while dialing: dial tcp {place}:50000: \
             connect: no route to host\""
        )
    };
    let begin = Instant::now();
    let refused = reported(nodename(&caller, &[("node", "10.0.0.99")]).await);
    assert_eq!(refused, (Code::Unavailable, text("10.0.0.99")));
    assert_eq!(begin.elapsed(), Duration::ZERO);
    let delay = Duration::from_secs(20);
    sim.talos.set_timings(|timings| timings.unknown = delay);
    let refused = reported(nodename(&caller, &[("node", "fd00::99")]).await);
    assert_eq!(refused, (Code::Unavailable, text("[fd00::99]")));
    assert_eq!(begin.elapsed(), delay);
    let refused = reported(nodename(&caller, &[("node", "somewhere")]).await);
    assert!(refused.1.contains("no such host"), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_worker_passes_nothing_on() {
    let sim = Harness::new();
    let _server = sim.talos.on_pipe("worker-1", "10.0.0.5:50000");
    let file = sim
        .talos
        .talosconfig(&Access::reader(&["10.0.0.5:50000"]))
        .unwrap();
    let caller = sim.connect(&file, "10.0.0.5").await.unwrap();
    assert_eq!(nodename(&caller, &[]).await.unwrap(), "worker-1");
    let own = nodename(&caller, &[("node", "fd00::5")]).await;
    assert_eq!(own.unwrap(), "worker-1");
    for node in ["10.0.0.2", "10.0.0.6", "10.0.0.99", "somewhere"] {
        let refused = reported(nodename(&caller, &[("node", node)]).await);
        let wanted = (Code::PermissionDenied, "no request forwarding".to_owned());
        assert_eq!(refused, wanted, "{node}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_stages_of_a_machine() {
    let sim = Harness::new();
    let (talos, caller) = (&sim.talos, sim.reader().await);
    let metadata = || caller.single::<PlatformMetadataSpec>("10.0.0.5");
    let problem = |reported: (Code, String)| {
        assert_eq!(reported.0, Code::Unavailable);
        let text = reported.1.trim_end_matches('"').to_owned();
        text.rsplit(": ").next().unwrap().to_owned()
    };
    talos.set_stage("worker-1", Stage::Absent).unwrap();
    assert_eq!(problem(reported(metadata().await)), "no route to host");
    talos.set_stage("worker-1", Stage::Booting).unwrap();
    assert_eq!(problem(reported(metadata().await)), "connection refused");
    talos.set_stage("worker-1", Stage::MetadataPartial).unwrap();
    let partial = metadata().await.unwrap();
    assert_eq!(
        partial,
        PlatformMetadataSpec {
            platform: "hcloud".to_owned(),
            ..PlatformMetadataSpec::default()
        }
    );
    talos.set_stage("worker-1", Stage::Ready).unwrap();
    assert_eq!(metadata().await.unwrap().provider_id, "hcloud://4711");
    talos.set_stage("worker-1", Stage::Down).unwrap();
    let begin = Instant::now();
    assert_eq!(problem(reported(metadata().await)), "i/o timeout");
    assert_eq!(begin.elapsed(), Duration::from_secs(20));
    talos
        .set_addresses("worker-1", &["eth0/10.0.0.7/24"])
        .unwrap();
    talos.set_stage("worker-1", Stage::Ready).unwrap();
    assert_eq!(problem(reported(metadata().await)), "no route to host");
    let moved: PlatformMetadataSpec = caller.single("10.0.0.7").await.unwrap();
    assert_eq!(moved.provider_id, "hcloud://4711");
}
