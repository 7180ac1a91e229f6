//! The events of a watch, each decoded from its bytes into the fields that are used and no others.
//!
//! The library would hold every object whole, twice, to be able to say which one is broken. Here that is done only for
//! one that is.

use std::ops::Range;

use bytes::{Buf as _, BytesMut};
use futures::stream::{self, Stream};
use http::Request;
use http::header::{ACCEPT_ENCODING, HeaderValue};
use http_body_util::BodyExt as _;
use kube::api::WatchEvent;
use kube::client::{Body, Client};
use kube::core::Status;
use kube::core::error_boundary::InvalidObject;
use kube::{Error, Resource, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::kube::encoding::{self, Encoding};
use crate::kube::objects::protobuf::{self, Malformed, ReadProtobuf};
use crate::kube::objects::{self, DeserializeGuard};

/// Bytes of one event. The API server itself holds no object that is larger than some megabytes.
const EVENT_LIMIT: usize = 32 << 20;
/// Bytes that tell the length of an event in protobuf.
const LENGTH: usize = size_of::<u32>();

/// What is kept in a store, or says why it cannot be read.
type Event<K> = WatchEvent<DeserializeGuard<K>>;

/// Opens a watch. Its events end when the server ends it, or when the connection breaks.
///
/// With `read`, the server is asked for protobuf, and for JSON if it has none.
pub(super) async fn open<K>(
    client: &Client,
    mut request: Request<Vec<u8>>,
    read: Option<ReadProtobuf<K>>,
) -> Result<impl Stream<Item = Result<Event<K>>> + Send + use<K>>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Send,
{
    // Each event on its own would hardly get smaller.
    let identity = HeaderValue::from_static("identity");
    request.headers_mut().insert(ACCEPT_ENCODING, identity);
    let accept = read.map(|_| encoding::EITHER);
    let (body, encoding) = encoding::send(client, request, accept).await?;
    let read = read.filter(|_| encoding == Encoding::Protobuf);
    let frames = Frames {
        body,
        buffer: BytesMut::new(),
        taken: 0,
        are_lines: read.is_none(),
    };
    Ok(stream::unfold(Some(frames), move |frames| async move {
        let mut frames = frames?;
        match frames.next().await {
            Ok(frame) => {
                let frame = frame?;
                let event = read.map_or_else(|| decode(frame), |read| decode_protobuf(frame, read));
                Some((event, Some(frames)))
            }
            Err(error) => Some((Err(error), None)),
        }
    }))
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

fn decode_protobuf<K>(frame: &[u8], read: ReadProtobuf<K>) -> Result<Event<K>> {
    decode_frame(frame, read).map_err(|malformed| Error::SerdeError(malformed.into()))
}

fn decode_frame<K>(frame: &[u8], read: ReadProtobuf<K>) -> Result<Event<K>, Malformed> {
    let (kind, envelope) = protobuf::event(frame)?;
    let object = protobuf::opened(envelope)?;
    let guarded = || match read(object.clone()) {
        Ok(object) => Ok(DeserializeGuard(Ok(object))),
        Err(error) => Ok(DeserializeGuard(Err(InvalidObject {
            error: error.to_string(),
            metadata: protobuf::metadata(object.clone())?,
        }))),
    };
    Ok(match kind {
        "ADDED" => WatchEvent::Added(guarded()?),
        "MODIFIED" => WatchEvent::Modified(guarded()?),
        "DELETED" => WatchEvent::Deleted(guarded()?),
        "BOOKMARK" => WatchEvent::Bookmark(protobuf::bookmark(object)?),
        "ERROR" => WatchEvent::Error(protobuf::status(object)?.boxed()),
        _ => return Err(Malformed),
    })
}

/// What a body is made of: lines, or pieces of protobuf with their lengths before them.
struct Frames {
    body: Body,
    buffer: BytesMut,
    /// Bytes at the beginning of the buffer that were handed out.
    taken: usize,
    are_lines: bool,
}

impl Frames {
    /// The next frame; none if there are no more. What was cut is no frame.
    async fn next(&mut self) -> Result<Option<&[u8]>> {
        self.buffer.advance(std::mem::take(&mut self.taken));
        let mut searched = 0;
        loop {
            if let Some(frame) = self.frame(searched)? {
                self.taken = frame.end;
                return Ok(Some(&self.buffer[frame]));
            }
            searched = self.buffer.len();
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

    /// Where the first frame is, if it is whole. `searched` bytes hold no end of a line.
    fn frame(&self, searched: usize) -> Result<Option<Range<usize>>> {
        let frame = if self.are_lines {
            let end = memchr::memchr(b'\n', &self.buffer[searched..]);
            0..end.map_or(usize::MAX, |end| searched + end + 1)
        } else {
            let length = self.buffer.first_chunk::<LENGTH>();
            let length = length.map(|length| u32::from_be_bytes(*length));
            let length = length.and_then(|length| usize::try_from(length).ok());
            LENGTH..length.map_or(usize::MAX, |length| LENGTH.saturating_add(length))
        };
        if frame.end <= self.buffer.len() {
            return Ok(Some(frame));
        }
        let known = if frame.end == usize::MAX {
            self.buffer.len()
        } else {
            frame.end
        };
        if known > EVENT_LIMIT {
            return Err(Error::LinesCodecMaxLineLengthExceeded);
        }
        Ok(None)
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
    use http::Response;
    use http::header::{ACCEPT, CONTENT_TYPE};
    use http_body::Frame;
    use kube::ResourceExt as _;

    /// A watch whose body comes in these pieces.
    fn server(code: u16, pieces: Vec<Result<&'static str, std::io::ErrorKind>>) -> Client {
        let pieces = pieces
            .into_iter()
            .map(|piece| piece.map(|it| it.as_bytes().to_vec()));
        serve(code, "application/json", pieces.collect())
    }

    /// The same in protobuf.
    fn protobuf_server(code: u16, pieces: Vec<Vec<u8>>) -> Client {
        let kind = "application/vnd.kubernetes.protobuf;stream=watch";
        serve(code, kind, pieces.into_iter().map(Ok).collect())
    }

    fn serve(
        code: u16,
        kind: &'static str,
        pieces: Vec<Result<Vec<u8>, std::io::ErrorKind>>,
    ) -> Client {
        let answer = move |request: Request<Body>| {
            let accept = request.headers().get(ACCEPT);
            assert!(accept.is_some_and(|it| it == encoding::EITHER));
            let frames = pieces.clone().into_iter().map(|piece| match piece {
                Ok(bytes) => Ok(Frame::data(bytes::Bytes::from(bytes))),
                Err(kind) => Err(std::io::Error::from(kind)),
            });
            let body = http_body_util::StreamBody::new(stream::iter(frames));
            let response = Response::builder().status(code).header(CONTENT_TYPE, kind);
            let response = response.body(body);
            async move { response }
        };
        Client::new(tower::service_fn(answer), "default")
    }

    const READ: Option<ReadProtobuf<NodeObject>> = Some(NodeObject::from_protobuf);

    async fn names(client: &Client) -> Vec<String> {
        let events = open(client, Request::default(), READ).await;
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
            let error = open(&client, Request::default(), READ).await.err();
            assert!(
                matches!(error, Some(Error::Api(status)) if status.code == code),
                "{code}"
            );
        }
    }

    fn node(name: &str) -> serde_json::Value {
        serde_json::json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } })
    }

    fn event(kind: &str, object: &serde_json::Value) -> Vec<u8> {
        bowline_simulator_kubernetes::protobuf::event(kind, object).unwrap()
    }

    #[tokio::test]
    async fn protobuf_is_put_together_whatever_the_pieces() {
        let all = [
            event("ADDED", &node("a")),
            event("ADDED", &node("b")),
            event("ADDED", &node("cut")),
        ];
        let all = all.concat();
        let all = &all[..all.len() - 1];
        for size in 1..all.len() {
            let client = protobuf_server(200, all.chunks(size).map(<[u8]>::to_vec).collect());
            assert_eq!(names(&client).await, ["a", "b"], "{size}");
        }
    }

    #[tokio::test]
    async fn one_broken_object_in_protobuf_is_one_error() {
        // The name is a field of `metadata`, and there is more of `spec` said than there is.
        let mut broken = b"k8s\0\x12\x0b\x0a\x05\x0a\x03old\x12\x02\x1a\x7f".to_vec();
        let mut frame = b"\x0a\x05ADDED\x12".to_vec();
        broken.splice(0..0, [0x0a, u8::try_from(broken.len()).unwrap()]);
        frame.push(u8::try_from(broken.len()).unwrap());
        frame.extend(broken);
        let length = u32::try_from(frame.len()).unwrap().to_be_bytes();
        let pieces = vec![length.to_vec(), frame, event("ADDED", &node("b"))];
        assert_eq!(
            names(&protobuf_server(200, pieces)).await,
            ["old broken", "b"]
        );
    }

    #[tokio::test]
    async fn protobuf_has_bookmarks_deletions_and_refusals() {
        let mark = serde_json::json!({ "apiVersion": "v1", "kind": "Node", "metadata": {
            "resourceVersion": "7", "annotations": { "k8s.io/initial-events-end": "true" } } });
        let status = serde_json::json!({ "apiVersion": "v1", "kind": "Status", "metadata": {},
            "status": "Failure", "message": "too old", "reason": "Expired", "code": 410,
            "details": { "causes": [{ "reason": "ResourceVersionTooLarge", "message": "m" }] } });
        let all = [
            event("BOOKMARK", &mark),
            event("DELETED", &node("a")),
            event("ERROR", &status),
        ];
        let client = protobuf_server(200, vec![all.concat()]);
        let events = open(&client, Request::default(), READ).await.unwrap();
        let events: Vec<_> = events.map(Result::unwrap).collect().await;
        let [
            WatchEvent::Bookmark(mark),
            WatchEvent::Deleted(_),
            WatchEvent::Error(status),
        ] = &events[..]
        else {
            panic!("{events:?}");
        };
        assert_eq!(mark.metadata.resource_version, "7");
        assert!(
            mark.metadata
                .annotations
                .contains_key("k8s.io/initial-events-end")
        );
        assert_eq!(
            (status.code, &*status.reason, &*status.message),
            (410, "Expired", "too old")
        );
        let causes = status.details.iter().flat_map(|details| &details.causes);
        let causes: Vec<_> = causes.map(|cause| cause.reason.clone()).collect();
        assert_eq!(causes, ["ResourceVersionTooLarge"]);
    }

    #[tokio::test]
    async fn what_is_no_protobuf_is_an_error_and_too_much_of_it_too() {
        let frames: [&[u8]; 4] = [
            b"\0\0\0\x02\x0a\x7f",
            b"\0\0\0\x07\x0a\x05ADDED",
            b"\0\0\0\x00",
            b"\xff\xff\xff\xff",
        ];
        for frame in frames {
            let names = names(&protobuf_server(200, vec![frame.to_vec()])).await;
            assert!(
                names.len() == 1 && names[0].starts_with("error "),
                "{frame:?} {names:?}"
            );
        }
        let refused = protobuf_server(403, vec![b"no".to_vec()]);
        let error = open(&refused, Request::default(), READ).await.err();
        assert!(matches!(error, Some(Error::Api(status)) if status.code == 403));
    }
}
