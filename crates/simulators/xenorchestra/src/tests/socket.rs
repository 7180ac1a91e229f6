//! JSON-RPC over a WebSocket.

use futures::{SinkExt, StreamExt};
use tokio::io::DuplexStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::*;

/// A socket, and how many calls were made.
struct Socket(WebSocketStream<DuplexStream>, u64);

impl Socket {
    async fn open(sim: &Harness) -> Self {
        let stream = sim.world.pipes.connect(AUTHORITY).unwrap();
        let opened = tokio_tungstenite::client_async("ws://xo.sim/api/", stream).await;
        let (socket, response) = opened.unwrap();
        assert_eq!(response.status(), 101);
        Self(socket, 0)
    }

    async fn next(&mut self) -> Option<Value> {
        match self.0.next().await? {
            Ok(Message::Text(text)) => serde_json::from_str(&text).ok(),
            _ => None,
        }
    }

    async fn call(&mut self, method: &str, params: Value) -> Value {
        self.1 += 1;
        let id = self.1;
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.0.send(Message::text(call.to_string())).await.unwrap();
        let reply = self.next().await.unwrap();
        assert_eq!(reply["id"], id, "{reply}");
        reply
    }
}

#[tokio::test(start_paused = true)]
async fn somebody_signs_in_and_makes_a_token() {
    let sim = Harness::new();
    sim.orchestra
        .set_user("svc-k8s@corp.lan", User::admin("s3cret:x"));
    let mut socket = Socket::open(&sim).await;
    shows!(socket.call("session.getUser", json!({})).await, {"result": null});
    let reply = socket.call("token.create", json!({})).await;
    shows!(reply, {"/error/code": 2, "/error/message": "not enough permissions"});
    let user = "svc-k8s@corp.lan";
    let wrong = socket
        .call("session.signIn", json!({ "email": user, "password": "x" }))
        .await;
    shows!(wrong, {"error": { "code": 3, "message": "invalid credentials" }});
    let early = socket
        .call(
            "session.signIn",
            json!({ "email": user, "password": "s3cret:x" }),
        )
        .await;
    assert_eq!(early["error"]["message"], "too fast authentication tries");
    pass(2).await;
    let reply = socket
        .call(
            "session.signIn",
            json!({ "email": user, "password": "s3cret:x" }),
        )
        .await;
    shows!(reply, {"/result/email": user, "/result/permission": "admin"});
    let made = socket
        .call(
            "token.create",
            json!({ "description": "d", "expiresIn": "1 day" }),
        )
        .await;
    let token = made["result"].as_str().unwrap();
    assert_eq!(
        sim.call_with(token, "GET", "/vms", Value::Null)
            .await
            .status,
        200
    );
    let mut other = Socket::open(&sim).await;
    assert_eq!(
        other
            .call("session.signIn", json!({ "token": token }))
            .await["result"]["email"],
        user
    );
    let unknown = other.call("vm.explode", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32_601);
    let calls = sim.world.journal.entries();
    let signed: Vec<u16> = calls
        .iter()
        .filter(|it| it.operation == "session.signIn")
        .map(|it| it.status)
        .collect();
    assert_eq!(signed, [400, 400, 200, 200]);
}

#[tokio::test(start_paused = true)]
async fn objects_are_listed_and_changes_told() {
    let sim = Harness::new();
    let mut socket = Socket::open(&sim).await;
    socket
        .call("session.signIn", json!({ "token": DEFAULT_TOKEN }))
        .await;
    let all = socket.call("xo.getAllObjects", json!({})).await;
    assert_eq!(all["result"].as_object().unwrap().len(), 7);
    let vms = socket
        .call(
            "xo.getAllObjects",
            json!({ "filter": { "type": "VM" }, "limit": 1 }),
        )
        .await;
    let vms = vms["result"].as_object().unwrap().clone();
    assert_eq!(
        (vms.len(), &vms[VM1]["name_label"]),
        (1, &json!("worker 1"))
    );
    let named = socket
        .call(
            "xo.getAllObjects",
            json!({ "filter": "name_label:worker-2" }),
        )
        .await;
    assert!(named["result"].get(VM2).is_some());
    sim.orchestra.halt("worker 1").unwrap();
    let host = socket.next().await.unwrap();
    shows!(host, {"method": "all", "/params/type": "enter"});
    let vm = socket.next().await.unwrap();
    assert_eq!(vm["params"]["items"][VM1]["power_state"], "Halted");
    sim.orchestra.destroy("worker 1").unwrap();
    assert_eq!(socket.next().await.unwrap()["params"]["type"], "exit");
}

#[tokio::test(start_paused = true)]
async fn a_socket_ends_with_its_server() {
    let sim = Harness::new();
    let mut signed = Socket::open(&sim).await;
    signed
        .call("session.signIn", json!({ "token": DEFAULT_TOKEN }))
        .await;
    sim.orchestra.restart();
    assert_eq!(signed.next().await, None);
    let mut cut = Socket::open(&sim).await;
    sim.world.faults.cut_streams(NAME);
    assert_eq!(cut.next().await, None);
    let mut open = Socket::open(&sim).await;
    drop(sim);
    assert_eq!(open.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn what_asks_for_no_socket_gets_none() {
    let sim = Harness::new();
    assert_eq!(sim.raw("GET", "/api/", "", &[]).await.status, 426);
}
