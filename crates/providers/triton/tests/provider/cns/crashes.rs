//! A process that dies after any look at a step: the next one brings it to the same end.

use bowline_core::Goal;
use serde_json::json;

use super::harness::{Harness, id, outside, port};

/// What a whole life of a Service looks like in the cloud.
fn picture(test: &Harness) -> Vec<serde_json::Map<String, serde_json::Value>> {
    [1, 2, 3].map(|it| test.machine(it).tags).into()
}

#[tokio::test(start_paused = true)]
async fn wherever_a_process_dies_the_next_one_goes_on() {
    let mut reached = false;
    for looks in 1.. {
        let mut test = Harness::new();
        test.sim
            .set_tag(&id(1), "triton.cns.services", Some(json!("mine:1")))
            .unwrap();
        test.add("web");
        if test.until_crash("web", Goal::Present, looks).await {
            reached = true;
        }
        test.restart();
        test.ensure("web").await.good();
        let ours = "web.prod:30080";
        assert_eq!(
            test.tags(),
            [format!("mine:1,{ours}"), ours.to_owned(), ours.to_owned()]
        );
        assert_eq!(test.status("web"), [outside("web.prod")]);
        test.service("web").ports = vec![port("TCP", 80, 30081)];
        test.until_crash("web", Goal::Present, looks).await;
        test.restart();
        test.service("web").deleting = true;
        test.until_crash("web", Goal::Absent, looks).await;
        test.restart();
        // What was on its way when the process died has arrived by then.
        test.wait(10).await;
        test.delete("web").await.good();
        assert_eq!(test.tags(), ["mine:1", "", ""], "after {looks} looks");
        let left = picture(&test);
        assert!(left.iter().all(|it| !it.contains_key("bowline.cns")));
        if reached {
            return;
        }
    }
}
