//! Bodies of answers.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{Stream, StreamExt};
use http::{Response, StatusCode, header};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt, Empty, Full, StreamBody};

use super::Body;

/// A body that is there at once.
pub fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(never).boxed_unsync()
}

/// No body.
pub fn empty() -> Body {
    Empty::new().map_err(never).boxed_unsync()
}

/// A body that comes piece by piece (watches).
pub fn streamed(pieces: impl Stream<Item = Bytes> + Send + 'static) -> Body {
    StreamBody::new(pieces.map(|piece| Ok::<_, io::Error>(Frame::data(piece)))).boxed_unsync()
}

/// The error that a body from memory does not have.
fn never(never: Infallible) -> io::Error {
    match never {}
}

/// A JSON answer.
pub fn json(status: StatusCode, value: &serde_json::Value) -> Response<Body> {
    of_type(status, "application/json", value.to_string())
}

/// An answer in plain text.
pub fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    of_type(status, "text/plain; charset=utf-8", text)
}

/// An answer of that type.
pub fn of_type(status: StatusCode, kind: &'static str, bytes: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(whole(bytes));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// How a stream ends before its API ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Properly: the server shuts down.
    Finished,
    /// In the middle: the connection is cut.
    Cut,
}

/// A body on its way out, which may be ended early.
pub(super) struct Served {
    inner: Body,
    end: Option<BoxFuture<'static, End>>,
}

impl Served {
    /// A body that is sent as it is.
    pub(super) fn untouched(inner: Body) -> Self {
        Self { inner, end: None }
    }

    /// A stream that ends when `end` says so.
    pub(super) fn until(inner: Body, end: BoxFuture<'static, End>) -> Self {
        let end = Some(end);
        Self { inner, end }
    }
}

impl http_body::Body for Served {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Some(end) = &mut self.end
            && let Poll::Ready(how) = end.as_mut().poll(context)
        {
            self.end = None;
            self.inner = empty();
            return Poll::Ready(match how {
                End::Finished => None,
                End::Cut => Some(Err(io::ErrorKind::ConnectionReset.into())),
            });
        }
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
