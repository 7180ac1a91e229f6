//! A server to play on, whichever it is: all that is known of it is a kubeconfig.

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

/// A server, seen by an administrator and by somebody without credentials.
pub(crate) struct Server {
    pub(crate) admin: kube::Client,
    pub(crate) nobody: kube::Client,
}

impl Server {
    /// The server of an administrator's kubeconfig.
    pub(crate) async fn of(kubeconfig: &str) -> Self {
        let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .unwrap();
        config.default_retry = false;
        let admin = kube::Client::try_from(config.clone()).unwrap();
        config.auth_info = kube::config::AuthInfo::default();
        let nobody = kube::Client::try_from(config).unwrap();
        Self { admin, nobody }
    }

    /// `v1.36.4`.
    pub(crate) async fn version(&self) -> String {
        self.admin.apiserver_version().await.unwrap().git_version
    }

    /// Sends something that is not recorded.
    pub(crate) async fn call(
        &self,
        method: &str,
        path: &str,
        kind: &str,
        body: String,
    ) -> (u16, Value) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .body(Body::from(body.into_bytes()))
            .unwrap();
        let response = self.admin.send(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }
}

/// An open watch: what has arrived of it, and whether it is over.
pub(crate) struct Watch {
    body: Body,
    buffer: Vec<u8>,
    over: bool,
}

impl Watch {
    /// The watch that an answer is.
    pub(crate) fn of(response: Response<Body>) -> Self {
        Self {
            body: response.into_body(),
            buffer: Vec::new(),
            over: false,
        }
    }

    /// The next event: one line of JSON.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(
                    serde_json::from_slice(&line)
                        .unwrap_or_else(|_| json!(String::from_utf8_lossy(&line))),
                );
            }
            if self.over {
                return None;
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self
                    .buffer
                    .extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
                _ => self.over = true,
            }
        }
    }
}
