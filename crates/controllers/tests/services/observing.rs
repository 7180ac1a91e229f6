//! `--mode=observe`: the controller looks, plans and writes nothing.

use serde_json::{Value, json};

use crate::bench::{Bench, FIN, balancer};
use crate::cloud::Balancer;

#[tokio::test(start_paused = true)]
async fn an_observer_looks_and_changes_nothing_anywhere() {
    let mut bench = Bench::new();
    bench.ensured("web").await;
    bench.ensured("old").await;
    bench.stop().await;
    bench.use_flags(&["--mode=observe", "--remove-orphaned-load-balancers"]);
    bench
        .cloud()
        .audit_every(std::time::Duration::from_secs(3600));
    bench.cloud().tamper(|all| {
        let stray = Balancer {
            id: "lb-stray".into(),
            cluster: Some("kubernetes".into()),
            ..Balancer::default()
        };
        all.insert("stray".into(), stray);
    });
    bench.cloud().clear();
    let (writes, events) = (bench.writes().len(), bench.events("web").len());
    let before = bench.cloud().balancers();
    bench.start();
    bench.put_service(balancer("new"));
    bench.delete("old").await;
    bench.add_node("n4");
    bench
        .patch(
            "web",
            json!({ "metadata": { "annotations": { "demo.test/size": "bad" } } }),
        )
        .await;
    bench.seconds(5 * 3600).await;
    for look in [
        "default/new",
        "default/old (absent)",
        "default/web (n1 n2 n3 n4)",
    ] {
        assert!(bench.cloud().count(look) > 0, "{look}");
    }
    assert!(bench.cloud().count("list") > 0);
    assert_eq!(bench.cloud().writes(), [""; 0]);
    assert_eq!(bench.cloud().balancers(), before);
    // Of the writes since then, one is a person's patch and one a person's deletion.
    let ours = bench.writes().into_iter().skip(writes);
    assert_eq!(
        ours.filter(|it| it.caller == crate::bench::MANAGER).count(),
        0
    );
    assert_eq!(bench.events("web").len(), events);
    assert_eq!(bench.finalizers("old"), json!([FIN]));
    assert_eq!(bench.finalizers("new"), Value::Null);
}
