//! Wherever a secret is put, no log, error or debug text shows it.

use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex};

use bowline_core::{CloudError, Secret};
use http::HeaderName;
use proptest::prelude::*;

use super::server::{Server, answer};
use crate::{
    BaseUrl, Basic, Bearer, Clock, Connector, Cookie, HttpClient, Pipes, Random, Route, sensitive,
};

/// Where the secret is put.
#[derive(Clone, Copy, Debug)]
enum Place {
    Bearer,
    Basic,
    Cookie,
    SensitiveHeader,
    UnknownHeader,
    Query,
    SecretQuery,
    PathValue,
    RequestBody,
    EchoedText,
    EchoedJson,
    EchoedJsonKey,
    EchoedCutJson,
    EchoedHeader,
    EchoedLocation,
    BadJson,
}

/// The first ten are hidden by their names alone, although nobody registered the value.
const PLACES: [Place; 16] = [
    Place::SensitiveHeader,
    Place::UnknownHeader,
    Place::SecretQuery,
    Place::RequestBody,
    Place::EchoedJsonKey,
    Place::EchoedCutJson,
    Place::EchoedHeader,
    Place::Bearer,
    Place::Basic,
    Place::Cookie,
    Place::Query,
    Place::PathValue,
    Place::EchoedText,
    Place::EchoedJson,
    Place::EchoedLocation,
    Place::BadJson,
];

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn echo(place: Place, status: u16, secret: &str) -> super::server::Answer {
    let json = |value: serde_json::Value| answer(status, &value.to_string());
    match place {
        Place::EchoedText => answer(status, &format!("<p>you sent {secret} to us</p>")),
        Place::EchoedJson => json(serde_json::json!({"detail": format!("bad: {secret}!")})),
        Place::EchoedJsonKey => json(serde_json::json!({"x": {"Auth-Token": secret}, "n": 1})),
        Place::EchoedCutJson => {
            let whole = serde_json::json!({"access_token": secret}).to_string();
            answer(status, &whole[..whole.len() - 1])
        }
        Place::EchoedHeader => {
            let mut answer = answer(status, "");
            let value = sensitive(secret).unwrap();
            answer.headers_mut().insert("x-debug", value);
            answer
        }
        Place::EchoedLocation => {
            let mut answer = answer(307, "");
            let encoded: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
            let target = format!("https://{encoded}:{encoded}@evil.test/{encoded}?q={encoded}");
            answer
                .headers_mut()
                .insert("location", sensitive(&target).unwrap());
            answer
        }
        Place::BadJson => json(serde_json::json!([secret])),
        _ => answer(status, r#"{"detail": "no"}"#),
    }
}

/// Makes a call with the secret in its place; everything that can be printed about it.
async fn shown(place: Place, status: u16, secret: &str, registered: bool) -> String {
    let pipes = Pipes::default();
    let given = secret.to_owned();
    let server = Server::new(move |_| echo(place, status, &given));
    server.listen(&pipes, "cloud.test:443");
    let base = BaseUrl::parse("https://cloud.test").unwrap();
    let mut builder = HttpClient::builder("cloud", base, Connector::simulated(pipes))
        .random(Random::seeded(1))
        .trace(true)
        .clock(Clock::simulated(jiff::Timestamp::UNIX_EPOCH));
    let value = Secret::new(secret);
    if registered {
        builder = builder.secret(&value);
    }
    let user = "ann".to_owned();
    builder = match place {
        Place::Bearer => builder.auth(Bearer(value)),
        Place::Basic => builder.auth(Basic {
            user,
            password: value,
        }),
        Place::Cookie => builder.auth(Cookie {
            name: "session",
            value,
        }),
        _ => builder,
    };
    let client = builder.build();
    let id = if matches!(place, Place::PathValue) {
        secret
    } else {
        "7"
    };
    let mut call = client.post(Route::new("v1/servers/:id").with("id", id));
    call = match place {
        Place::SensitiveHeader => {
            let name = HeaderName::from_static("x-api-key");
            call.header(name, sensitive(secret).unwrap())
        }
        Place::UnknownHeader => {
            let name = HeaderName::from_static("x-something");
            call.header(name, secret.parse().unwrap())
        }
        Place::Query => call.query("q", secret),
        Place::SecretQuery => call.query("otp", secret),
        Place::RequestBody => call.json(&serde_json::json!({"password": secret})),
        _ => call,
    };
    let mut text = format!("{client:?} {call:?} {call:#?}");
    let error = match call.send().await {
        Ok(reply) => {
            write!(text, "{reply:?} {reply:#?}").unwrap();
            reply.json::<u64>().unwrap_err()
        }
        Err(error) => error,
    };
    write!(text, "{error} {error:?} {error:#?}").unwrap();
    let error = CloudError::from(error);
    write!(text, "{error} {error:?} {}", error.chain()).unwrap();
    text
}

/// What is logged, at the highest level, while `work` runs.
fn captured<T>(work: impl FnOnce() -> T) -> (T, String) {
    let captured = Captured::default();
    let writer = captured.clone();
    // Which call sites somebody wants is kept for the whole process: without one who always does, other tests that run
    // at the same time would settle that nobody does.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry());
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let result = tracing::subscriber::with_default(subscriber, work);
    let logged = captured.0.lock().unwrap().clone();
    (result, String::from_utf8(logged).unwrap())
}

fn run(place: Place, status: u16, secret: &str, registered: bool) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let (text, logged) = captured(|| runtime.block_on(shown(place, status, secret, registered)));
    format!("{text}\n{logged}")
}

fn secrets() -> impl Strategy<Value = String> {
    // Printable ASCII that a header can carry, no space at the ends, long enough to be a secret
    // (shorter ones occur in ordinary words).
    "[!-~][ -~]{8,40}[!-~]"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_registered_secret_is_never_shown(
        secret in secrets(),
        status in prop::sample::select(vec![200_u16, 400, 401, 404, 500, 503]),
    ) {
        for place in PLACES {
            let text = run(place, status, &secret, true);
            prop_assert!(!text.contains(&secret), "{place:?} {status}: {text}");
        }
    }

    #[test]
    fn a_secret_that_nobody_registered_is_hidden_by_its_name(
        secret in "[a-zA-Z0-9._-]{12,40}",
        status in prop::sample::select(vec![200_u16, 403, 404, 500]),
    ) {
        for place in PLACES.into_iter().take(10) {
            let text = run(place, status, &secret, false);
            prop_assert!(!text.contains(&secret), "{place:?} {status}: {text}");
        }
    }
}

#[test]
fn the_log_tells_method_route_status_and_attempt() {
    let text = run(Place::Bearer, 503, "unguessable-token", false);
    let lines: Vec<_> = text
        .lines()
        .filter(|line| line.contains("bowline_http") && line.contains("attempt="))
        .collect();
    assert_eq!(lines.len(), 3, "{text}");
    for traced in [
        "request sent",
        "answer received",
        "uri=\"https://cloud.test/v1/servers/7\"",
    ] {
        assert_eq!(text.matches(traced).count(), 3, "{traced} in {text}");
    }
    for part in [
        "method=\"POST\"",
        "route=\"v1/servers/:id\"",
        "status=503",
        "attempt=3",
        "duration_ms=",
    ] {
        assert!(lines[2].contains(part), "{part} in {}", lines[2]);
    }
}

#[test]
fn switching_verification_off_is_logged_loudly() {
    let (_, logged) = captured(|| crate::Tls::new().insecure(true).build().unwrap());
    assert!(
        logged.contains("WARN") && logged.contains("NOT verified"),
        "{logged}"
    );
    let (_, logged) = captured(|| crate::Tls::new().build().unwrap());
    assert!(!logged.contains("WARN"), "{logged}");
}

#[tokio::test(start_paused = true)]
async fn a_secret_where_a_long_error_is_cut_is_not_shown_in_part() {
    let secret = "s3cret-0123456789-abcdefghij";
    // An error shows the first 1,000 bytes of what the cloud says.
    let said = format!("{} {secret} and so on", "x".repeat(990));
    let server =
        Server::new(move |_| answer(400, &serde_json::json!({ "message": said }).to_string()));
    let pipes = Pipes::default();
    server.listen(&pipes, "cloud.test:443");
    let base = BaseUrl::parse("https://cloud.test").unwrap();
    let client = HttpClient::builder("cloud", base, Connector::simulated(pipes))
        .secret(&Secret::new(secret))
        .build();
    let error = client
        .get(Route::new("v1/servers"))
        .send()
        .await
        .unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(text.contains("xxx") && !text.contains("s3cret"), "{text}");
}
