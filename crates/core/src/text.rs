//! Texts for people and from people: quoting, durations, secrets, settings.

pub(crate) mod duration;
pub(crate) mod quote;
pub(crate) mod secret;
pub(crate) mod setting;
pub(crate) mod string_map;
pub(crate) mod suggestion;
pub(crate) mod variable;
