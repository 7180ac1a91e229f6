//! Annotations of Services, as far as all clouds read them alike.

use crate::{Notice, Service, nearest};

/// The id of a load balancer that a person says is this Service's; the same in every cloud.
pub const TAKE_OVER: &str = "bowline.dev/take-over";

/// What there is to say about annotations that begin with `prefix` and are none of `known`.
pub fn unknown_annotations(service: &Service, prefix: &str, known: &[&'static str]) -> Vec<Notice> {
    let keys = service.annotations.iter().flat_map(|map| map.keys());
    keys.filter(|key| key.starts_with(prefix) && !known.contains(&key.as_str()))
        .map(|key| {
            let hint = match nearest(key, known.iter().copied()) {
                Some(near) => format!("; did you mean {near}?"),
                None => String::new(),
            };
            Notice {
                warning: true,
                reason: "UnknownAnnotation",
                message: format!("annotation {key} is not known and does nothing{hint}"),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_balancer::service::examples::web;

    #[test]
    fn a_misspelled_key_is_told_with_what_was_meant() {
        let mut service = web();
        let keys = [
            "x.test/lb-nmae",
            "x.test/entirely-different",
            "x.test/lb-name",
            "y.test/a",
        ];
        let map = keys.iter().map(|key| ((*key).into(), String::new()));
        service.annotations = Some(map.collect());
        let notices = unknown_annotations(&service, "x.test/", &["x.test/lb-name", "x.test/lb-id"]);
        let texts: Vec<&str> = notices.iter().map(|it| it.message.as_str()).collect();
        assert_eq!(
            texts,
            [
                "annotation x.test/entirely-different is not known and does nothing",
                "annotation x.test/lb-nmae is not known and does nothing; did you mean \
                 x.test/lb-name?",
            ]
        );
    }
}
