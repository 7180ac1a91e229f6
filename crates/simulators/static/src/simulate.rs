//! The simulated rack as a server of its own, which writes the file.

use anyhow::{Context, Result};
use bowline_simulator::serve::Server;
use bowline_simulator::simulate::{Flag, FlagValue, Greeting, Options, ServerKind, Simulation};
use futures::FutureExt;

use crate::{NAME, PATH, Rack};

/// The server of `bowline simulate`.
pub(crate) const SERVER: ServerKind = ServerKind {
    name: NAME,
    about: "Machines without an API, and the file that lists them",
    flags: &[
        Flag::listen("127.0.0.1:18085"),
        Flag::new(
            "file",
            FlagValue::File,
            "Where to write the file of machines; what is there is replaced",
        ),
        Flag::fixture("What the file contains from the beginning: machines"),
    ],
    serve: |options| serve(options).boxed(),
};

async fn serve(options: &Options) -> Result<Simulation> {
    let (world, rack) = options.load(Rack::new)?;
    let listen = options.listen()?;
    let server = Server::builder(&world, rack.clone()).plain(listen).await?;
    let address = server.local_addr().unwrap_or(listen);
    let file = options.file("file")?;
    let path = file.display().to_string();
    std::fs::write(&path, rack.keep_in(file)).with_context(|| format!("writing {path}"))?;
    let root = format!("http://{address}");
    let mut greeting = Greeting::new("Machines from a file", format_args!("{root}{PATH}"));
    greeting.line("machines", rack.inventory().machines.len());
    greeting.line(
        "use it",
        format_args!("--cloud-provider={NAME} --cloud-config={path}"),
    );
    let greeting = greeting.finish("curl", &root, address);
    Ok(Simulation::new(greeting, [server], rack))
}

#[cfg(test)]
mod tests {
    use bowline_simulator::testing::{Client, ServerAddress, documented, options};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_simulation_writes_its_fixture_and_what_is_done_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let (fixture, path) = (folder.path().join("a"), folder.path().join("machines.yaml"));
        std::fs::write(&fixture, documented("## The static simulator")).unwrap();
        let options = options(&fixture).with("file", path.display());
        let running = serve(&options).await.unwrap();
        let use_it = format!("--cloud-provider=static --cloud-config={}", path.display());
        assert!(running.greeting.contains(&use_it), "{}", running.greeting);
        let text = || std::fs::read_to_string(&path).unwrap();
        let first = text();
        assert!(first.contains("name: rack-1"), "{first}");

        let address = running.servers[0].local_addr().unwrap();
        let client = Client::new(ServerAddress::Socket(address), None);
        assert_eq!(client.get("/machines.yaml").await.text(), first);
        assert_eq!(client.get("/").await.status, 404);
        for (verb, body, status, wanted) in [
            ("stop", json!({"machine": "rack-1"}), 200, "state: stopped"),
            ("start", json!({"machine": "rack-1"}), 200, "name: rack-1"),
            ("destroy", json!({"machine": "rack-1"}), 200, "gone: true"),
            ("add", json!({"name": "late"}), 200, "name: late"),
            ("add", json!({"name": "late"}), 400, "name: late"),
            ("stop", json!({"machine": "rack-1"}), 400, "gone: true"),
            ("add", json!({}), 400, "name: late"),
            ("fly", json!({}), 400, "name: late"),
        ] {
            let reply = client.call("POST", &format!("/_sim/{verb}"), &body).await;
            assert_eq!(reply.status, status, "{verb}: {}", reply.text());
            assert!(text().contains(wanted), "{verb}: {}", text());
        }
        let state = client.get("/_sim/state").await.json();
        assert_eq!(state["machines"][0]["gone"], true);
        client.call("POST", "/_sim/reset", &json!({})).await;
        assert_eq!(text(), first);
        running.shutdown().await;
    }

    #[tokio::test]
    async fn an_impossible_fixture_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "machines: [{name: a}, {name: a}]\n").unwrap();
        let error = serve(&options(file.path())).await.unwrap_err();
        let source = error.source().unwrap().to_string();
        let wanted = "cannot add the machine a: there is one of that name";
        assert_eq!(source, wanted);
    }
}
