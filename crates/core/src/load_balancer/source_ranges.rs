//! The source ranges from which a load balancer may be reached.

use std::collections::BTreeSet;

use ipnet::IpNet;

use crate::{Origin, Service, SettingError};

/// The older way to say it, comma separated; the field of the spec comes first.
pub const SOURCE_RANGES_ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

/// The networks that may reach the load balancer: of the spec, else of the annotation, else all
/// of IPv4. Each once, by its network address.
pub fn source_ranges(service: &Service) -> Result<BTreeSet<IpNet>, SettingError> {
    let annotation = service.annotation(SOURCE_RANGES_ANNOTATION);
    if !service.source_ranges.is_empty() {
        let origin = Origin::Config("spec.loadBalancerSourceRanges".into());
        return parse(service.source_ranges.iter().map(String::as_str), &origin);
    }
    match annotation.map(str::trim).filter(|it| !it.is_empty()) {
        Some(text) => parse(
            text.split(','),
            &Origin::Annotation(SOURCE_RANGES_ANNOTATION.into()),
        ),
        None => Ok(everywhere().into_iter().collect()),
    }
}

/// Whether these networks let everybody in; all of IPv6 does not count, as in the framework.
pub fn allows_all(ranges: &BTreeSet<IpNet>) -> bool {
    everywhere().is_some_and(|all| ranges.contains(&all))
}

fn everywhere() -> Option<IpNet> {
    "0.0.0.0/0".parse().ok()
}

fn parse<'a>(
    texts: impl IntoIterator<Item = &'a str>,
    origin: &Origin,
) -> Result<BTreeSet<IpNet>, SettingError> {
    texts
        .into_iter()
        .map(|text| {
            let network: Result<IpNet, _> = text.trim().parse();
            network.map(|it| it.trunc()).map_err(|_| SettingError {
                origin: origin.clone(),
                value: text.to_owned(),
                allowed: "a network such as 192.0.2.0/24".into(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_balancer::service::examples::web;

    fn ranges(spec: &[&str], annotation: Option<&str>) -> Result<Vec<String>, String> {
        let mut service = web();
        service.source_ranges = spec.iter().map(|&it| it.to_owned()).collect();
        service.annotations =
            annotation.map(|text| [(SOURCE_RANGES_ANNOTATION.to_owned(), text.to_owned())].into());
        match source_ranges(&service) {
            Ok(ranges) => Ok(ranges.iter().map(ToString::to_string).collect()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn framework_case_092_source_ranges_are_networks_each_once() {
        let text = |list: &[&str]| Ok(list.iter().map(|&it| it.to_owned()).collect());
        for (spec, annotation, wanted) in [
            (&[][..], None, text(&["0.0.0.0/0"])),
            (&[], Some(""), text(&["0.0.0.0/0"])),
            (&[], Some(" "), text(&["0.0.0.0/0"])),
            (
                &[],
                Some("192.168.0.1/32,192.168.0.1/32"),
                text(&["192.168.0.1/32"]),
            ),
            (
                &[],
                Some(" 192.168.0.1/24 , 2001:db8::1/64 "),
                text(&["192.168.0.0/24", "2001:db8::/64"]),
            ),
            (&["192.168.0.0/0"], None, text(&["0.0.0.0/0"])),
            (&["10.0.0.0/8"], Some("192.0.2.0/24"), text(&["10.0.0.0/8"])),
        ] {
            assert_eq!(ranges(spec, annotation), wanted, "{spec:?} {annotation:?}");
        }
        for wrong in ["10.0.0.1/33", "10.0.0.1", "10.0.0.1/32,", "10.0.0.256/32"] {
            let reported = ranges(&[], Some(wrong)).unwrap_err();
            assert!(reported.contains(SOURCE_RANGES_ANNOTATION), "{reported}");
            let reported = ranges(&[wrong], None).unwrap_err();
            assert!(
                reported.contains("spec.loadBalancerSourceRanges"),
                "{reported}"
            );
        }
    }

    #[test]
    fn only_all_of_ipv4_lets_everybody_in() {
        for (annotation, all) in [
            ("0.0.0.0/0", true),
            ("192.168.0.0/0", true),
            ("::/0", false),
            ("192.168.0.0/1", false),
        ] {
            let service = Service {
                annotations: Some(
                    [(SOURCE_RANGES_ANNOTATION.to_owned(), annotation.to_owned())].into(),
                ),
                ..web()
            };
            assert_eq!(allows_all(&source_ranges(&service).unwrap()), all);
        }
    }
}
