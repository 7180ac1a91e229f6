//! A real control plane: the launcher program is started, asked through its socket, and ends with
//! this process.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use kube::api::{ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// Names the launcher program (`e2e/control-plane/build` prints its path). Unset: scenarios run on
/// the simulated API server.
pub const VARIABLE: &str = "BOWLINE_CONTROL_PLANE";
/// The account under which managers run, where a scenario has no other wish.
const ACCOUNT: (&str, &str) = ("kube-system", "bowline");
/// So many scenarios have a control plane of their own at the same time.
const ALONE: usize = 2;
/// The longest command is the start of a server.
const PATIENCE: Duration = Duration::from_secs(120);
/// A binding that was made counts once the server's authorizer has seen it: some milliseconds.
const AUTHORIZER: Duration = Duration::from_secs(30);

/// The launcher program; none if scenarios run on the simulated API server.
pub fn program() -> Option<PathBuf> {
    std::env::var_os(VARIABLE)
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}

/// A running control plane. It ends when it is dropped, and in any case with this process.
#[derive(Debug)]
pub struct ControlPlane {
    /// The launcher; it ends when its standard input does.
    child: Mutex<Child>,
    ready: Value,
    admin: tokio::sync::OnceCell<kube::Config>,
    manager: tokio::sync::OnceCell<kube::Config>,
    signer: tokio::sync::OnceCell<()>,
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        drop(child.stdin.take());
        let _ = child.wait();
    }
}

impl ControlPlane {
    /// The one that scenarios share, started when it is first asked for.
    pub fn shared() -> Arc<Self> {
        static SHARED: OnceLock<Arc<ControlPlane>> = OnceLock::new();
        SHARED
            .get_or_init(|| {
                let plane = Self::start();
                crate::tell(&format!("on Kubernetes {}", plane.version()));
                plane
            })
            .clone()
    }

    /// Permission to have one of one's own. Few scenarios at a time have it: two cores do not carry
    /// many API servers.
    pub fn turn() -> MutexGuard<'static, ()> {
        static TURNS: [Mutex<()>; ALONE] = [const { Mutex::new(()) }; ALONE];
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let turn = &TURNS[NEXT.fetch_add(1, Ordering::Relaxed) % ALONE];
        turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts one; this takes some seconds, and blocks.
    pub fn start() -> Arc<Self> {
        let program = program().unwrap_or_else(|| panic!("{VARIABLE} is not set"));
        let mut child = Command::new(&program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", program.display()));
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let ready = serde_json::from_str(&line).unwrap_or_else(|_| {
            panic!("the control plane does not start; it says why on the standard error")
        });
        Arc::new(Self {
            child: Mutex::new(child),
            ready,
            admin: tokio::sync::OnceCell::new(),
            manager: tokio::sync::OnceCell::new(),
            signer: tokio::sync::OnceCell::new(),
        })
    }

    fn said(&self, key: &str) -> &str {
        self.ready[key].as_str().unwrap_or_default()
    }

    /// Where etcd keeps everything.
    pub(crate) fn data(&self) -> PathBuf {
        PathBuf::from(self.said("folder")).join("etcd")
    }

    /// The version of Kubernetes: `v1.36.4`.
    pub fn version(&self) -> &str {
        self.said("version")
    }

    /// Gives the launcher a command, as its README lists them.
    pub async fn control(&self, command: &str) -> Value {
        let ask = async {
            let mut socket = UnixStream::connect(self.said("control")).await?;
            socket.write_all(format!("{command}\n").as_bytes()).await?;
            let mut answer = String::new();
            tokio::io::BufReader::new(socket)
                .read_line(&mut answer)
                .await?;
            Ok::<_, std::io::Error>(answer)
        };
        let answer = tokio::time::timeout(PATIENCE, ask).await.unwrap().unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert!(answer.get("error").is_none(), "{command}: {answer}");
        answer
    }

    /// Who may do everything.
    pub async fn admin(&self) -> kube::Config {
        let config = async || read(self.said("kubeconfig")).await;
        self.admin.get_or_init(config).await.clone()
    }

    /// A user with a certificate.
    pub async fn user(&self, name: &str, groups: &[&str]) -> kube::Config {
        let command = ["user", name].into_iter().chain(groups.iter().copied());
        let answer = self.control(&command.collect::<Vec<_>>().join(" ")).await;
        read(answer["kubeconfig"].as_str().unwrap()).await
    }

    /// A service account with a token. It has no rights by itself.
    pub async fn account(&self, namespace: &str, name: &str) -> kube::Config {
        let answer = self.control(&format!("account {namespace} {name}")).await;
        read(answer["kubeconfig"].as_str().unwrap()).await
    }

    /// The account of managers that may do everything.
    pub async fn manager(&self) -> kube::Config {
        let config = async || {
            let (namespace, name) = ACCOUNT;
            let config = self.account(namespace, name).await;
            self.bind_to_admin(namespace, name).await;
            until_allowed(config.clone()).await;
            config
        };
        self.manager.get_or_init(config).await.clone()
    }

    async fn bind_to_admin(&self, namespace: &str, name: &str) {
        use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
        let client = kube::Client::try_from(self.admin().await).unwrap();
        let binding = json!({
            "metadata": { "name": format!("scenarios:{namespace}:{name}") },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                         "name": "cluster-admin" },
            "subjects": [{ "kind": "ServiceAccount", "namespace": namespace, "name": name }],
        });
        let binding: ClusterRoleBinding = serde_json::from_value(binding).unwrap();
        let api: kube::Api<ClusterRoleBinding> = kube::Api::all(client);
        match api.create(&PostParams::default(), &binding).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("binding {namespace}/{name} to cluster-admin: {error}"),
        }
    }

    /// Starts kube-controller-manager with nothing but what signs approved requests for
    /// certificates; once.
    pub async fn start_signer(&self) {
        let start = async || {
            let signer = "certificatesigningrequest-signing-controller";
            self.control(&format!(
                "start kube-controller-manager --controllers={signer}"
            ))
            .await;
        };
        self.signer.get_or_init(start).await;
    }

    /// Puts an object into etcd, past the API server and its rules.
    pub async fn store(&self, key: &str, object: &Value) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), object.to_string()).unwrap();
        let command = format!("store {key} {}", file.path().display());
        self.control(&command).await;
    }
}

/// Waits until the server knows of the account's rights.
async fn until_allowed(config: kube::Config) {
    use k8s_openapi::api::core::v1::Node;
    let nodes: kube::Api<Node> = kube::Api::all(kube::Client::try_from(config).unwrap());
    let allowed = async {
        while nodes.list_metadata(&ListParams::default()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(AUTHORIZER, allowed).await.unwrap();
}

async fn read(path: &str) -> kube::Config {
    let file = Kubeconfig::read_from(path).unwrap();
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(file, &options).await;
    let mut config = config.unwrap();
    config.default_retry = false;
    config.proxy_url = None;
    config
}
