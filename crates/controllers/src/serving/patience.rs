//! Time limits of each phase of a connection.
//!
//! ```text
//! handshake ─▶ silent ─▶ head ─▶ answering ─▶ idle ─▶ head …      HTTP/1.1
//!   10 s        10 s     10 s      60 s        60 s
//! handshake ─▶ silent ─▶ idle ◀─▶ answering                       HTTP/2
//! ```
//!
//! A limit counts from the beginning of a phase, not from the last byte: slow senders gain no time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// For the TLS handshake, then for the first byte of a request, then for the rest of its head.
const STEP_LIMIT: Duration = Duration::from_secs(10);
/// For an answer that its caller does not fetch, a kept-alive connection without a request, and HTTP/2 without
/// streams. Scrapers ask every 30 seconds or so, and keep their connection.
const REST_LIMIT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Handshake,
    Silent,
    Head,
    Answering,
    Idle,
}

/// Where a connection is, and since when.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestProgress {
    phase: Phase,
    since: Instant,
    http2: bool,
    /// Requests whose answers are not out yet.
    open: usize,
    finished: bool,
    evicted: bool,
}

/// What counts when somebody has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionState {
    /// No request of it was ever finished.
    Unfinished,
    /// One was, and nothing has happened since then, or something is going on since then.
    Served { busy: bool, since: Instant },
}

impl RequestProgress {
    pub(super) fn accepted(now: Instant) -> Self {
        Self {
            phase: Phase::Handshake,
            since: now,
            http2: false,
            open: 0,
            finished: false,
            evicted: false,
        }
    }

    fn enter(&mut self, phase: Phase, now: Instant) -> bool {
        (self.phase, self.since) = (phase, now);
        true
    }

    /// TLS is agreed upon.
    fn shaken(&mut self, http2: bool, now: Instant) -> bool {
        self.http2 = http2;
        self.enter(Phase::Silent, now)
    }

    /// Bytes have come. Those of HTTP/2 are no request before it is whole: pings buy no time, either.
    fn heard(&mut self, now: Instant) -> bool {
        match (self.phase, self.http2) {
            (Phase::Silent | Phase::Idle, false) => self.enter(Phase::Head, now),
            (Phase::Silent, true) => self.enter(Phase::Idle, now),
            _ => false,
        }
    }

    fn asked(&mut self, now: Instant) -> bool {
        self.open += 1;
        self.enter(Phase::Answering, now)
    }

    fn answered(&mut self, now: Instant) -> bool {
        self.open = self.open.saturating_sub(1);
        self.finished = true;
        let phase = if self.open == 0 {
            Phase::Idle
        } else {
            Phase::Answering
        };
        self.enter(phase, now)
    }

    /// When it is closed if nothing happens before.
    fn deadline(&self) -> Instant {
        match self.phase {
            _ if self.evicted => self.since,
            Phase::Handshake | Phase::Silent | Phase::Head => self.since + STEP_LIMIT,
            Phase::Answering | Phase::Idle => self.since + REST_LIMIT,
        }
    }

    pub(super) fn standing(&self) -> ConnectionState {
        if self.finished {
            ConnectionState::Served {
                busy: self.open > 0,
                since: self.since,
            }
        } else {
            ConnectionState::Unfinished
        }
    }
}

/// The progress of one connection, shared by all who make it.
#[derive(Clone)]
pub(super) struct Tracker(Arc<watch::Sender<RequestProgress>>);

impl Tracker {
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(RequestProgress::accepted(
            Instant::now(),
        ))))
    }

    pub(super) fn standing(&self) -> ConnectionState {
        self.0.borrow().standing()
    }

    pub(super) fn shaken(&self, http2: bool) {
        self.note(|progress, now| progress.shaken(http2, now));
    }

    /// Somebody else needs its place.
    pub(super) fn evict(&self) {
        self.note(|progress, _| {
            progress.evicted = true;
            true
        });
    }

    /// A request has come; it ends with what is returned.
    pub(super) fn asked(&self) -> Open {
        self.note(RequestProgress::asked);
        Open(self.clone())
    }

    fn note(&self, change: impl FnOnce(&mut RequestProgress, Instant) -> bool) {
        let now = Instant::now();
        self.0.send_if_modified(|progress| change(progress, now));
    }

    /// Done when the connection has taken too long, or has to go.
    pub(super) async fn overdue(&self) {
        let mut progress = self.0.subscribe();
        loop {
            let deadline = progress.borrow_and_update().deadline();
            tokio::select! {
                biased;
                _ = progress.changed() => {}
                () = sleep_until(deadline) => return,
            }
        }
    }

    /// The stream, which notes when something comes.
    pub(super) fn listen<S>(&self, stream: S) -> Listening<S> {
        Listening {
            stream,
            tracker: self.clone(),
        }
    }
}

/// A request that is not answered yet.
pub(super) struct Open(Tracker);

impl Open {
    /// The body that ends the request when it is sent, or nobody wants it any more.
    pub(super) fn until_sent(self, body: Full<Bytes>) -> Sending {
        Sending { body, _open: self }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.note(RequestProgress::answered);
    }
}

/// The body of an answer.
pub(super) struct Sending {
    body: Full<Bytes>,
    _open: Open,
}

impl http_body::Body for Sending {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

/// A stream that notes when something comes.
pub(super) struct Listening<S> {
    stream: S,
    tracker: Tracker,
}

impl<S: AsyncRead + Unpin> AsyncRead for Listening<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.tracker.note(RequestProgress::heard);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Listening<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Step = fn(&mut RequestProgress, Instant) -> bool;
    const H1: Step = |progress, now| progress.shaken(false, now);
    const H2: Step = |progress, now| progress.shaken(true, now);

    #[test]
    fn each_phase_has_its_time_from_its_beginning() {
        use RequestProgress as P;
        // Each step comes two seconds after the one before; seconds from the last step that counted.
        for (steps, counted, limit, finished) in [
            (&[] as &[Step], 0, 10, false),
            (&[H1], 1, 10, false),
            (&[H1, P::heard], 2, 10, false),
            (&[H1, P::heard, P::heard, P::heard], 2, 10, false),
            (&[H1, P::heard, P::asked], 3, 60, false),
            (&[H1, P::heard, P::asked, P::heard], 3, 60, false),
            (&[H1, P::heard, P::asked, P::answered], 4, 60, true),
            (
                &[H1, P::heard, P::asked, P::answered, P::heard],
                5,
                10,
                true,
            ),
            (&[H2], 1, 10, false),
            (&[H2, P::heard], 2, 60, false),
            (&[H2, P::heard, P::heard, P::heard], 2, 60, false),
            (
                &[H2, P::heard, P::asked, P::asked, P::answered],
                5,
                60,
                true,
            ),
            (
                &[H2, P::heard, P::asked, P::answered, P::heard],
                4,
                60,
                true,
            ),
        ] {
            let start = Instant::now();
            let mut progress = RequestProgress::accepted(start);
            let mut now = start;
            for step in steps {
                now += Duration::from_secs(2);
                step(&mut progress, now);
            }
            let case = format!("{} steps, {counted} {limit}", steps.len());
            let expected = start + Duration::from_secs(2 * counted + limit);
            assert_eq!(progress.deadline(), expected, "{case}");
            assert_eq!(
                progress.standing() != ConnectionState::Unfinished,
                finished,
                "{case}"
            );
            progress.evicted = true;
            assert!(progress.deadline() <= now, "{case}: at once");
        }
    }
}
