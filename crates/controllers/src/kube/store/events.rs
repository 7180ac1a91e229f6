//! The events of a watch, each decoded from the bytes of its line into the fields that are used and no others.
//!
//! The library would hold every object whole, twice, to be able to say which one is broken. Here that is done only for
//! one that is.

use bytes::{Buf as _, BytesMut};
use futures::stream::{self, Stream};
use http::header::{ACCEPT_ENCODING, HeaderValue};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::api::WatchEvent;
use kube::client::{Body, Client};
use kube::core::Status;
use kube::{Error, Resource, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::kube::objects::{self, DeserializeGuard};

/// Bytes of one event. The API server itself holds no object that is larger than some megabytes.
const LINE_LIMIT: usize = 32 << 20;

/// What is kept in a store, or says why it cannot be read.
type Event<K> = WatchEvent<DeserializeGuard<K>>;

/// Opens a watch. Its events end when the server ends it, or when the connection breaks.
pub(super) async fn open<K>(
    client: &Client,
    mut request: Request<Vec<u8>>,
) -> Result<impl Stream<Item = Result<Event<K>>> + Send + use<K>>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Send,
{
    // Each event on its own would hardly get smaller.
    let identity = HeaderValue::from_static("identity");
    request.headers_mut().insert(ACCEPT_ENCODING, identity);
    let response = client.send(request.map(Body::from)).await?;
    if !response.status().is_success() {
        return Err(refusal(response).await);
    }
    let lines = Lines {
        body: response.into_body(),
        buffer: BytesMut::new(),
        line: 0,
    };
    Ok(stream::unfold(Some(lines), |lines| async {
        let mut lines = lines?;
        match lines.next().await {
            Ok(line) => Some((decode(line?), Some(lines))),
            Err(error) => Some((Err(error), None)),
        }
    }))
}

/// What the server says instead of events.
async fn refusal(response: Response<Body>) -> Error {
    let code = response.status().as_u16();
    let body = match response.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return error,
    };
    let status = serde_json::from_slice::<Status>(&body).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(&body);
        Status::failure(text.trim(), "Failed to parse error data").with_code(code)
    });
    Error::Api(status.boxed())
}

fn decode<K>(line: &[u8]) -> Result<Event<K>>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone,
{
    let whole = |object| DeserializeGuard(Ok(object));
    match objects::decode::<WatchEvent<K>>(line) {
        Ok(WatchEvent::Added(object)) => Ok(WatchEvent::Added(whole(object))),
        Ok(WatchEvent::Modified(object)) => Ok(WatchEvent::Modified(whole(object))),
        Ok(WatchEvent::Deleted(object)) => Ok(WatchEvent::Deleted(whole(object))),
        Ok(WatchEvent::Bookmark(mark)) => Ok(WatchEvent::Bookmark(mark)),
        Ok(WatchEvent::Error(status)) => Ok(WatchEvent::Error(status)),
        Err(error) => decode_broken(line).ok_or(Error::SerdeError(error))?,
    }
}

/// An event whose object is not looked into.
#[derive(Deserialize)]
struct Unread<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// An event about an object that cannot be read, or a refusal without an event around it.
fn decode_broken<K>(line: &[u8]) -> Option<Result<Event<K>>>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone,
{
    let Ok(Unread { r#type, object }) = serde_json::from_slice(line) else {
        let status = serde_json::from_slice::<Status>(line).ok()?;
        return Some(Err(Error::Api(status.boxed())));
    };
    let object = serde_json::from_str(object.get()).ok()?;
    Some(Ok(match r#type {
        "ADDED" => WatchEvent::Added(object),
        "MODIFIED" => WatchEvent::Modified(object),
        "DELETED" => WatchEvent::Deleted(object),
        _ => return None,
    }))
}

/// The lines of a body.
struct Lines {
    body: Body,
    buffer: BytesMut,
    /// Bytes of the line at the beginning of the buffer that was handed out.
    line: usize,
}

impl Lines {
    /// The next line; none if there are no more. What was cut is no line.
    async fn next(&mut self) -> Result<Option<&[u8]>> {
        self.buffer.advance(self.line);
        let mut searched = 0;
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.buffer[searched..]) {
                self.line = searched + end + 1;
                return Ok(Some(&self.buffer[..self.line]));
            }
            (searched, self.line) = (self.buffer.len(), 0);
            if searched > LINE_LIMIT {
                return Err(Error::LinesCodecMaxLineLengthExceeded);
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                None => return Ok(None),
                Some(Err(error)) if is_end(&error) => return Ok(None),
                Some(Err(error)) => return Err(error),
            }
        }
    }
}

/// Whether the connection was closed, which ends a watch as well as the server itself does.
fn is_end(error: &Error) -> bool {
    let is_eof = |cause: &(dyn std::error::Error + 'static)| {
        let closed = cause.downcast_ref::<std::io::Error>();
        closed.is_some_and(|it| it.kind() == std::io::ErrorKind::UnexpectedEof)
    };
    let mut causes =
        std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |it| {
            it.source()
        });
    // The decoder of chunks says the same in words alone.
    causes.any(is_eof) || error.to_string().contains("unexpected EOF during chunk")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::objects::NodeObject;
    use futures::StreamExt as _;
    use http_body::Frame;
    use kube::ResourceExt as _;

    /// A watch whose body comes in these pieces.
    fn server(code: u16, pieces: Vec<Result<&'static str, std::io::ErrorKind>>) -> Client {
        let answer = move |_: Request<Body>| {
            let frames = pieces.clone().into_iter().map(|piece| match piece {
                Ok(text) => Ok(Frame::data(bytes::Bytes::from_static(text.as_bytes()))),
                Err(kind) => Err(std::io::Error::from(kind)),
            });
            let body = http_body_util::StreamBody::new(stream::iter(frames));
            let response = Response::builder().status(code).body(body);
            async move { response }
        };
        Client::new(tower::service_fn(answer), "default")
    }

    async fn names(client: &Client) -> Vec<String> {
        let events = open::<NodeObject>(client, Request::default()).await;
        let named = events.unwrap().map(|event| match event {
            Ok(WatchEvent::Added(object)) => match &object.0 {
                Ok(_) => object.name_any(),
                Err(broken) => format!("{} broken", broken.metadata.name.as_deref().unwrap()),
            },
            Ok(other) => format!("{other:?}"),
            Err(Error::Api(status)) => format!("refused {}", status.code),
            Err(error) => format!("error {error}"),
        });
        named.collect().await
    }

    #[tokio::test]
    async fn lines_are_put_together_whatever_the_pieces() {
        let client = server(
            200,
            vec![
                Ok(r#"{"type":"ADDED","obj"#),
                Ok(r#"ect":{"metadata":{"name":"a"}}}"#),
                Ok(
                    "\n{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"b\"}}}\n{\"type\":\"ADDED\",",
                ),
                Ok("\"object\":{\"metadata\":{\"name\":\"c\"}}}\n"),
                Ok(r#"{"type":"ADDED","object":{"metadata":{"name":"cut"#),
            ],
        );
        assert_eq!(names(&client).await, ["a", "b", "c"]);
    }

    #[tokio::test]
    async fn one_broken_object_is_one_error() {
        let client = server(
            200,
            vec![
                Ok(
                    "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"},\"spec\":{\"taints\":1}}}\n",
                ),
                Ok(
                    "{\"object\":{\"metadata\":{\"name\":\"b\"},\"spec\":{\"taints\":1}},\"type\":\"ADDED\"}\n",
                ),
                Ok("{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"c\"}}}\n"),
            ],
        );
        assert_eq!(names(&client).await, ["a broken", "b broken", "c"]);
    }

    #[tokio::test]
    async fn a_connection_that_closes_ends_it_and_another_failure_is_told() {
        let closed = server(200, vec![Err(std::io::ErrorKind::UnexpectedEof)]);
        assert!(names(&closed).await.is_empty());
        let reset = server(200, vec![Err(std::io::ErrorKind::ConnectionReset)]);
        let told = names(&reset).await;
        assert!(told[0].starts_with("error ") && told.len() == 1, "{told:?}");
    }

    #[tokio::test]
    async fn refusals_keep_their_code_within_a_watch_and_before() {
        let within = server(
            200,
            vec![Ok(
                "{\"kind\":\"Status\",\"status\":\"Failure\",\"code\":410}\n",
            )],
        );
        assert_eq!(names(&within).await, ["refused 410"]);
        let status = r#"{"kind":"Status","status":"Failure","code":403}"#;
        for (code, text) in [(403, status), (502, "no proxy")] {
            let client = server(code, vec![Ok(text)]);
            let error = open::<NodeObject>(&client, Request::default()).await.err();
            assert!(
                matches!(error, Some(Error::Api(status)) if status.code == code),
                "{code}"
            );
        }
    }
}
