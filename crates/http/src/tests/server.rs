//! A small HTTP server for tests: a function answers, every request is kept.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::Pipes;

pub(super) type Answer = Response<Full<Bytes>>;
type Handler = dyn Fn(Request<Bytes>) -> BoxFuture<'static, Answer> + Send + Sync;

#[derive(Clone)]
pub(super) struct Server {
    handler: Arc<Handler>,
    seen: Arc<Mutex<Vec<Request<Bytes>>>>,
}

pub(super) fn answer(status: u16, body: &str) -> Answer {
    Response::builder()
        .status(status)
        .body(Full::new(Bytes::from(body.to_owned())))
        .unwrap()
}

impl Server {
    /// Answers at once.
    pub(super) fn new(handler: impl Fn(Request<Bytes>) -> Answer + Send + Sync + 'static) -> Self {
        Self::slow(move |request| {
            let answer = handler(request);
            Box::pin(async move { answer })
        })
    }

    /// Answers when it is ready.
    pub(super) fn slow(
        handler: impl Fn(Request<Bytes>) -> BoxFuture<'static, Answer> + Send + Sync + 'static,
    ) -> Self {
        Self {
            handler: Arc::new(handler),
            seen: Arc::default(),
        }
    }

    /// Gives these answers one after the other, then the last one for ever.
    pub(super) fn script(answers: Vec<Answer>) -> Self {
        let answers = Mutex::new((0, answers));
        Self::new(move |_| {
            let mut answers = answers.lock().unwrap();
            let next = answers.0.min(answers.1.len() - 1);
            answers.0 += 1;
            answers.1[next].clone()
        })
    }

    pub(super) fn seen(&self) -> Vec<Request<Bytes>> {
        self.seen.lock().unwrap().clone()
    }

    /// `METHOD target` of every request.
    pub(super) fn lines(&self) -> Vec<String> {
        let seen = self.seen();
        let line = |request: &Request<Bytes>| format!("{} {}", request.method(), request.uri());
        seen.iter().map(line).collect()
    }

    /// Serves everybody who connects to that name.
    pub(super) fn listen(&self, pipes: &Pipes, name: &str) {
        let mut listener = pipes.listen(name);
        let server = self.clone();
        tokio::spawn(async move {
            while let Some(pipe) = listener.accept().await {
                tokio::spawn(server.clone().serve(pipe));
            }
        });
    }

    pub(super) async fn serve(self, io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let service = service_fn(move |request: Request<Incoming>| {
            let server = self.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body
                    .collect()
                    .await
                    .map(http_body_util::Collected::to_bytes);
                let request = Request::from_parts(parts, body.unwrap_or_default());
                server.seen.lock().unwrap().push(request.clone());
                Ok::<_, Infallible>((server.handler)(request).await)
            }
        });
        // A client that leaves in the middle is no failure of the server.
        let _ = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(io), service)
            .await;
    }
}
