//! The simulated Kubernetes API as a server of its own.

use anyhow::{Context, Result};
use bowline_simulator::simulate::{Flag, FlagValue, Greeting, Options, ServerKind, Simulation};
use futures::FutureExt;

use crate::cluster::Cluster;
use crate::fixture;

/// The server of `bowline simulate`.
pub const SERVER: ServerKind = ServerKind {
    name: "kubernetes",
    about: "A Kubernetes API server in memory",
    flags: &[
        Flag::listen("127.0.0.1:16443"),
        Flag::new(
            "kubeconfig",
            FlagValue::File,
            "Where to write the kubeconfig of an administrator",
        )
        .or("bowline.kubeconfig"),
        Flag::fixture("Objects that the cluster starts with: a stream of YAML documents"),
        Flag::seed("Draw uids and addresses from this seed"),
    ],
    serve: |options| {
        async move {
            let (cluster, greeting) = serve(options).await?;
            Ok(Simulation::new(greeting, [cluster.into_server()], ()))
        }
        .boxed()
    },
};

async fn serve(options: &Options) -> Result<(Cluster, String)> {
    let objects = match options.fixture_path() {
        Some(path) => Some(fixture::read(&path)?),
        None => None,
    };
    let listen = options.listen()?;
    let cluster = Cluster::on_socket(&options.world()?, listen).await?;
    let file = options.file("kubeconfig")?;
    let file_name = file.display();
    let mut greeting = Greeting::new("Kubernetes API", cluster.url());
    if let Some(objects) = objects {
        greeting.line(
            "objects",
            format_args!("{} from the fixture", objects.len()),
        );
        cluster.install(objects)?;
    }
    std::fs::write(&file, cluster.admin_kubeconfig()?)
        .with_context(|| format!("cannot write the kubeconfig {file_name}"))?;
    greeting.line(
        "use it",
        format_args!("kubectl --kubeconfig {file_name} get nodes"),
    );
    let greeting = greeting.finish("curl -k", cluster.url(), listen);
    Ok((cluster, greeting))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_simulated_cluster_starts_with_its_fixture_and_writes_a_kubeconfig() {
        let folder = tempfile::tempdir().unwrap();
        let fixture = folder.path().join("objects.yaml");
        let node = "{apiVersion: v1, kind: Node, metadata: {name: n1}}";
        std::fs::write(&fixture, node).unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        let options = Options::default()
            .with("listen", "127.0.0.1:0")
            .with("kubeconfig", kubeconfig.display())
            .with("fixture", fixture.display())
            .with("seed", 1);
        let (cluster, greeting) = serve(&options).await.unwrap();
        assert!(cluster.node("n1").is_some());
        assert!(greeting.contains("1 from the fixture"));
        let written = std::fs::read_to_string(&kubeconfig).unwrap();
        assert!(written.contains(cluster.url()), "{written}");

        let nowhere = folder.path().join("none/kubeconfig");
        let nowhere = options.with("kubeconfig", nowhere.display());
        let error = serve(&nowhere).await.err().unwrap().to_string();
        assert!(error.starts_with("cannot write the kubeconfig"), "{error}");
    }
}
