//! A process that dies after any look at a step: the next one brings it to the same end.

use bowline_core::Goal;
use serde_json::json;

use super::shop::{Shop, id, outside, port};

/// What a whole life of a Service looks like in the cloud.
fn picture(shop: &Shop) -> Vec<serde_json::Map<String, serde_json::Value>> {
    [1, 2, 3].map(|it| shop.machine(it).tags).into()
}

#[tokio::test(start_paused = true)]
async fn wherever_a_process_dies_the_next_one_goes_on() {
    let mut reached = false;
    for looks in 1.. {
        let mut shop = Shop::new();
        shop.sim
            .set_tag(&id(1), "triton.cns.services", Some(json!("mine:1")))
            .unwrap();
        shop.add("web");
        if shop.until_crash("web", Goal::Present, looks).await {
            reached = true;
        }
        shop.restart();
        shop.ensure("web").await.good();
        let ours = "web.prod:30080";
        assert_eq!(
            shop.tags(),
            [format!("mine:1,{ours}"), ours.to_owned(), ours.to_owned()]
        );
        assert_eq!(shop.status("web"), [outside("web.prod")]);
        shop.service("web").ports = vec![port("TCP", 80, 30081)];
        shop.until_crash("web", Goal::Present, looks).await;
        shop.restart();
        shop.service("web").deleting = true;
        shop.until_crash("web", Goal::Absent, looks).await;
        shop.restart();
        // What was on its way when the process died has arrived by then.
        shop.wait(10).await;
        shop.delete("web").await.good();
        assert_eq!(shop.tags(), ["mine:1", "", ""], "after {looks} looks");
        let left = picture(&shop);
        assert!(left.iter().all(|it| !it.contains_key("bowline.cns")));
        if reached {
            return;
        }
    }
}
