//! How Bowline speaks to a cloud over HTTP: sign, limit, retry, page, poll, redact.

mod clock;
mod pipe;
mod random;

pub use clock::Clock;
pub use pipe::{PipeListener, Pipes};
pub use random::Random;
