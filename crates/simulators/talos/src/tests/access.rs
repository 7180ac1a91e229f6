use bowline_talos_api::specs::PlatformMetadataSpec;
use rcgen::ExtendedKeyUsagePurpose;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

async fn works(caller: &Caller) -> Result<(), Status> {
    let read = caller.single::<PlatformMetadataSpec>("10.0.0.5").await;
    read.map(|_| ())
}

#[tokio::test(start_paused = true)]
async fn roles_say_who_may_read() {
    let sim = Harness::new();
    let denied = (Code::PermissionDenied, "not authorized".to_owned());
    for (roles, may) in [
        (&["os:reader"][..], true),
        (&["os:operator"], true),
        (&["os:admin"], true),
        (&["os:etcd:backup", "os:reader"], true),
        (&["os:impersonator"], false),
        (&["os:etcd:backup"], false),
        (&[], false),
    ] {
        let caller = sim.caller(&Harness::access().roles(roles)).await.unwrap();
        let read = works(&caller).await;
        let version = caller.version(&[]).await;
        if may {
            assert!(read.is_ok() && version.is_ok(), "{roles:?}");
        } else {
            assert_eq!(reported(read), denied, "{roles:?}");
            assert_eq!(reported(version), denied, "{roles:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn only_administrators_see_what_is_sensitive() {
    let sim = Harness::new();
    let request = || GetRequest {
        namespace: "config".to_owned(),
        r#type: "MachineConfigs.config.talos.dev".to_owned(),
        id: "v1alpha1".to_owned(),
        options: None,
    };
    let reader = sim.reader().await;
    let refused = reported(reader.get(request(), &[]).await);
    assert_eq!(
        refused,
        (Code::PermissionDenied, "not authorized".to_owned())
    );
    let admin = sim.caller(&Harness::access().roles(&["os:admin"])).await;
    let missing = reported(admin.unwrap().get(request(), &[]).await);
    assert_eq!(missing.0, Code::NotFound);
}

#[tokio::test(start_paused = true)]
async fn a_certificate_is_for_clients_and_nothing_else() {
    let sim = Harness::new();
    let (client, server) = (
        ExtendedKeyUsagePurpose::ClientAuth,
        ExtendedKeyUsagePurpose::ServerAuth,
    );
    for purposes in [&[client.clone(), server.clone()][..], &[server], &[]] {
        let access = Harness::access().purposes(purposes);
        assert!(sim.caller(&access).await.is_err(), "{purposes:?}");
    }
    assert!(
        sim.caller(&Harness::access().purposes(&[client]))
            .await
            .is_ok()
    );
}

#[tokio::test(start_paused = true)]
async fn an_expired_certificate_is_refused_but_an_open_connection_goes_on() {
    let sim = Harness::new();
    let access = Harness::access().lifetime(HOUR);
    let file = sim.talos.talosconfig(&access).unwrap();
    let caller = sim.connect(&file, "10.0.0.2").await.unwrap();
    tokio::time::sleep(Duration::from_secs(3599)).await;
    assert!(sim.connect(&file, "10.0.0.2").await.is_ok());
    tokio::time::sleep(Duration::from_secs(2)).await;
    works(&caller).await.unwrap();
    let refused = sim.connect(&file, "10.0.0.2").await.err().unwrap();
    assert!(refused.contains("CertificateExpired"), "{refused}");
    sim.talos.drop_connections();
    assert!(works(&caller).await.is_err());
    assert!(sim.caller(&access).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn who_has_no_certificate_or_speaks_another_protocol_is_turned_away() {
    let sim = Harness::new();
    let file = sim.talos.talosconfig(&Harness::access()).unwrap();
    for protocols in [&[&b"http/1.1"[..]][..], &[]] {
        let stream = sim.world.pipes.connect(AUTHORITY).unwrap();
        let turned_away = Caller::over(stream, &file, "10.0.0.2", protocols).await;
        assert!(turned_away.is_err(), "{protocols:?}");
    }
    let line = |name: &str| {
        let found = file.lines().find(|line| line.trim().starts_with(name));
        found.unwrap().to_owned()
    };
    let bare = file.replace(&line("crt:"), "    crt: ''");
    let refused = sim.connect(&bare, "10.0.0.2").await.err().unwrap();
    assert!(refused.contains("CertificateRequired"), "{refused}");
    let other = Harness::with("{cluster_name: other, machines: []}");
    let world = World::simulated(8);
    let foreign = Talos::new(&world, Config::default()).unwrap();
    let mut theirs = foreign.talosconfig(&Harness::access()).unwrap();
    // Their certificate, our authority: the client trusts us, but we do not trust the client.
    let field = |text: &str| {
        let line = text.lines().find(|line| line.trim().starts_with("ca:"));
        line.unwrap().to_owned()
    };
    theirs = theirs.replace(&field(&theirs), &field(&file));
    assert!(sim.connect(&theirs, "10.0.0.2").await.is_err());
    let named = other.talos.talosconfig(&Harness::access()).unwrap();
    assert!(named.contains("cluster: \"other\""), "{named}");
}

#[tokio::test(start_paused = true)]
async fn the_server_is_known_by_its_names() {
    let sim = Harness::new();
    let file = sim.talos.talosconfig(&Harness::access()).unwrap();
    for name in [
        "10.0.0.2",
        "127.0.0.1",
        "::1",
        "localhost",
        "talos.default",
        "cp-1",
    ] {
        assert!(sim.connect(&file, name).await.is_ok(), "{name}");
    }
    assert!(sim.connect(&file, "10.0.0.3").await.is_err());
    sim.talos.set_server_names(Some(&["elsewhere.example"]));
    assert!(sim.connect(&file, "10.0.0.2").await.is_err());
    assert!(sim.connect(&file, "elsewhere.example").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn authorities_are_rotated_in_two_steps() {
    let sim = Harness::new();
    let talos = &sim.talos;
    let old = talos.talosconfig(&Harness::access()).unwrap();
    assert!(!talos.finish_rotation());
    talos.rotate_authority().unwrap();
    let both = talos.talosconfig(&Harness::access()).unwrap();
    for file in [&old, &both] {
        assert!(sim.connect(file, "10.0.0.2").await.is_ok());
    }
    let open = sim.connect(&old, "10.0.0.2").await.unwrap();
    assert!(talos.finish_rotation());
    works(&open).await.unwrap();
    assert!(sim.connect(&old, "10.0.0.2").await.is_err());
    assert!(sim.connect(&both, "10.0.0.2").await.is_ok());
    let new = talos.talosconfig(&Harness::access()).unwrap();
    assert!(sim.connect(&new, "10.0.0.2").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_authority_may_sign_with_ecdsa() {
    let sim = Harness::with(&format!("algorithm: ecdsa\n{FIXTURE}"));
    works(&sim.reader().await).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_seed_gives_one_talosconfig() {
    let issue = || {
        Harness::new()
            .talos
            .talosconfig(&Harness::access())
            .unwrap()
    };
    assert_eq!(issue(), issue());
}
