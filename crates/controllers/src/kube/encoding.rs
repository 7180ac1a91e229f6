//! How answers are encoded: in protobuf where that was asked for and the server has it, otherwise in JSON.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::client::{Body, Client};
use kube::core::Status;
use kube::{Error, Result};

use super::objects::protobuf;

/// An object, in either encoding.
pub(crate) const EITHER: &str = "application/vnd.kubernetes.protobuf, application/json";
/// The metadata of an object, in either encoding.
pub(crate) const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, \
                                   application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Protobuf,
}

impl Encoding {
    fn of(headers: &HeaderMap) -> Self {
        let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        if kind.is_some_and(|kind| kind.starts_with(protobuf::MEDIA_TYPE.as_bytes())) {
            Self::Protobuf
        } else {
            Self::Json
        }
    }
}

/// Sends a request that accepts only that, if it says so. A refusal is an error.
pub(crate) async fn send(
    client: &Client,
    mut request: Request<Vec<u8>>,
    accept: Option<&'static str>,
) -> Result<(Body, Encoding)> {
    if let Some(accept) = accept {
        let accept = HeaderValue::from_static(accept);
        request.headers_mut().insert(ACCEPT, accept);
    }
    let response = client.send(request.map(Body::from)).await?;
    if !response.status().is_success() {
        return Err(refusal(response).await?);
    }
    let encoding = Encoding::of(response.headers());
    Ok((response.into_body(), encoding))
}

/// All of a body.
pub(crate) async fn whole(body: Body) -> Result<Bytes> {
    Ok(body.collect().await?.to_bytes())
}

/// What the server says instead of an answer.
async fn refusal(response: Response<Body>) -> Result<Error> {
    let code = response.status().as_u16();
    let encoding = Encoding::of(response.headers());
    let body = whole(response.into_body()).await?;
    let status = match encoding {
        Encoding::Protobuf => protobuf::opened(&body).and_then(protobuf::status).ok(),
        Encoding::Json => serde_json::from_slice::<Status>(&body).ok(),
    };
    let status = status.unwrap_or_else(|| {
        let text = String::from_utf8_lossy(&body);
        Status::failure(text.trim(), "Failed to parse error data").with_code(code)
    });
    Ok(Error::Api(status.boxed()))
}
