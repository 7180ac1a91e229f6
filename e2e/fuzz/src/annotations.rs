//! Annotations of Services: tenants write them, and each cloud with load balancers reads them.

use std::collections::BTreeMap;

use bowline_core::Goal;
use bowline_http::Pipes;

use crate::answers::{Script, run};
use crate::clouds::{
    AUTHORITY, Account, cloudscale_account, exoscale_account, plan, request, triton_account,
};

/// Its lists have names.
const EXOSCALE: &str = r#"
> 200 GET /v2/zone
{"zones": [{"name": "ch-gva-2", "api-endpoint": "https://cloud/v2"}]}
> 200 GET
{"load-balancers": [], "instances": [], "instance-pools": [], "sks-clusters": []}
"#;

/// A line with the name of a cloud, then lines `key: value`. The cloud has nothing yet.
pub(crate) fn annotations(bytes: &[u8]) {
    let text = crate::text(bytes);
    let (cloud, lines) = text.split_once('\n').unwrap_or((&text, ""));
    let (account, script) = match cloud.trim() {
        "exoscale" => (exoscale_account(), EXOSCALE),
        "triton" => (triton_account(), "\n> 200 GET\n[]\n"),
        _ => (cloudscale_account(), "\n> 200 GET\n[]\n"),
    };
    let pairs = lines.lines().filter_map(|line| line.split_once(": "));
    let annotations = pairs.map(|(key, value)| (key.to_owned(), unescaped(value)));
    draft(&account, script, annotations.collect());
}

/// A value may have several lines.
fn unescaped(value: &str) -> String {
    value.replace("\\n", "\n")
}

fn draft(account: &Account, script: &str, annotations: BTreeMap<String, String>) {
    run(async {
        let pipes = Pipes::default();
        Script::read(script.as_bytes()).serve(&pipes, AUTHORITY);
        let cloud = account.build(&pipes).await;
        let cloud = cloud.expect("a cloud that answers");
        let nodes = account.nodes();
        let request = request(&nodes, Goal::Present, annotations);
        let balancers = cloud.balancers().expect("load balancers");
        balancers.serves(&request.service);
        balancers.contends_for(&request.service);
        for node in &nodes {
            balancers.selects(&request.service, node);
        }
        plan(&*cloud, &request).await;
    });
}
