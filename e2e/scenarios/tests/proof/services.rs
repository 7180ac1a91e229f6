//! Services in the small: order, pace and what is reported.
