//! A DNS server for what the name service publishes: A, SRV, TXT and CNAME, over UDP and TCP.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;

use super::Triton;
use super::names::Records;

/// Seconds that an answer may be kept.
const TTL: u32 = 30;
/// The largest answer over UDP; a longer one is marked as cut, and asked for again over TCP.
const DATAGRAM: usize = 1232;
/// How long a TCP connection may say nothing.
const SILENT: Duration = Duration::from_secs(10);
/// TCP connections at once.
const CONNECTIONS: usize = 64;
/// The length of a message's head.
const HEAD: usize = 12;

const A: u16 = 1;
const CNAME: u16 = 5;
const TXT: u16 = 16;
const SRV: u16 = 33;
const ANY: u16 = 255;

/// Why there is no DNS server.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen for DNS on {address}")]
pub struct DnsError {
    pub address: SocketAddr,
    pub source: io::Error,
}

/// A running DNS server. Dropping it stops it.
#[derive(Debug)]
pub struct Dns {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Dns {
    /// Serves the names of a cloud, over UDP and TCP. Port 0 picks a free one.
    pub async fn serve(cloud: &Arc<Triton>, address: SocketAddr) -> Result<Self, DnsError> {
        let failed = |source| DnsError { address, source };
        let streams = TcpListener::bind(address).await.map_err(failed)?;
        let address = streams.local_addr().map_err(failed)?;
        let datagrams = UdpSocket::bind(address).await.map_err(failed)?;
        let mut tasks = JoinSet::new();
        tasks.spawn(serve_datagrams(Arc::clone(cloud), datagrams));
        tasks.spawn(serve_streams(Arc::clone(cloud), streams));
        Ok(Self {
            address,
            _tasks: tasks,
        })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }
}

async fn serve_datagrams(cloud: Arc<Triton>, socket: UdpSocket) {
    let mut buffer = [0; 4096];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else {
            continue;
        };
        if let Some(mut answer) = cloud.answer_dns(&buffer[..length]) {
            if answer.len() > DATAGRAM {
                answer.truncate(question_end(&answer).unwrap_or(HEAD));
                answer[2] |= 0x02;
                answer[6..HEAD].fill(0);
            }
            // A lost answer is asked for again.
            let _ = socket.send_to(&answer, from).await;
        }
    }
}

async fn serve_streams(cloud: Arc<Triton>, listener: TcpListener) {
    let mut open = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        while open.len() >= CONNECTIONS {
            let _ = open.join_next().await;
        }
        let cloud = Arc::clone(&cloud);
        open.spawn(async move {
            // Whoever falls silent or goes away is let go.
            let _ = serve_stream(&cloud, stream).await;
        });
    }
}

async fn serve_stream(cloud: &Triton, mut stream: TcpStream) -> io::Result<()> {
    loop {
        let length = tokio::time::timeout(SILENT, stream.read_u16()).await??;
        let mut query = vec![0; usize::from(length)];
        tokio::time::timeout(SILENT, stream.read_exact(&mut query)).await??;
        let Some(answer) = cloud.answer_dns(&query) else {
            return Ok(());
        };
        let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
        stream.write_u16(length).await?;
        stream.write_all(&answer).await?;
    }
}

/// Where the question of a message ends.
fn question_end(message: &[u8]) -> Option<usize> {
    let mut at = HEAD;
    loop {
        match *message.get(at)? {
            0 => return Some(at + 5).filter(|end| *end <= message.len()),
            length if length < 64 => at += 1 + usize::from(length),
            _ => return None,
        }
    }
}

/// The name in a question, in lower case.
fn name_of(question: &[u8]) -> Option<String> {
    let mut labels = Vec::new();
    let mut rest = question;
    loop {
        let (length, after) = rest.split_first()?;
        if *length == 0 {
            return Some(labels.join("."));
        }
        let (label, after) = after.split_at_checked(usize::from(*length))?;
        labels.push(String::from_utf8_lossy(label).to_lowercase());
        rest = after;
    }
}

/// A name as it is written in a message.
fn written(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        bytes.push(u8::try_from(label.len().min(63)).unwrap_or(63));
        bytes.extend(label.bytes().take(63));
    }
    bytes.push(0);
    bytes
}

/// One record about the name of the question, or about another one.
fn record(owner: Option<&str>, kind: u16, data: &[u8]) -> Vec<u8> {
    // The name of the question stands at its beginning.
    let mut bytes = owner.map_or_else(|| vec![0xc0, 0x0c], written);
    bytes.extend(kind.to_be_bytes());
    bytes.extend(1u16.to_be_bytes());
    bytes.extend(TTL.to_be_bytes());
    bytes.extend(u16::try_from(data.len()).unwrap_or_default().to_be_bytes());
    bytes.extend(data);
    bytes
}

fn service(port: u16, target: &str) -> Vec<u8> {
    let head = [0u16, 10, port].into_iter().flat_map(u16::to_be_bytes);
    head.chain(written(target)).collect()
}

fn records_of(records: &Records, kind: u16) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    if kind == A || kind == ANY {
        found.extend(
            records
                .addresses
                .iter()
                .map(|it| record(None, A, &it.octets())),
        );
    }
    if kind == SRV || kind == ANY {
        let all = records.services.iter();
        found.extend(all.map(|(port, target)| record(None, SRV, &service(*port, target))));
    }
    if kind == TXT || kind == ANY {
        found.extend(records.texts.iter().map(|text| {
            let text = &text.as_bytes()[..text.len().min(255)];
            let length = u8::try_from(text.len()).unwrap_or(255);
            record(None, TXT, &[&[length], text].concat())
        }));
    }
    found
}

impl Triton {
    /// The answer to a DNS message; none to what is no question.
    pub(super) fn answer_dns(&self, query: &[u8]) -> Option<Vec<u8>> {
        let end = question_end(query)?;
        let question = &query[HEAD..end];
        let is_one = query[2] & 0x80 == 0 && query[4..6] == [0, 1];
        if !is_one {
            return None;
        }
        let name = name_of(question)?;
        let kind = u16::from_be_bytes([question[question.len() - 4], question[question.len() - 3]]);
        let ordinary = query[2] & 0x78 == 0;
        let found = if ordinary {
            self.look_up(&name, kind)
        } else {
            Some(Vec::new())
        };
        let code = match &found {
            _ if !ordinary => 4,
            Some(_) => 0,
            None => 3,
        };
        let records = found.unwrap_or_default();
        let mut answer = query[..2].to_vec();
        // An answer, by who knows, to a question that may have wanted more.
        answer.extend([0x84 | (query[2] & 0x79), code]);
        let count = u16::try_from(records.len()).unwrap_or(u16::MAX);
        answer.extend([0, 1].into_iter().chain(count.to_be_bytes()).chain([0; 4]));
        answer.extend(question);
        for record in records {
            answer.extend(record);
        }
        Some(answer)
    }

    /// The records of a name; none if there is no such name.
    fn look_up(&self, name: &str, kind: u16) -> Option<Vec<Vec<u8>>> {
        self.with(|cloud| {
            if let Some(records) = cloud.names.records.get(name) {
                return Some(records_of(records, kind));
            }
            let metrics = cloud.services.get("cmon")?;
            let metrics = url::Url::parse(metrics).ok()?.host_str()?.to_lowercase();
            let local = Ipv4Addr::LOCALHOST.octets();
            let address = matches!(kind, A | ANY);
            if name == metrics {
                return Some(
                    address
                        .then(|| record(None, A, &local))
                        .into_iter()
                        .collect(),
                );
            }
            let (machine, rest) = name.split_once('.')?;
            if rest != metrics || !cloud.machines.contains_key(machine) {
                return None;
            }
            let mut found = vec![record(None, CNAME, &written(&metrics))];
            found.extend(address.then(|| record(Some(&metrics), A, &local)));
            Some(found)
        })
    }
}
