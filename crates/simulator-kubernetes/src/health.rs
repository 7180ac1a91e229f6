//! The paths by which others see whether the server works.

use bowline_simulator::serve::Body;
use http::Response;

use super::request::Query;
use super::respond;

/// What is checked, in the order in which it is printed.
const CHECKS: [&str; 3] = ["ping", "log", "etcd"];

/// Answers `/healthz`, `/livez` and `/readyz`; none for other paths.
pub fn answer(path: &str, query: &Query) -> Option<Response<Body>> {
    let mut pieces = path.trim_start_matches('/').splitn(2, '/');
    let group = pieces
        .next()
        .filter(|name| ["healthz", "livez", "readyz"].contains(name))?;
    let check = pieces.next();
    let text = match check {
        Some(check) if CHECKS.contains(&check) => "ok".to_owned(),
        Some(_) => return None,
        None if query.maybe("verbose").is_some() => {
            let lines: Vec<String> = CHECKS
                .iter()
                .map(|check| format!("[+]{check} ok\n"))
                .collect();
            format!("{}{group} check passed\n", lines.concat())
        }
        None => "ok".to_owned(),
    };
    let mut response = respond::bytes(200, "text/plain; charset=utf-8", text.into_bytes());
    if check.is_none() {
        response.headers_mut().insert(
            "x-content-type-options",
            http::HeaderValue::from_static("nosniff"),
        );
    }
    Some(response)
}
