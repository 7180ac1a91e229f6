//! An answer that does not end by itself: read piece by piece, for as long as somebody wants to.

use std::time::Duration;

use bowline_core::error_chain;
use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use thiserror::Error;
use tokio::time::timeout;

use crate::reply::Subject;

/// Why there is no further piece.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ResponseStreamError {
    /// The server ended it.
    #[error("{call} ended")]
    Ended {
        /// What was asked.
        call: String,
    },
    /// The connection broke.
    #[error("{call} broke off: {reason}")]
    Broken {
        /// What was asked.
        call: String,
        /// Why.
        reason: String,
    },
    /// Nothing came for too long.
    #[error("{call} has been silent for {} s", after.as_secs_f64())]
    Silent {
        /// What was asked.
        call: String,
        /// The limit.
        after: Duration,
    },
}

/// An answer of the 200s that is still coming. Dropping it closes its connection.
pub struct ResponseStream {
    subject: Subject,
    content_type: String,
    body: Incoming,
}

impl ResponseStream {
    pub(crate) fn new(response: Response<Incoming>, subject: Subject) -> Self {
        let content_type = response.headers().get(http::header::CONTENT_TYPE);
        let content_type = content_type.and_then(|it| it.to_str().ok());
        Self {
            subject,
            content_type: content_type.unwrap_or_default().to_owned(),
            body: response.into_body(),
        }
    }

    /// What it is, as the server says.
    pub fn content_type(&self) -> &str {
        &self.content_type
    }

    /// The next piece, as it came. Waits no longer than `patience`.
    pub async fn next(&mut self, patience: Duration) -> Result<Bytes, ResponseStreamError> {
        let call = || self.subject.says("").trim_end().to_owned();
        loop {
            let Ok(frame) = timeout(patience, self.body.frame()).await else {
                return Err(ResponseStreamError::Silent {
                    call: call(),
                    after: patience,
                });
            };
            match frame {
                None => return Err(ResponseStreamError::Ended { call: call() }),
                Some(Err(error)) => {
                    let reason = self.subject.redactor.text(&error_chain(&error));
                    return Err(ResponseStreamError::Broken {
                        call: call(),
                        reason,
                    });
                }
                Some(Ok(frame)) => {
                    // Trailers carry nothing that is wanted here.
                    if let Ok(piece) = frame.into_data() {
                        return Ok(piece);
                    }
                }
            }
        }
    }
}

impl std::fmt::Debug for ResponseStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseStream")
            .field("of", &self.subject.says(""))
            .finish_non_exhaustive()
    }
}
