//! The client-side limit of requests.

use std::num::NonZeroU32;
use std::time::Duration;

use bowline_http::Bucket;

use super::Limits;

/// What a client gets that asks for 0 requests per second: the originals' library default.
const DEFAULT: Limits = Limits {
    qps: 5.0,
    burst: 10,
};

/// The bucket of these limits; none for no limit.
pub(super) fn bucket(limits: Limits) -> Option<Bucket> {
    if limits.qps < 0.0 || limits.qps.is_infinite() {
        return None;
    }
    let limits = if limits.qps == 0.0 { DEFAULT } else { limits };
    let period = Duration::try_from_secs_f64(1.0 / f64::from(limits.qps)).ok()?;
    let burst = u32::try_from(limits.burst).ok().and_then(NonZeroU32::new)?;
    Bucket::new(period, burst)
}
