use super::*;

async fn shell(starter: &Starter, folder: &Path, script: &str) -> Process {
    let arguments = ["-c".to_owned(), script.to_owned()];
    starter
        .start(Server::Etcd, Path::new("/bin/sh"), &arguments, folder)
        .await
        .unwrap()
}

/// A named pipe: who opens it waits for the other side.
async fn pipe(folder: &Path) -> PathBuf {
    let path = folder.join("pipe");
    let made = Command::new("mkfifo").arg(&path).status().await.unwrap();
    assert!(made.success());
    path
}

#[tokio::test]
async fn a_process_that_serves_and_ends_by_itself_is_a_surprise() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = pipe(folder.path()).await;
    let starter = Starter::new().await.unwrap();
    let script = "read word <pipe; echo $word; exit 3";
    let mut process = shell(&starter, folder.path(), script).await;
    let surprise = process.is_serving().unwrap();
    tokio::fs::write(pipe, "bad luck\n").await.unwrap();
    assert_eq!(surprise.await.unwrap().code(), Some(3));
    process.end().await_it().await;
    assert_eq!(process.tail(), "bad luck");
    assert!(process.is_serving().is_none());
}

#[tokio::test]
async fn a_process_that_is_told_to_stop_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = pipe(folder.path()).await;
    let starter = Starter::new().await.unwrap();
    for (signal, said) in [(Signal::Terminate, "good-bye"), (Signal::Kill, "")] {
        let script = "trap 'echo good-bye; exit' TERM; >pipe; while :; do sleep 0.1; done";
        let mut process = shell(&starter, folder.path(), script).await;
        let log = process.log().to_owned();
        let surprise = process.is_serving().unwrap();
        // It has set its trap when it opens the pipe.
        tokio::fs::read(&pipe).await.unwrap();
        process.stop(signal).await;
        assert!(surprise.await.is_err(), "{signal:?}");
        assert_eq!(tail(&log), said, "{signal:?}");
        std::fs::remove_file(log).unwrap();
    }
}

#[tokio::test]
async fn a_process_dies_with_whoever_holds_it_and_with_the_thread_that_started_it() {
    let folder = tempfile::tempdir().unwrap();
    let starter = Starter::new().await.unwrap();
    let process = shell(&starter, folder.path(), "exec sleep 600").await;
    let end = process.end();
    drop(process);
    end.await_it().await;
    if starter.tied {
        let pipe = pipe(folder.path()).await;
        let process = shell(&starter, folder.path(), ">pipe; exec sleep 600").await;
        // When it opens the pipe, `setpriv` has done its work.
        tokio::fs::read(pipe).await.unwrap();
        drop(starter);
        process.end().await_it().await;
    }
}

#[test]
fn only_the_end_of_a_long_log_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    std::fs::write(&log, format!("{}\nthe reason\n", "x".repeat(5000))).unwrap();
    let end = tail(&log);
    assert!(end.ends_with("\nthe reason") && end.len() < 2001);
    assert!(tail(&folder.path().join("none")).contains("No such file"));
}
