//! A server that answers every request in one way, meant to do harm.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::harness::ANY;

/// More than any process may keep.
const GIGABYTE: usize = 1 << 30;
const PIECE: usize = 1 << 16;
/// Machines on a page of Triton's.
const ON_A_PAGE: usize = 1000;

/// How it answers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Manner {
    /// A gigabyte of JSON, of which nobody said how long it would be.
    Streamed,
    /// The same, announced.
    Announced,
    /// Lists are empty, and each machine is a gigabyte.
    Machines,
    /// Go and ask there.
    Elsewhere(SocketAddr),
    /// Compressed, although nobody asked for that: a few kilobytes that would become a gigabyte.
    Bomb,
    /// A header after the other.
    Headers,
    /// A byte a second.
    Dripping,
    /// Every page is full, and there is another one.
    Pages,
}

/// Ends when it is dropped.
pub(crate) struct Hostile {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Hostile {
    pub(crate) async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind(ANY).await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                // Whoever has enough closes the connection, which ends it.
                tokio::spawn(async move { serve(stream, manner).await });
            }
        });
        Self {
            address,
            connections,
            task,
        }
    }

    /// How many have come.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

async fn serve(stream: TcpStream, manner: Manner) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(path) = asked(&mut stream).await? {
        let is_list = !path.contains("servers/");
        match manner {
            Manner::Machines if is_list => stream.write_all(&small(b"[]", "")).await?,
            Manner::Machines | Manner::Streamed => {
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
                let head = format!("{head}transfer-encoding: chunked\r\n\r\n1\r\n[\r\n");
                stream.write_all(head.as_bytes()).await?;
                let piece = format!("{PIECE:x}\r\n{}\r\n", " ".repeat(PIECE));
                for _ in 0..GIGABYTE / PIECE {
                    stream.write_all(piece.as_bytes()).await?;
                }
                stream.write_all(b"1\r\n]\r\n0\r\n\r\n").await?;
            }
            Manner::Announced => {
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {GIGABYTE}\r\n\r\n");
                stream.write_all(head.as_bytes()).await?;
                let piece = vec![b' '; PIECE];
                for _ in 0..GIGABYTE / PIECE {
                    stream.write_all(&piece).await?;
                }
            }
            Manner::Elsewhere(address) => {
                let head = format!(
                    "HTTP/1.1 307 Go\r\nlocation: http://{address}/v1/servers\r\ncontent-length: 0\r\n\r\n"
                );
                stream.write_all(head.as_bytes()).await?;
            }
            Manner::Bomb => {
                stream
                    .write_all(&small(&bomb(), "content-encoding: gzip\r\n"))
                    .await?;
            }
            Manner::Headers => {
                stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
                let line = format!("x-more: {}\r\n", "y".repeat(1000));
                for _ in 0..GIGABYTE / line.len() {
                    stream.write_all(line.as_bytes()).await?;
                }
            }
            Manner::Dripping => {
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
                    .await?;
                loop {
                    stream.write_all(b" ").await?;
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
            Manner::Pages if path.contains("/machines?") => {
                let count = format!("x-resource-count: {ON_A_PAGE}\r\n");
                stream
                    .write_all(&small(page(&path).as_bytes(), &count))
                    .await?;
            }
            Manner::Pages => {
                let account = r#"{"id": "aaaaaaaa-0000-4000-8000-00000000000a", "login": "acme"}"#;
                stream.write_all(&small(account.as_bytes(), "")).await?;
            }
        }
    }
    Ok(())
}

/// The path of the next request; none if there is none.
async fn asked(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<String>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return Ok(None),
        }
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    Ok(text.split(' ').nth(1).map(str::to_owned))
}

fn small(body: &[u8], headers: &str) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// A page of machines, of which no two have the same id.
fn page(path: &str) -> String {
    let offset = path.split("offset=").nth(1).unwrap_or_default();
    let digits = offset.split('&').next().unwrap_or_default();
    let offset: usize = digits.parse().unwrap_or_default();
    let machine = |number: usize| {
        format!(
            r#"{{"id": "5b1e2d3c-0000-4000-8000-{:012}", "name": "m", "tags": {{"note": "{}"}}}}"#,
            offset + number,
            "x".repeat(1000)
        )
    };
    let machines: Vec<String> = (0..ON_A_PAGE).map(machine).collect();
    format!("[{}]", machines.join(","))
}

/// What gzip makes of very many blanks: stored blocks would be as long as what they hold, so each is one that says
/// "the same again" as often as it may.
fn bomb() -> Vec<u8> {
    // Header: gzip, deflate, no name, no time, no system.
    let mut bytes = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut bits = Bits::default();
    // One block of fixed codes, the last one.
    bits.push(0b1, 1);
    bits.push(0b01, 2);
    bits.push_code(0x30 + u32::from(b' '), 8);
    for _ in 0..GIGABYTE / 258 {
        // Length 258 (code 285), distance 1 (code 0).
        bits.push_code(0b1100_0101, 8);
        bits.push_code(0, 5);
        if bits.bytes.len() > PIECE {
            break;
        }
    }
    bits.push_code(0, 7);
    bytes.extend(bits.bytes);
    bytes
}

/// Bits, the lowest of each byte first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    free: u32,
}

impl Bits {
    fn push(&mut self, value: u32, count: u32) {
        for bit in 0..count {
            if self.free == 0 {
                self.bytes.push(0);
                self.free = 8;
            }
            if let Some(last) = self.bytes.last_mut() {
                *last |= u8::from(value >> bit & 1 == 1) << (8 - self.free);
            }
            self.free -= 1;
        }
    }

    /// A code of Huffman's, whose highest bit comes first.
    fn push_code(&mut self, code: u32, count: u32) {
        for bit in (0..count).rev() {
            self.push(code >> bit & 1, 1);
        }
    }
}
