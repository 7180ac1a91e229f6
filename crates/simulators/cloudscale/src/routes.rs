//! From a request to an answer: who asks, for what, and what comes back.

use std::borrow::Cow;

use bowline_simulator::serve::{self, Answer, Body, Encrypted};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::balancers::Pace;
use super::fields::Fields;
use super::kinds::{Kind, Sight, canonical, filters, fits, kind_of, list, show};
use super::model::Cloud;
use super::refusals::{OrRefusal, Refusal};
use super::render::View;
use super::servers::Order;
use super::shelf::{owner, shelf};
use super::{Cloudscale, Token, floating, networks};

/// One request of a project, taken apart.
struct Asked<'a> {
    method: &'a Method,
    project: &'a str,
    base: String,
    query: &'a str,
}

impl Cloudscale {
    /// Answers a request, and says on whose behalf it was made.
    pub(super) fn respond(&self, request: &Request<Bytes>) -> Answer {
        let mut caller = String::new();
        let result = if request.method() == Method::OPTIONS {
            Ok(nothing())
        } else {
            self.authenticate(request).and_then(|token| {
                caller.clone_from(&token.project);
                self.dispatch(request, token)
            })
        };
        let mut response = result.unwrap_or_else(|refusal| refusal.response());
        for (name, value) in bowline_simulator::table![
            "access-control-allow-origin", "*";
            "access-control-allow-headers", "Content-Type, Authorization";
            "access-control-allow-methods", "GET, POST, OPTIONS, PUT, PATCH, DELETE";
        ] {
            response
                .headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
        Answer { response, caller }
    }

    pub(super) fn authenticate(&self, request: &Request<Bytes>) -> OrRefusal<&Token> {
        let header = request.headers().get(header::AUTHORIZATION);
        let header = header.and_then(|value| value.to_str().ok());
        let bearer = header.and_then(|value| value.split_once(' '));
        let given = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let missing = "Authentication credentials were not provided.";
        let (_, given) = given.ok_or_else(|| Refusal::unauthenticated(missing))?;
        let mut tokens = self.config.tokens.iter();
        let token = tokens.find(|token| token.value == given.trim());
        token.ok_or_else(|| Refusal::unauthenticated("Invalid token."))
    }

    fn dispatch(&self, request: &Request<Bytes>, token: &Token) -> OrRefusal<Response<Body>> {
        let reading = matches!(*request.method(), Method::GET | Method::HEAD);
        if token.read_only && !reading {
            return Err(Refusal::read_only());
        }
        let path = decoded_path(request);
        let segments = segments(&path).ok_or_else(Refusal::not_found)?;
        let (kind, rest) = kind_of(&segments).ok_or_else(Refusal::not_found)?;
        let asked = Asked {
            method: request.method(),
            project: &token.project,
            base: self.base(request),
            query: request.uri().query().unwrap_or_default(),
        };
        match rest {
            [] => self.collection(&asked, kind, request.body()),
            [id] => self.item(&asked, kind, &canonical(kind, id), request.body()),
            [id, word] if kind == Kind::Servers => self.order(&asked, id, word),
            _ => Err(Refusal::not_found()),
        }
    }

    /// The root of `href` values: as configured, or as the caller reached us.
    fn base(&self, request: &Request<Bytes>) -> String {
        if let Some(url) = &self.config.public_url {
            return format!("{}/v1", url.trim_end_matches('/'));
        }
        let secure = request.extensions().get::<Encrypted>().is_some();
        let scheme = if secure { "https" } else { "http" };
        let header = request
            .headers()
            .get(header::HOST)
            .and_then(|host| host.to_str().ok());
        let authority = request.uri().authority().map(http::uri::Authority::as_str);
        let host = header.or(authority).unwrap_or("cloudscale.invalid");
        format!("{scheme}://{host}/v1")
    }

    fn collection(
        &self,
        asked: &Asked<'_>,
        kind: Kind<'_>,
        body: &Bytes,
    ) -> OrRefusal<Response<Body>> {
        if let Kind::Members(pool) = kind {
            let cloud = self.lock();
            let owner = cloud.projects.get(asked.project);
            let pool = owner.and_then(|owner| owner.pools.get(pool));
            pool.ok_or_else(Refusal::not_found)?;
        }
        match *asked.method {
            Method::GET | Method::HEAD => Ok(self.list(asked, kind)),
            Method::POST => self.create(asked, kind, body),
            _ => Err(Refusal::method(asked.method)),
        }
    }

    fn list(&self, asked: &Asked<'_>, kind: Kind<'_>) -> Response<Body> {
        let (now, mut cloud) = (self.now(), self.lock());
        if let Some(project) = cloud.projects.get_mut(asked.project) {
            project.ghosts.retain(|(until, _)| now < *until);
        }
        let view = asked.view(&cloud, now);
        let mut things = list(&view, kind);
        let filters = filters(asked.query);
        things.retain(|thing| filters.iter().all(|(key, value)| fits(thing, key, value)));
        serve::json(StatusCode::OK, &Value::Array(things))
    }

    fn create(&self, asked: &Asked<'_>, kind: Kind<'_>, body: &Bytes) -> OrRefusal<Response<Body>> {
        let mut cloud = self.lock();
        let cloud = &mut *cloud;
        let project = asked.project;
        let fields = Fields::parse(body)?;
        let id = match kind {
            Kind::Servers => self.create_server(cloud, project, &fields),
            Kind::Networks => self.create_network(cloud, project, &fields),
            Kind::Subnets => self.create_subnet(cloud, project, &fields),
            Kind::Groups => self.create_group(cloud, project, &fields),
            Kind::FloatingIps => self.create_floating_ip(cloud, project, &fields),
            Kind::Balancers => self.create_balancer(cloud, project, &fields, Pace::Real),
            Kind::Pools => self.create_pool(cloud, project, &fields, Pace::Real),
            Kind::Members(pool) => self.create_member(cloud, project, pool, &fields, Pace::Real),
            Kind::Listeners => self.create_listener(cloud, project, &fields, Pace::Real),
            Kind::Monitors => self.create_monitor(cloud, project, &fields, Pace::Real),
            Kind::Regions | Kind::Flavors | Kind::Images | Kind::Volumes | Kind::Empty => {
                Err(Refusal::method(asked.method))
            }
        }?;
        let made = show(&asked.view(cloud, self.now()), kind, &id, Sight::All);
        Ok(serve::json(StatusCode::CREATED, &made.unwrap_or_default()))
    }

    fn item(
        &self,
        asked: &Asked<'_>,
        kind: Kind<'_>,
        id: &str,
        body: &Bytes,
    ) -> OrRefusal<Response<Body>> {
        let mut cloud = self.lock();
        let cloud = &mut *cloud;
        let now = self.now();
        if matches!(*asked.method, Method::GET | Method::HEAD) {
            let shown = show(&asked.view(cloud, now), kind, id, Sight::Reader);
            let shown = shown.ok_or_else(Refusal::not_found)?;
            return Ok(serve::json(StatusCode::OK, &shown));
        }
        let exists = show(&asked.view(cloud, now), kind, id, Sight::All).is_some();
        if !exists {
            return Err(Refusal::not_found());
        }
        match *asked.method {
            Method::PATCH => self.change(cloud, asked, kind, id, &Fields::parse(body)?)?,
            Method::DELETE => self.delete(cloud, asked, kind, id)?,
            _ => return Err(Refusal::method(asked.method)),
        }
        Ok(nothing())
    }

    fn change(
        &self,
        cloud: &mut Cloud,
        asked: &Asked<'_>,
        kind: Kind<'_>,
        id: &str,
        fields: &Fields,
    ) -> OrRefusal {
        match kind {
            Kind::Servers => self.change_server(cloud, asked.project, id, fields),
            Kind::Members(pool) => self.change_member(cloud, asked.project, (pool, id), fields),
            kind => {
                let shelf = shelf(kind).ok_or_else(|| Refusal::method(asked.method))?;
                if shelf.change(cloud, asked.project, id, fields)? {
                    self.changed(cloud, asked.project, kind, id);
                }
                Ok(())
            }
        }
    }

    fn delete(&self, cloud: &mut Cloud, asked: &Asked<'_>, kind: Kind<'_>, id: &str) -> OrRefusal {
        match kind {
            Kind::Servers => self.delete_server(cloud, asked.project, id),
            Kind::Networks => networks::delete_network(owner(cloud, asked.project)?, id),
            Kind::Subnets => networks::delete_subnet(owner(cloud, asked.project)?, id),
            Kind::Groups => floating::delete_group(owner(cloud, asked.project)?, id),
            Kind::FloatingIps => floating::delete_floating_ip(cloud, asked.project, id),
            Kind::Balancers => self.delete_balancer(cloud, asked.project, id, Pace::Real),
            Kind::Pools => self.delete_pool(cloud, asked.project, id, Pace::Real),
            Kind::Members(pool) => self.delete_member(cloud, asked.project, (pool, id), Pace::Real),
            Kind::Listeners => self.delete_listener(cloud, asked.project, id, Pace::Real),
            Kind::Monitors => self.delete_monitor(cloud, asked.project, id, Pace::Real),
            Kind::Regions | Kind::Flavors | Kind::Images | Kind::Volumes | Kind::Empty => {
                Err(Refusal::method(asked.method))
            }
        }
    }

    fn order(&self, asked: &Asked<'_>, id: &str, word: &str) -> OrRefusal<Response<Body>> {
        let order = Order::parse(word).ok_or_else(Refusal::not_found)?;
        if *asked.method != Method::POST {
            return Err(Refusal::method(asked.method));
        }
        self.order_server(&mut self.lock(), asked.project, id, order)?;
        Ok(nothing())
    }
}

impl Asked<'_> {
    fn view<'a>(&'a self, cloud: &'a Cloud, now: jiff::Timestamp) -> View<'a> {
        View {
            cloud,
            project: self.project,
            base: &self.base,
            now,
        }
    }
}

/// The path as it is meant.
pub(super) fn decoded_path(request: &Request<Bytes>) -> Cow<'_, str> {
    percent_decode_str(request.uri().path()).decode_utf8_lossy()
}

/// What follows `/v1/`, taken apart.
pub(super) fn segments(path: &str) -> Option<Vec<&str>> {
    let path = path.strip_prefix("/v1/")?;
    Some(path.trim_end_matches('/').split('/').collect())
}

/// An answer without a body.
fn nothing() -> Response<Body> {
    let mut response = Response::new(serve::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
