//! What the API says: answers, and refusals with their codes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use md5::{Digest, Md5};
use serde_json::{Value, json};

use bowline_simulator::serve::{self, Body};

/// The name and version that the server tells.
const SERVER: &str = "cloudapi/9.20.0";
/// The newest version of the API that it knows.
pub(super) const NEWEST: &str = "9.0.0";

/// What is answered when all is well.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) body: Option<Value>,
    pub(super) headers: Vec<(&'static str, String)>,
}

impl Reply {
    /// 200 with a body.
    pub(super) fn ok(body: Value) -> Self {
        Self {
            status: StatusCode::OK,
            body: Some(body),
            headers: Vec::new(),
        }
    }

    /// 200 with a list and how long it is.
    pub(super) fn list(things: Vec<Value>) -> Self {
        let count = things.len().to_string();
        Self::ok(Value::Array(things)).header("x-resource-count", count)
    }

    /// 201 with a body, and where it is.
    pub(super) fn created(body: Value, place: String) -> Self {
        let mut reply = Self::ok(body).header("location", place);
        reply.status = StatusCode::CREATED;
        reply
    }

    /// That status, and nothing else.
    pub(super) fn empty(status: StatusCode) -> Self {
        Self {
            status,
            body: None,
            headers: Vec::new(),
        }
    }

    /// 204.
    pub(super) fn no_content() -> Self {
        Self::empty(StatusCode::NO_CONTENT)
    }

    pub(super) fn header(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }
}

/// What a request gives, or why it is refused.
pub(super) type OrRefusal<T = ()> = Result<T, Refusal>;

/// A refused request.
#[derive(Debug, PartialEq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) errors: Vec<Value>,
    /// Raised while the `Authorization` header is read: without the API's own headers.
    pub(super) early: bool,
    /// Instead of code and message.
    pub(super) body: Option<Box<Value>>,
    pub(super) retry_after: Option<Box<str>>,
}

impl Refusal {
    fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            code,
            message: message.into(),
            errors: Vec::new(),
            early: false,
            body: None,
            retry_after: None,
        }
    }

    /// 400 about the `Authorization` header.
    pub(super) fn header(problem: &str) -> Self {
        let message = format!("Authorization header invalid: {problem}");
        Self {
            early: true,
            ..Self::new(400, "InvalidHeader", message)
        }
    }

    /// 400.
    pub(super) fn bad(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(400, code, message)
    }

    /// 401 for whoever cannot be believed.
    pub(super) fn credentials() -> Self {
        Self::new(
            401,
            "InvalidCredentials",
            "Invalid authorization credentials supplied",
        )
    }

    /// 401 for whoever did not say who they are.
    pub(super) fn anonymous() -> Self {
        let message = "You must make authenticated requests to use CloudAPI";
        Self::new(401, "InvalidCredentials", message)
    }

    /// 403.
    pub(super) fn denied(message: impl Into<String>) -> Self {
        Self::new(403, "NotAuthorized", message)
    }

    /// 403 for what belongs to somebody else.
    pub(super) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(403, "Forbidden", message)
    }

    /// 404.
    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(404, "ResourceNotFound", message)
    }

    /// 405.
    pub(super) fn method(method: &http::Method) -> Self {
        Self::new(
            405,
            "MethodNotAllowedError",
            format!("{method} is not allowed"),
        )
    }

    /// 409 about a parameter.
    pub(super) fn argument(message: impl Into<String>) -> Self {
        Self::new(409, "InvalidArgument", message)
    }

    /// 409 about a parameter that is not there.
    pub(super) fn missing(message: impl Into<String>) -> Self {
        Self::new(409, "MissingParameter", message)
    }

    /// 409 of another code.
    pub(super) fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(409, code, message)
    }

    /// 409 of the service behind, which says what is wrong with a field.
    pub(super) fn validation(message: &str, field: &str, code: &str, what: &str) -> Self {
        let mut refusal = Self::new(409, "ValidationFailed", message);
        refusal.errors = vec![json!({ "field": field, "code": code, "message": what })];
        refusal
    }

    /// 422 of the service behind.
    pub(super) fn parameters(message: &str, field: &str, what: &str) -> Self {
        let mut refusal = Self::new(422, "InvalidParameters", message);
        refusal.errors =
            vec![json!({ "field": field, "code": "InvalidParameter", "message": what })];
        refusal
    }

    /// 410: the machine is destroyed, and this is what it was.
    pub(super) fn gone(machine: Value) -> Self {
        let mut refusal = Self::new(410, "Gone", "");
        refusal.body = Some(Box::new(machine));
        refusal
    }

    /// 429.
    pub(super) fn throttled(rate: u32) -> Self {
        let message = format!("You have exceeded your request rate of {rate} r/s.");
        Self::new(429, "TooManyRequestsError", message)
    }

    /// 500 while the name service is away.
    pub(super) fn names_unavailable() -> Self {
        Self::new(500, "InternalError", "Unable to contact the Triton CNS API")
    }

    /// 501.
    pub(super) fn fabrics_off() -> Self {
        Self::new(
            501,
            "NotImplementedError",
            "Fabrics are not enabled in this datacenter",
        )
    }

    /// 503 for writes during maintenance.
    pub(super) fn maintenance(until: Option<String>) -> Self {
        let message = "This service is down for maintenance";
        let mut refusal = Self::new(503, "ServiceUnavailableError", message);
        refusal.retry_after = until.map(Into::into);
        refusal
    }

    fn body(self) -> Value {
        if let Some(body) = self.body {
            return *body;
        }
        let mut body = json!({ "code": self.code, "message": self.message });
        if !self.errors.is_empty() {
            body["errors"] = Value::Array(self.errors);
        }
        body
    }
}

/// The headers that the API puts on (nearly) everything it says.
pub(super) struct Letterhead {
    pub(super) request_id: String,
    pub(super) date: String,
    pub(super) datacenter: Option<String>,
}

impl Letterhead {
    /// The answer to a request.
    pub(super) fn response(&self, result: OrRefusal<Reply>) -> Response<Body> {
        match result {
            Ok(reply) => self.decorate(reply, false),
            Err(refusal) => {
                let early = refusal.early;
                let mut headers = Vec::new();
                if let Some(until) = &refusal.retry_after {
                    headers.push(("retry-after", until.to_string()));
                }
                let status = refusal.status;
                let body = Some(refusal.body());
                let reply = Reply {
                    status,
                    body,
                    headers,
                };
                self.decorate(reply, early)
            }
        }
    }

    fn decorate(&self, reply: Reply, early: bool) -> Response<Body> {
        let text = reply.body.map(|body| body.to_string());
        let digest = text.as_ref().map(|text| STANDARD.encode(Md5::digest(text)));
        let mut response = if let Some(text) = text {
            serve::of_type(reply.status, "application/json", text)
        } else {
            let mut response = Response::new(serve::empty());
            *response.status_mut() = reply.status;
            response
        };
        let mut set = |name: &'static str, value: &str| {
            if let Ok(value) = HeaderValue::try_from(value) {
                let name = HeaderName::from_static(name);
                response.headers_mut().insert(name, value);
            }
        };
        set(header::DATE.as_str(), &self.date);
        set(header::CONNECTION.as_str(), "keep-alive");
        if early {
            return response;
        }
        set("server", SERVER);
        set("api-version", NEWEST);
        set("request-id", &self.request_id);
        set("response-time", "1");
        set("access-control-allow-origin", "*");
        set(
            "access-control-allow-methods",
            "POST, GET, PUT, DELETE, HEAD",
        );
        if let Some(digest) = digest {
            set("content-md5", &digest);
        }
        if let Some(datacenter) = &self.datacenter {
            set("triton-datacenter-name", datacenter);
        }
        for (name, value) in reply.headers {
            set(name, &value);
        }
        response
    }
}
