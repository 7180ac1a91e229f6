//! What most things of the API have in common: a project keeps them in a collection, finds them by
//! id, shows them, and changes one attribute at a time.

use std::marker::PhantomData;

use serde_json::Value;

use super::balancers::{Balancer, Listener, Monitor, Pool};
use super::fields::Fields;
use super::kinds::Kind;
use super::model::{Cloud, Collection, FloatingIp, Group, Network, Project, Subnet};
use super::refusals::{OrRefusal, Refusal};
use super::render::View;

/// Something that a project keeps in a collection of its own.
pub(super) trait Kept: Sized {
    /// Where a project keeps such things.
    fn kept(project: &Project) -> &Collection<Self>;

    /// The same, to be changed.
    fn kept_mut(project: &mut Project) -> &mut Collection<Self>;

    /// By what it is found.
    fn id(&self) -> String;

    /// As the API shows it.
    fn show(&self, view: &View<'_>) -> Value;

    /// The one of that id, to be changed.
    fn find<'a>(project: &'a mut Project, id: &str) -> OrRefusal<&'a mut Self> {
        let found = Self::kept_mut(project).get_mut(id);
        found.ok_or_else(Refusal::not_found)
    }

    /// Takes out the one of that id.
    fn take(cloud: &mut Cloud, project: &str, id: &str) -> OrRefusal<Self> {
        let taken = Self::kept_mut(owner(cloud, project)?).remove(id);
        taken.ok_or_else(Refusal::not_found)
    }
}

/// Says of each kind in which collection it is kept, and by what it is shown; it is found by its
/// uuid.
macro_rules! kept {
    ($($kind:ty: $collection:ident, $shown:ident;)*) => {$(
        impl Kept for $kind {
            fn kept(project: &Project) -> &Collection<Self> {
                &project.$collection
            }

            fn kept_mut(project: &mut Project) -> &mut Collection<Self> {
                &mut project.$collection
            }

            fn id(&self) -> String {
                self.uuid.clone()
            }

            fn show(&self, view: &View<'_>) -> Value {
                view.$shown(self)
            }
        }
    )*};
}

kept! {
    Network: networks, network;
    Subnet: subnets, subnet;
    Group: groups, group;
    Balancer: balancers, balancer;
    Pool: pools, pool;
    Listener: listeners, listener;
    Monitor: monitors, monitor;
}

/// Something of which one attribute at a time can be changed.
pub(super) trait Patchable: Kept {
    /// What a PATCH may change.
    const CHANGEABLE: &'static [&'static str];

    /// Gives one attribute the value that the request has for it.
    fn set(&mut self, attribute: &str, fields: &Fields) -> OrRefusal;

    /// Carries out a PATCH, and says whether there was anything to change.
    fn change(cloud: &mut Cloud, project: &str, id: &str, fields: &Fields) -> OrRefusal<bool> {
        let thing = Self::find(owner(cloud, project)?, id)?;
        let Some(attribute) = fields.only(Self::CHANGEABLE)? else {
            return Ok(false);
        };
        thing.set(attribute, fields).map(|()| true)
    }
}

/// A project that exists.
pub(super) fn owner<'a>(cloud: &'a mut Cloud, project: &str) -> OrRefusal<&'a mut Project> {
    let owner = cloud.projects.get_mut(project);
    owner.ok_or_else(Refusal::not_found)
}

/// Keeps a new thing, and returns its id.
pub(super) fn keep<T: Kept>(cloud: &mut Cloud, project: &str, thing: T) -> String {
    let owner = cloud.projects.entry(project.to_owned()).or_default();
    let id = thing.id();
    T::kept_mut(owner).insert(&id, thing);
    id
}

/// The things of one kind, whichever it is.
pub(super) trait Shelf {
    fn list(&self, view: &View<'_>, project: &Project) -> Vec<Value>;

    /// One of them.
    fn show(&self, view: &View<'_>, project: &Project, id: &str) -> Option<Value>;

    /// See [`Patchable::change`].
    fn change(
        &self,
        cloud: &mut Cloud,
        project: &str,
        id: &str,
        fields: &Fields,
    ) -> OrRefusal<bool>;
}

struct Of<T>(PhantomData<T>);

impl<T: Patchable> Shelf for Of<T> {
    fn list(&self, view: &View<'_>, project: &Project) -> Vec<Value> {
        let things = T::kept(project).all();
        things
            .map(|thing| view.finished(&thing.id(), thing.show(view)))
            .collect()
    }

    fn show(&self, view: &View<'_>, project: &Project, id: &str) -> Option<Value> {
        let thing = T::kept(project).get(id)?;
        Some(view.finished(id, thing.show(view)))
    }

    fn change(
        &self,
        cloud: &mut Cloud,
        project: &str,
        id: &str,
        fields: &Fields,
    ) -> OrRefusal<bool> {
        T::change(cloud, project, id, fields)
    }
}

/// The shelf of a kind; none for those that are made up, read-only, or kept in another way.
pub(super) fn shelf(kind: Kind<'_>) -> Option<&'static dyn Shelf> {
    match kind {
        Kind::Networks => Some(&Of::<Network>(PhantomData)),
        Kind::Subnets => Some(&Of::<Subnet>(PhantomData)),
        Kind::Groups => Some(&Of::<Group>(PhantomData)),
        Kind::FloatingIps => Some(&Of::<FloatingIp>(PhantomData)),
        Kind::Balancers => Some(&Of::<Balancer>(PhantomData)),
        Kind::Pools => Some(&Of::<Pool>(PhantomData)),
        Kind::Listeners => Some(&Of::<Listener>(PhantomData)),
        Kind::Monitors => Some(&Of::<Monitor>(PhantomData)),
        Kind::Regions
        | Kind::Flavors
        | Kind::Images
        | Kind::Servers
        | Kind::Volumes
        | Kind::Members(_)
        | Kind::Empty => None,
    }
}
