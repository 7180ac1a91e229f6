//! What the API says when it does not do what it was asked.

use bowline_simulator::serve::{self, Body};
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

use super::config::Release;

/// What the API says about errors that a pool reported.
const FROM_THE_POOL: &str = "This is a XenServer/XCP-ng error, not an XO error";

/// What a request gives, or why it is refused.
pub(super) type OrRefusal<T = ()> = Result<T, Refusal>;

/// A refused request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    /// A text, or for bad parameters an object.
    pub(super) error: Value,
    pub(super) data: Option<Value>,
    pub(super) info: Option<&'static str>,
    /// The code of the same error in JSON-RPC.
    pub(super) code: i64,
    /// The page of the web framework instead of JSON.
    page: Option<String>,
    /// The text of the error alone, as JSON.
    bare: bool,
}

impl Refusal {
    fn new(status: StatusCode, error: impl Into<Value>, code: i64) -> Self {
        Self {
            status,
            error: error.into(),
            data: None,
            info: None,
            code,
            page: None,
            bare: false,
        }
    }

    /// The same as the old route for tokens says it: a text, and 400 for what is no matter of credentials.
    pub(super) fn bare(mut self) -> Self {
        self.bare = true;
        if self.status != StatusCode::UNAUTHORIZED {
            self.status = StatusCode::BAD_REQUEST;
        }
        self
    }

    fn about(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// 400.
    pub(super) fn bad(message: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message, -32_600)
    }

    /// 400 about a filter.
    pub(super) fn filter(message: &str, filter: &str) -> Self {
        Self::bad(message).about(json!({ "stringToParse": filter }))
    }

    /// 401.
    pub(super) fn credentials() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "invalid credentials", 3)
    }

    /// 403 because the caller is no administrator.
    pub(super) fn administrators() -> Self {
        Self::new(StatusCode::FORBIDDEN, "not enough permissions", 2).about(json!({ "object": {} }))
    }

    /// 403 because a right is missing.
    pub(super) fn privileges(resource: &str, action: &str, id: &str) -> Self {
        let missing = json!([{ "objectId": id, "action": action, "resource": resource }]);
        Self::new(StatusCode::FORBIDDEN, "not enough privileges", 2)
            .about(json!({ "missingPrivileges": missing }))
    }

    /// 403 because rights are not licensed.
    pub(super) fn unlicensed() -> Self {
        Self::new(StatusCode::FORBIDDEN, "feature Unauthorized", 26).about(json!({
            "featureCode": "RBAC",
            "currentPlan": "Starter",
            "minPlan": "Enterprise",
        }))
    }

    /// 403 because nobody may.
    pub(super) fn forbidden(operation: &str, reason: &str) -> Self {
        let message = format!("forbidden operation: {operation}");
        Self::new(StatusCode::FORBIDDEN, message, 5)
            .about(json!({ "operation": operation, "reason": reason }))
    }

    /// 404 for an object.
    pub(super) fn no_such(kind: &str, id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("no such {kind} {id}"), 1)
            .about(json!({ "id": id, "type": kind }))
    }

    /// 404 for a path.
    pub(super) fn no_route(method: &str, path: &str) -> Self {
        let page = format!("Cannot {method} {}", escaped(path));
        Self {
            page: Some(page),
            ..Self::new(StatusCode::NOT_FOUND, "Not Found", -32_601)
        }
    }

    /// 422 about one parameter.
    pub(super) fn parameter(name: &str, message: &str, value: Option<&Value>) -> Self {
        let mut wrong = json!({ "message": message });
        if let Some(value) = value {
            wrong["value"] = value.clone();
        }
        Self::parameters(json!({ name: wrong }))
    }

    /// 422 about the whole.
    pub(super) fn parameters(error: impl Into<Value>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, error, 10).about(json!({}))
    }

    /// 500.
    pub(super) fn failure(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message.into(), -32_000)
    }

    /// 500 because the pool refused.
    pub(super) fn pool(message: impl Into<String>) -> Self {
        Self {
            info: Some(FROM_THE_POOL),
            ..Self::failure(message)
        }
    }

    pub(super) fn response(&self, release: Release) -> Response<Body> {
        if let Some(page) = &self.page {
            return html(self.status, page);
        }
        if release == Release::Ancient {
            match self.status {
                StatusCode::UNAUTHORIZED => {
                    return serve::of_type(self.status, "text/html; charset=utf-8", "Unauthorized");
                }
                StatusCode::NOT_FOUND => return html(self.status, "Not Found"),
                _ => {}
            }
        }
        if self.bare {
            return answer(self.status, &self.error);
        }
        let mut body = json!({ "error": self.error });
        if let Some(data) = &self.data {
            body["data"] = data.clone();
        }
        if let Some(info) = self.info {
            body["info"] = json!(info);
        }
        let mut response = answer(self.status, &body);
        if self.status == StatusCode::UNAUTHORIZED && release == Release::Current {
            let realm = HeaderValue::from_static("Basic realm=\"xo\"");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, realm);
        }
        response
    }

    /// As JSON-RPC tells it.
    pub(super) fn rpc(&self) -> Value {
        let mut error = json!({ "code": self.code, "message": self.error });
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        error
    }
}

/// An answer as the API writes it: for people to read.
pub(super) fn answer(status: StatusCode, body: &Value) -> Response<Body> {
    // A value always can be written.
    let text = serde_json::to_string_pretty(body).unwrap_or_default();
    serve::of_type(status, "application/json; charset=utf-8", text)
}

/// A page of the web framework.
pub(super) fn html(status: StatusCode, text: &str) -> Response<Body> {
    let page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Error</title>\n\
         </head>\n<body>\n<pre>{text}</pre>\n</body>\n</html>\n"
    );
    serve::of_type(status, "text/html; charset=utf-8", page)
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}
