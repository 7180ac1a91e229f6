//! Decides which cloud serves a Service, by its load balancer class.
//!
//! - No class: the default cloud. Without a default cloud, only Services that we served before are
//!   ours, so that their load balancers can be removed.
//! - `bowline.dev/<cloud>`: that cloud. Some clouds have classes of their own.
//! - Any other class, also an empty one: another program. We never write such a Service, whatever its
//!   finalizers are.

use std::collections::BTreeMap;

use crate::{CLEANUP_FINALIZER, CLOUD_CONDITION, CloudName, Service, quote};

/// The annotation by which a person says which cloud serves a Service without a class.
pub const CLOUD: &str = "bowline.dev/cloud";
/// What a class of ours begins with; the name of a cloud follows.
pub const CLASS_PREFIX: &str = "bowline.dev/";

/// The clouds that have load balancers, in configured order; the first is the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadBalancerClasses {
    names: Vec<CloudName>,
    default: Option<CloudName>,
    /// The classes that clouds call their own, each with the first cloud that does.
    classes: BTreeMap<&'static str, CloudName>,
    /// What clouds were called before, each with its present name.
    former: BTreeMap<CloudName, CloudName>,
}

/// What is to be done about a Service, judged by itself alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Responsibility {
    /// It is to have a load balancer in that cloud.
    Ensure(CloudName),
    /// It waits until none of these clouds has a load balancer for it.
    CleanUp(Vec<CloudName>),
    /// It does not concern us.
    Nothing,
}

/// Why nobody serves a Service although people may think that we do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unserved {
    /// Its class names a cloud that is not configured, or that has no load balancers.
    UnknownCloud {
        /// What is no configured cloud.
        cloud: String,
        /// Whether it is to go and cannot, because of the finalizer.
        held: bool,
    },
    /// Its annotation [`CLOUD`] names a cloud that is not configured, or that has no load balancers.
    Misnamed {
        /// What is no configured cloud.
        cloud: String,
        /// Who serves it all the same: it has a load balancer already.
        served_by: Option<CloudName>,
    },
    /// It is to go and cannot because of the finalizer, no cloud is the default, and nothing says that it was ours.
    Held,
    /// It is no longer of type `LoadBalancer`, has the finalizer, and nothing says that we put it there.
    Unproven,
}

impl Unserved {
    /// What is wrong and the way out, in words.
    pub fn advice(&self, clouds: &[CloudName]) -> String {
        let way_out = format!(
            "or make sure that nothing is left of its load balancer, and remove the finalizer {CLEANUP_FINALIZER} by hand"
        );
        let names: Vec<&str> = clouds.iter().map(CloudName::as_str).collect();
        let there = match &names[..] {
            [] => "there is none".to_owned(),
            names => format!("there are {}", names.join(", ")),
        };
        match self {
            Self::Misnamed { cloud, served_by } => {
                let follows = match served_by {
                    Some(by) => format!("cloud {by} serves this Service as before"),
                    None => "this Service gets no load balancer until it is corrected".to_owned(),
                };
                format!(
                    "Annotation {CLOUD} names cloud {}, which is not configured or has no load balancers ({there}): \
                     {follows}",
                    quote(cloud)
                )
            }
            Self::UnknownCloud { cloud, held } => {
                let text = format!(
                    "Class {CLASS_PREFIX}{cloud} names a cloud that is not configured or has no load balancers \
                     ({there}): nobody serves this Service"
                );
                if *held {
                    format!(
                        "{text}, and it cannot be deleted. Configure cloud {cloud} again, {way_out}"
                    )
                } else {
                    text
                }
            }
            Self::Held => format!(
                "It cannot be deleted: it has no class, no cloud is the default, and nothing says that Bowline made its \
                 load balancer. If somebody else did, it waits for them. If a cloud of Bowline's did, make that cloud the \
                 default again (services.defaultCloud), {way_out}"
            ),
            Self::Unproven => format!(
                "The finalizer {CLEANUP_FINALIZER} stays: the Service is no longer of type LoadBalancer, and neither its \
                 conditions nor any configured cloud show that Bowline made a load balancer for it. If another controller \
                 did, it removes the finalizer when it runs. Otherwise make sure that nothing is left of the load \
                 balancer, and remove the finalizer by hand"
            ),
        }
    }
}

impl LoadBalancerClasses {
    /// These clouds; the first serves Services without a class.
    pub fn new(names: impl IntoIterator<Item = CloudName>) -> Self {
        let names: Vec<CloudName> = names.into_iter().collect();
        Self {
            default: names.first().cloned(),
            names,
            classes: BTreeMap::new(),
            former: BTreeMap::new(),
        }
    }

    /// The same, but that one serves Services without a class, or none.
    #[must_use]
    pub fn by_default(mut self, cloud: Option<CloudName>) -> Self {
        self.default = cloud.filter(|it| self.names.contains(it));
        self
    }

    /// The same, and these classes are that cloud's own, unless another has them already.
    #[must_use]
    pub fn with_classes(mut self, cloud: &CloudName, classes: &[&'static str]) -> Self {
        for class in classes {
            let owner = self.classes.entry(class);
            owner.or_insert_with(|| cloud.clone());
        }
        self
    }

    /// The same, and that cloud was called otherwise before: Services cannot change their class.
    #[must_use]
    pub fn formerly(mut self, before: &CloudName, now: &CloudName) -> Self {
        if self.names.contains(now) && !self.names.contains(before) {
            self.former.insert(before.clone(), now.clone());
        }
        self
    }

    /// All of them.
    pub fn all(&self) -> &[CloudName] {
        &self.names
    }

    /// What is to be done about that Service.
    pub fn responsibility(&self, service: &Service) -> Responsibility {
        if service.is_load_balancer {
            match self.of_service(service) {
                Some(cloud) if !service.deleting => Responsibility::Ensure(cloud.clone()),
                // Nothing of ours says where its load balancer is: it may be in any of them.
                Some(_) if service.has_finalizer() && self.is_anywhere(service) => {
                    Responsibility::CleanUp(self.names.clone())
                }
                Some(cloud) if service.has_finalizer() => {
                    Responsibility::CleanUp(vec![cloud.clone()])
                }
                // Which of them was the default is not known any more.
                None if is_held(service) && service.was_served_by_us() => {
                    Responsibility::CleanUp(self.names.clone())
                }
                _ => Responsibility::Nothing,
            }
        } else if service.has_finalizer() {
            // The API server forgets the class with the type: any of ours may have served it, or none, which only
            // the clouds can tell if nothing else does.
            Responsibility::CleanUp(self.names.clone())
        } else {
            Responsibility::Nothing
        }
    }

    /// Why nobody serves that Service, if that is to be reported.
    pub fn unserved(&self, service: &Service) -> Option<Unserved> {
        if !service.is_load_balancer || self.responsibility(service) != Responsibility::Nothing {
            return None;
        }
        let Some(class) = &service.class else {
            let held = is_held(service).then_some(Unserved::Held);
            return held.or_else(|| self.misnamed(service));
        };
        let unknown = self.of_class(class).is_none();
        let cloud = class.strip_prefix(CLASS_PREFIX).filter(|_| unknown)?;
        Some(Unserved::UnknownCloud {
            cloud: cloud.to_owned(),
            held: service.deleting && service.has_finalizer(),
        })
    }

    /// Whether a Service's annotation names a cloud that there is not.
    pub fn misnamed(&self, service: &Service) -> Option<Unserved> {
        let said = Self::said(service)?;
        let unknown = service.class.is_none() && self.named(Some(said)).is_none();
        unknown.then(|| Unserved::Misnamed {
            cloud: said.to_owned(),
            served_by: self.of_service(service).cloned(),
        })
    }

    /// The cloud that a person names.
    fn said(service: &Service) -> Option<&str> {
        let said = service.annotation(CLOUD).map(str::trim);
        said.filter(|it| !it.is_empty())
    }

    /// The cloud that serves a Service: by its class, or else by a person's word, by what is remembered, by default.
    fn of_service(&self, service: &Service) -> Option<&CloudName> {
        if let Some(class) = service.class.as_deref() {
            return self.of_class(class);
        }
        let said = Self::said(service);
        // Where a new one is wanted, a slip of the pen must not decide.
        let is_new = !service.has_finalizer() && service.ingress.is_empty();
        let default = self.default.as_ref().filter(|_| said.is_none() || !is_new);
        self.named(said)
            .or_else(|| self.recorded(service))
            .or(default)
    }

    /// The cloud of that name, or that had it before.
    fn named(&self, name: Option<&str>) -> Option<&CloudName> {
        let is_it = |cloud: &CloudName| Some(cloud.as_str()) == name;
        let mut former = self.former.iter();
        let present = self.names.iter().find(|cloud| is_it(cloud));
        present.or_else(|| Some(former.find(|(before, _)| is_it(before))?.1))
    }

    /// The cloud in which the Service's load balancer was found, as remembered in its status.
    pub fn recorded(&self, service: &Service) -> Option<&CloudName> {
        let mut records = service.conditions.iter();
        let record = records.find(|it| it.kind == CLOUD_CONDITION)?;
        self.named(Some(&record.message))
    }

    /// Whether nothing about the Service itself says which cloud it is.
    pub fn names_no_cloud(&self, service: &Service) -> bool {
        let said = self.named(Self::said(service));
        service.class.is_none() && said.is_none() && self.recorded(service).is_none()
    }

    fn is_anywhere(&self, service: &Service) -> bool {
        self.names_no_cloud(service) && !service.was_served_by_us()
    }

    fn of_class(&self, class: &str) -> Option<&CloudName> {
        if let Some(cloud) = self.classes.get(class) {
            return Some(cloud);
        }
        self.named(class.strip_prefix(CLASS_PREFIX))
    }
}

/// Whether it has no class, is to go, and cannot.
fn is_held(service: &Service) -> bool {
    service.class.is_none() && service.deleting && service.has_finalizer()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_balancer::service::examples::web;
    use crate::{Condition, READY_CONDITION};

    fn name(text: &str) -> CloudName {
        CloudName::parse(text).unwrap()
    }

    #[test]
    fn services_without_a_class_are_served_by_the_cloud_that_is_said_or_by_nobody() {
        let clouds = LoadBalancerClasses::new([name("east"), name("west")]);
        for (said, wanted) in [
            (Some("west"), Responsibility::Ensure(name("west"))),
            (Some("south"), Responsibility::Nothing),
            (None, Responsibility::Nothing),
        ] {
            let clouds = clouds.clone().by_default(said.map(name));
            assert_eq!(clouds.responsibility(&web()), wanted, "{said:?}");
        }
    }

    #[test]
    fn without_a_default_a_service_can_go_that_we_served_and_others_are_left_alone_and_told() {
        let (east, west) = (name("east"), name("west"));
        let clouds = LoadBalancerClasses::new([east.clone(), west.clone()]).by_default(None);
        let all = Responsibility::CleanUp(vec![east, west]);
        for (ours, deleting, finalizer, responsibility, unserved) in [
            (true, true, true, all, None),
            (true, false, true, Responsibility::Nothing, None),
            (true, true, false, Responsibility::Nothing, None),
            (
                false,
                true,
                true,
                Responsibility::Nothing,
                Some(Unserved::Held),
            ),
            (false, false, true, Responsibility::Nothing, None),
        ] {
            let mut service = web();
            service.deleting = deleting;
            if finalizer {
                service.finalizers = vec![CLEANUP_FINALIZER.into()];
            }
            if ours {
                service.conditions = vec![Condition {
                    kind: READY_CONDITION.into(),
                    status: "True".into(),
                    reason: "Ready".into(),
                    message: String::new(),
                }];
            }
            let case = format!("{ours} {deleting} {finalizer}");
            assert_eq!(clouds.responsibility(&service), responsibility, "{case}");
            assert_eq!(clouds.unserved(&service), unserved, "{case}");
            // A class of somebody else's changes that.
            service.class = Some("vendor.test/lb".into());
            assert_eq!(
                clouds.responsibility(&service),
                Responsibility::Nothing,
                "{case}"
            );
            assert_eq!(clouds.unserved(&service), None, "{case}");
        }
    }

    #[test]
    fn a_class_of_a_cloud_that_is_not_there_is_told_with_the_way_out() {
        let clouds = LoadBalancerClasses::new([name("east")]);
        let mut service = web();
        service.class = Some("bowline.dev/gone".into());
        let unserved = |service: &Service| {
            assert_eq!(clouds.responsibility(service), Responsibility::Nothing);
            clouds.unserved(service).unwrap().advice(clouds.all())
        };
        let text = unserved(&service);
        assert!(
            text.contains("bowline.dev/gone") && text.contains("there are east"),
            "{text}"
        );
        assert!(!text.contains("finalizer"), "{text}");
        service.finalizers = vec![CLEANUP_FINALIZER.into()];
        service.deleting = true;
        let text = unserved(&service);
        assert!(text.contains("Configure cloud gone again"), "{text}");
        assert!(text.contains(CLEANUP_FINALIZER), "{text}");
        service.class = Some("bowline.dev/east".into());
        assert_eq!(clouds.unserved(&service), None);
    }

    #[test]
    fn an_annotation_that_names_no_cloud_makes_nothing_new_and_changes_nothing() {
        let clouds = LoadBalancerClasses::new([name("east"), name("west")]);
        let mut service = web();
        let naming = |cloud: &str| Some([(CLOUD.to_owned(), cloud.to_owned())].into());
        service.annotations = naming("wset");
        let advice = |service: &Service| {
            let unserved = clouds.misnamed(service);
            unserved.map(|it| it.advice(clouds.all()))
        };
        assert_eq!(clouds.responsibility(&service), Responsibility::Nothing);
        assert_eq!(clouds.unserved(&service), clouds.misnamed(&service));
        let text = advice(&service).unwrap();
        assert!(
            text.contains("\"wset\"") && text.contains("there are east, west"),
            "{text}"
        );
        assert!(text.ends_with("until it is corrected"), "{text}");
        service.finalizers = vec![CLEANUP_FINALIZER.into()];
        assert_eq!(
            clouds.responsibility(&service),
            Responsibility::Ensure(name("east"))
        );
        let text = advice(&service).unwrap();
        assert!(
            text.ends_with("cloud east serves this Service as before"),
            "{text}"
        );
        for good in ["west", " west ", ""] {
            service.annotations = naming(good);
            assert_eq!(advice(&service), None, "{good:?}");
        }
    }

    #[test]
    fn what_is_recorded_under_a_former_name_is_found() {
        let clouds = LoadBalancerClasses::new([name("east"), name("zurich")]);
        let clouds = clouds.formerly(&name("prod"), &name("zurich"));
        let mut service = web();
        service.conditions = vec![Condition {
            kind: CLOUD_CONDITION.into(),
            status: "True".into(),
            reason: "Found".into(),
            message: "prod".into(),
        }];
        assert_eq!(
            clouds.responsibility(&service),
            Responsibility::Ensure(name("zurich"))
        );
        assert_eq!(clouds.recorded(&service), Some(&name("zurich")));
    }

    #[test]
    fn the_class_says_which_cloud_serves_a_service() {
        let clouds = LoadBalancerClasses::new([name("east"), name("west")]);
        for (class, cloud) in [
            (None, Some("east")),
            (Some("bowline.dev/east"), Some("east")),
            (Some("bowline.dev/west"), Some("west")),
            (Some("bowline.dev/south"), None),
            (Some("bowline.dev/"), None),
            (Some("vendor.test/lb"), None),
            (Some("west"), None),
            (Some(""), None),
        ] {
            let mut service = web();
            service.class = class.map(str::to_owned);
            let wanted = cloud.map_or(Responsibility::Nothing, |it| {
                Responsibility::Ensure(name(it))
            });
            assert_eq!(clouds.responsibility(&service), wanted, "{class:?}");
            // A foreign class is left alone in every state.
            service.finalizers = vec![CLEANUP_FINALIZER.into()];
            service.deleting = true;
            let wanted = cloud.map_or(Responsibility::Nothing, |it| match class {
                // Whose it was before us is not known.
                None => Responsibility::CleanUp(clouds.all().to_vec()),
                Some(_) => Responsibility::CleanUp(vec![name(it)]),
            });
            assert_eq!(
                clouds.responsibility(&service),
                wanted,
                "{class:?}, deleting"
            );
        }
        assert_eq!(
            LoadBalancerClasses::default().responsibility(&web()),
            Responsibility::Nothing
        );
    }

    fn condition(kind: &str, message: &str) -> Condition {
        Condition {
            kind: kind.into(),
            status: "True".into(),
            reason: "R".into(),
            message: message.into(),
        }
    }

    #[test]
    fn proof_case_31_a_service_stays_where_it_was_found_until_a_person_moves_it() {
        let clouds = LoadBalancerClasses::new([name("east"), name("west"), name("south")]);
        for (recorded, said, class, cloud) in [
            (None, None, None, "east"),
            (Some("west"), None, None, "west"),
            (Some("gone"), None, None, "east"),
            (Some("west"), Some("south"), None, "south"),
            (Some("west"), Some("nowhere"), None, "west"),
            (Some("west"), Some("east"), None, "east"),
            (
                Some("west"),
                Some("east"),
                Some("bowline.dev/south"),
                "south",
            ),
        ] {
            let mut service = web();
            service.class = class.map(str::to_owned);
            let record = recorded.map(|it| condition(CLOUD_CONDITION, it));
            service.conditions = record.into_iter().collect();
            service.annotations = said.map(|it: &str| [(CLOUD.to_owned(), it.to_owned())].into());
            let text = format!("{recorded:?} {said:?} {class:?}");
            assert_eq!(
                clouds.responsibility(&service),
                Responsibility::Ensure(name(cloud)),
                "{text}"
            );
            assert_eq!(
                clouds.names_no_cloud(&service),
                cloud == "east" && said.is_none(),
                "{text}"
            );
        }
        // What we served goes where it was; what we never saw is looked for everywhere.
        let mut service = web();
        service.deleting = true;
        service.finalizers = vec![CLEANUP_FINALIZER.into()];
        assert_eq!(
            clouds.responsibility(&service),
            Responsibility::CleanUp(clouds.all().to_vec())
        );
        service.conditions = vec![condition(READY_CONDITION, "")];
        assert_eq!(
            clouds.responsibility(&service),
            Responsibility::CleanUp(vec![name("east")])
        );
        service.conditions.push(condition(CLOUD_CONDITION, "west"));
        assert_eq!(
            clouds.responsibility(&service),
            Responsibility::CleanUp(vec![name("west")])
        );
    }

    #[test]
    fn only_the_finalizer_asks_for_a_clean_up() {
        let clouds = LoadBalancerClasses::new([name("east"), name("west")]);
        for (is_load_balancer, deleting, finalizer, wanted) in [
            (false, false, false, Responsibility::Nothing),
            (false, true, false, Responsibility::Nothing),
            (true, true, false, Responsibility::Nothing),
            (true, false, true, Responsibility::Ensure(name("east"))),
            (
                true,
                true,
                true,
                Responsibility::CleanUp(vec![name("east"), name("west")]),
            ),
            (
                false,
                false,
                true,
                Responsibility::CleanUp(vec![name("east"), name("west")]),
            ),
        ] {
            let mut service = web();
            service.is_load_balancer = is_load_balancer;
            service.deleting = deleting;
            if finalizer {
                service.finalizers = vec!["x.io/other".into(), CLEANUP_FINALIZER.into()];
            }
            assert_eq!(clouds.responsibility(&service), wanted);
        }
    }

    #[test]
    fn a_class_that_is_a_cloud_s_own_is_the_first_such_cloud_s() {
        let (east, west) = (name("east"), name("west"));
        let clouds = LoadBalancerClasses::new([name("north"), east.clone(), west.clone()])
            .with_classes(&east, &["vendor.test/small"])
            .with_classes(&west, &["vendor.test/small", "vendor.test/big"]);
        for (class, cloud) in [
            ("vendor.test/small", Some(east.clone())),
            ("vendor.test/big", Some(west)),
            ("vendor.test/other", None),
            ("bowline.dev/east", Some(east)),
        ] {
            let mut service = web();
            service.class = Some(class.to_owned());
            let wanted = cloud.map_or(Responsibility::Nothing, Responsibility::Ensure);
            assert_eq!(clouds.responsibility(&service), wanted, "{class}");
        }
    }
}
