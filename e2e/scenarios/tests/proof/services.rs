//! Services in the small: order, pace and what is reported. They have no numbers; the scenarios are beside their kin:
//! `tests/services` (back-off after progress, `NoTargets`, several at once, targets of deleted nodes first, change events)
//! and `tests/cloudscale/services` (exchanged port names, another traffic policy, restored right after the deletion).
