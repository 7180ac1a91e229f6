//! What Services may ask of load balancer machines: they cost money, and an image runs code of its
//! owner's. Pure.

use bowline_core::Problem;

use crate::balancer::settings::{ClbSettings, table};
use crate::config::LoadBalancerConfig;

const NOT_ALLOWED: &str = "NotAllowed";

/// What a Service asks for that its operator does not allow.
pub(super) fn excess(clb: &ClbSettings, config: &LoadBalancerConfig) -> Option<Problem> {
    let image = clb.image.as_ref().filter(|it| **it != config.clb_image);
    let image = image.filter(|it| !config.allowed_images.contains(it));
    if let Some(image) = image {
        return Some(refused(table::IMAGE.key, image, "allowedImages"));
    }
    let package = clb.package.as_ref();
    let package = package.filter(|it| Some(*it) != config.clb_package.as_ref());
    let package = package.filter(|it| !config.allowed_packages.contains(it));
    if let Some(package) = package {
        return Some(refused(table::PACKAGE.key, package, "allowedPackages"));
    }
    let replicas = clb.replicas.filter(|it| *it > config.max_replicas)?;
    Some(Problem {
        reason: NOT_ALLOWED,
        message: format!(
            "annotation {}: {replicas} is more than the operator allows ({}, setting loadBalancer.maxReplicas)",
            table::REPLICAS.key,
            config.max_replicas
        ),
    })
}

fn refused(annotation: &str, value: &str, setting: &str) -> Problem {
    Problem {
        reason: NOT_ALLOWED,
        message: format!(
            "annotation {annotation}: {value:?} is not among what the operator allows (setting \
             loadBalancer.{setting})"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::config;

    #[test]
    fn a_service_gets_what_is_configured_or_allowed_and_nothing_else() {
        let mut config = config(&[], None).load_balancer;
        config.clb_package = Some("small".into());
        config.allowed_images = vec!["ours".into()];
        config.allowed_packages = vec!["large".into()];
        config.max_replicas = 2;
        for (image, package, replicas, named) in [
            (None, None, None, None),
            (Some("cloud-load-balancer"), Some("small"), Some(2), None),
            (Some("ours"), Some("large"), Some(1), None),
            (Some("theirs"), None, None, Some("allowedImages")),
            (None, Some("huge"), None, Some("allowedPackages")),
            (None, None, Some(3), Some("maxReplicas")),
        ] {
            let clb = ClbSettings {
                image: image.map(str::to_owned),
                package: package.map(str::to_owned),
                replicas,
                ..ClbSettings::default()
            };
            let problem = excess(&clb, &config).map(|it| it.message);
            let fits = match (&problem, named) {
                (Some(message), Some(named)) => message.contains(named),
                (None, None) => true,
                _ => false,
            };
            assert!(fits, "{image:?} {package:?} {replicas:?}: {problem:?}");
        }
    }
}
