//! The language of firewall rules: read, checked, and written as the server does.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

/// The most targets of one side.
const MOST_TARGETS: usize = 24;

/// A rule, taken apart. Lists are sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Parsed {
    pub(super) from: Vec<Target>,
    pub(super) to: Vec<Target>,
    pub(super) allow: bool,
    pub(super) protocol: Protocol,
    pub(super) ports: Ports,
    /// What follows `icmp`, as it was written.
    types: Vec<String>,
    priority: Option<u32>,
}

/// What one side names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Target {
    Any,
    AllVms,
    Ip(IpAddr),
    Subnet(IpNet),
    Tag(String, Option<String>),
    Vm(String),
}

/// What is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Protocol {
    Tcp,
    Udp,
    Icmp,
    Icmp6,
    Ah,
    Esp,
}

const PROTOCOLS: [(Protocol, &str); 6] = [
    (Protocol::Tcp, "tcp"),
    (Protocol::Udp, "udp"),
    (Protocol::Icmp, "icmp"),
    (Protocol::Icmp6, "icmp6"),
    (Protocol::Ah, "ah"),
    (Protocol::Esp, "esp"),
];

impl Protocol {
    /// From its name.
    pub(in super::super) fn parse(word: &str) -> Option<Self> {
        let word = word.to_lowercase();
        PROTOCOLS.iter().find(|row| row.1 == word).map(|row| row.0)
    }
}

/// Ports of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ports {
    None,
    All,
    These(Vec<u16>),
    Ranges(Vec<(u16, u16)>),
}

impl Ports {
    pub(super) fn contain(&self, port: u16) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::These(ports) => ports.contains(&port),
            Self::Ranges(ranges) => ranges.iter().any(|(a, b)| (*a..=*b).contains(&port)),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::None | Self::All => 0,
            Self::These(ports) => ports.len(),
            Self::Ranges(ranges) => ranges.len(),
        }
    }
}

/// A word of a rule. What was quoted is never a keyword.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Quoted(String),
    Sign(char),
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            _ if letter.is_whitespace() => {}
            '(' | ')' | '=' | ',' => tokens.push(Token::Sign(letter)),
            '"' => {
                let mut word = String::new();
                loop {
                    match letters.next() {
                        Some('"') => break,
                        Some('\\') => word.extend(letters.next()),
                        Some(other) => word.push(other),
                        None => return Err("a quote is not closed".to_owned()),
                    }
                }
                tokens.push(Token::Quoted(word));
            }
            _ => {
                let mut word = String::from(letter);
                while let Some(next) = letters.peek() {
                    if next.is_whitespace() || "()=,\"".contains(*next) {
                        break;
                    }
                    word.extend(letters.next());
                }
                tokens.push(Token::Word(word));
            }
        }
    }
    Ok(tokens)
}

/// Reads tokens from the left.
struct Reader<'a>(&'a [Token]);

impl Reader<'_> {
    fn is(&self, keyword: &str) -> bool {
        matches!(self.0.first(), Some(Token::Word(word)) if word.eq_ignore_ascii_case(keyword))
    }

    fn takes(&mut self, keyword: &str) -> bool {
        let found = self.is(keyword);
        if found {
            self.0 = &self.0[1..];
        }
        found
    }

    fn sign(&mut self, sign: char) -> bool {
        let found = self.0.first() == Some(&Token::Sign(sign));
        if found {
            self.0 = &self.0[1..];
        }
        found
    }

    fn expect(&mut self, keyword: &str) -> Result<(), String> {
        if self.takes(keyword) {
            return Ok(());
        }
        Err(format!("expected {keyword} but found {}", self.seen()))
    }

    fn seen(&self) -> String {
        match self.0.first() {
            None => "the end".to_owned(),
            Some(Token::Word(word) | Token::Quoted(word)) => format!("\"{word}\""),
            Some(Token::Sign(sign)) => format!("\"{sign}\""),
        }
    }

    fn word(&mut self, what: &str) -> Result<String, String> {
        let (word, rest) = match self.0.split_first() {
            Some((Token::Word(word) | Token::Quoted(word), rest)) => (word.clone(), rest),
            _ => return Err(format!("expected {what} but found {}", self.seen())),
        };
        self.0 = rest;
        Ok(word)
    }

    fn number(&mut self) -> Result<u16, String> {
        let word = self.word("a port")?;
        let number = word.parse().ok().filter(|port| *port > 0);
        number.ok_or_else(|| format!("\"{word}\" is no port"))
    }

    fn target(&mut self) -> Result<Target, String> {
        if self.takes("any") {
            return Ok(Target::Any);
        }
        if self.takes("all") {
            self.expect("vms")?;
            return Ok(Target::AllVms);
        }
        if self.takes("ip") {
            let word = self.word("an address")?;
            let address = word.parse().map(Target::Ip);
            return address.map_err(|_| format!("IP \"{word}\" is invalid"));
        }
        if self.takes("subnet") {
            let word = self.word("a subnet")?;
            let subnet = word.parse::<IpNet>().map(|net| Target::Subnet(net.trunc()));
            return subnet
                .map_err(|_| format!("Subnet \"{word}\" is invalid (must be in CIDR format)"));
        }
        if self.takes("vm") {
            let word = self.word("a machine's id")?;
            let id = uuid::Uuid::try_parse(&word).map(|id| Target::Vm(id.to_string()));
            return id.map_err(|_| format!("UUID \"{word}\" is invalid"));
        }
        if self.takes("tag") {
            let key = self.word("a tag")?;
            let value = if self.sign('=') {
                Some(self.word("a value")?)
            } else {
                None
            };
            return Ok(Target::Tag(key, value));
        }
        Err(format!("expected a target but found {}", self.seen()))
    }

    fn side(&mut self) -> Result<Vec<Target>, String> {
        if !self.sign('(') {
            return Ok(vec![self.target()?]);
        }
        let mut all = vec![self.target()?];
        while self.takes("or") {
            all.push(self.target()?);
        }
        if !self.sign(')') {
            return Err(format!("expected OR or \")\" but found {}", self.seen()));
        }
        if all.contains(&Target::Any) && all.len() > 1 {
            return Err("\"any\" cannot be part of a list".to_owned());
        }
        all.sort();
        all.dedup();
        if all.len() > MOST_TARGETS {
            return Err(format!(
                "maximum of {MOST_TARGETS} targets allowed per side"
            ));
        }
        Ok(all)
    }

    fn ports(&mut self) -> Result<Ports, String> {
        if self.takes("ports") {
            let mut ranges = Vec::new();
            loop {
                ranges.push(self.range()?);
                if !self.sign(',') {
                    ranges.sort_unstable();
                    return Ok(Ports::Ranges(ranges));
                }
            }
        }
        let listed = self.sign('(');
        self.expect("PORT")?;
        if self.takes("all") {
            return Ok(Ports::All);
        }
        let mut ports = vec![self.number()?];
        while listed && self.takes("and") {
            self.expect("PORT")?;
            ports.push(self.number()?);
        }
        if listed && !self.sign(')') {
            return Err(format!("expected AND or \")\" but found {}", self.seen()));
        }
        ports.sort_unstable();
        ports.dedup();
        Ok(Ports::These(ports))
    }

    /// `a`, `a - b` or `a-b`.
    fn range(&mut self) -> Result<(u16, u16), String> {
        let word = self.word("ports")?;
        let bad = || format!("\"{word}\" is no port");
        let (first, last) = match word.split_once('-') {
            Some((a, b)) if !b.is_empty() => (a.to_owned(), Some(b.to_owned())),
            _ if self.takes("-") => (word.clone(), Some(self.word("a port")?)),
            _ => (word.clone(), None),
        };
        let first: u16 = first.parse().map_err(|_| bad())?;
        let last = last.map_or(Ok(first), |last| last.parse().map_err(|_| bad()))?;
        if first > last {
            Err(bad())
        } else {
            Ok((first, last))
        }
    }

    /// `TYPE 8 CODE 0`, `TYPE all` or a list of them.
    fn types(&mut self) -> Result<Vec<String>, String> {
        let listed = self.sign('(');
        let mut all = Vec::new();
        loop {
            self.expect("TYPE")?;
            let mut text = format!("TYPE {}", self.word("a type")?);
            if self.takes("code") {
                text = format!("{text} CODE {}", self.word("a code")?);
            }
            all.push(text);
            if !(listed && self.takes("and")) {
                break;
            }
        }
        if listed && !self.sign(')') {
            return Err(format!("expected AND or \")\" but found {}", self.seen()));
        }
        all.sort();
        Ok(all)
    }
}

impl Parsed {
    /// Reads a rule.
    pub(in super::super) fn parse(text: &str, most_ports: usize) -> Result<Self, String> {
        let tokens = tokens(text)?;
        let mut reader = Reader(&tokens);
        reader.expect("FROM")?;
        let from = reader.side()?;
        reader.expect("TO")?;
        let to = reader.side()?;
        let allow = reader.takes("allow");
        if !allow {
            reader.expect("BLOCK")?;
        }
        let word = reader.word("a protocol")?;
        let protocol =
            Protocol::parse(&word).ok_or_else(|| format!("unknown protocol \"{word}\""))?;
        let (mut ports, mut types) = (Ports::None, Vec::new());
        match protocol {
            Protocol::Tcp | Protocol::Udp => ports = reader.ports()?,
            Protocol::Icmp | Protocol::Icmp6 => types = reader.types()?,
            Protocol::Ah | Protocol::Esp => {}
        }
        let priority = if reader.takes("priority") {
            Some(reader.number()?.into())
        } else {
            None
        };
        if !reader.0.is_empty() {
            return Err(format!("expected the end but found {}", reader.seen()));
        }
        if ports.len() > most_ports {
            return Err(format!("maximum of {most_ports} ports allowed"));
        }
        let ours =
            |target: &Target| matches!(target, Target::AllVms | Target::Tag(..) | Target::Vm(_));
        if !from.iter().chain(&to).any(ours) {
            return Err("rule does not affect VMs".to_owned());
        }
        Ok(Self {
            from,
            to,
            allow,
            protocol,
            ports,
            types,
            priority,
        })
    }
}

/// A word of a tag, quoted only when it must be.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::AllVms => f.write_str("all vms"),
            Self::Ip(ip) => write!(f, "ip {ip}"),
            Self::Subnet(net) => write!(f, "subnet {net}"),
            Self::Vm(id) => write!(f, "vm {id}"),
            Self::Tag(key, None) => write!(f, "tag {}", quoted(key)),
            Self::Tag(key, Some(value)) => write!(f, "tag {} = {}", quoted(key), quoted(value)),
        }
    }
}

fn listed(all: &[String], between: &str) -> String {
    match all {
        [one] => one.clone(),
        many => format!("({})", many.join(between)),
    }
}

impl fmt::Display for Parsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |targets: &[Target]| {
            let all: Vec<String> = targets.iter().map(Target::to_string).collect();
            listed(&all, " OR ")
        };
        let action = if self.allow { "ALLOW" } else { "BLOCK" };
        let protocol = PROTOCOLS.iter().find(|row| row.0 == self.protocol);
        let protocol = protocol.map_or("", |row| row.1);
        write!(
            f,
            "FROM {} TO {} {action} {protocol}",
            side(&self.from),
            side(&self.to)
        )?;
        match &self.ports {
            Ports::None => {}
            Ports::All => f.write_str(" PORT all")?,
            Ports::These(ports) => {
                let all: Vec<String> = ports.iter().map(|port| format!("PORT {port}")).collect();
                write!(f, " {}", listed(&all, " AND "))?;
            }
            Ports::Ranges(ranges) => {
                let all = ranges.iter().map(|(a, b)| {
                    if a == b {
                        a.to_string()
                    } else {
                        format!("{a} - {b}")
                    }
                });
                write!(f, " PORTS {}", all.collect::<Vec<_>>().join(", "))?;
            }
        }
        if !self.types.is_empty() {
            write!(f, " {}", listed(&self.types, " AND "))?;
        }
        match self.priority {
            Some(priority) => write!(f, " PRIORITY {priority}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Result<String, String> {
        Parsed::parse(text, 24).map(|parsed| parsed.to_string())
    }

    #[test]
    fn rules_are_written_as_the_server_does() {
        for (given, wanted) in [
            (
                "from any to tag \"bowline.uid\" = \"3f0c\" allow tcp (port 443 AND port 80)",
                "FROM any TO tag \"bowline.uid\" = 3f0c ALLOW tcp (PORT 80 AND PORT 443)",
            ),
            (
                "FROM (subnet 203.0.113.0/24 OR ip 10.0.0.1) TO all vms BLOCK udp PORTS 1-5, 9 - 12, 7",
                "FROM (ip 10.0.0.1 OR subnet 203.0.113.0/24) TO all vms BLOCK udp PORTS 1 - 5, 7, 9 - 12",
            ),
            (
                "FROM tag a TO any ALLOW icmp TYPE 8 CODE 0",
                "FROM tag a TO any ALLOW icmp TYPE 8 CODE 0",
            ),
            (
                "FROM tag a TO any ALLOW tcp PORT all",
                "FROM tag a TO any ALLOW tcp PORT all",
            ),
            ("FROM any TO tag a ALLOW esp", "FROM any TO tag a ALLOW esp"),
        ] {
            let once = written(given).unwrap();
            assert_eq!(once, wanted);
            assert_eq!(written(&once).unwrap(), wanted, "writing is stable");
        }
    }

    #[test]
    fn wrong_rules_are_refused() {
        let ports: Vec<String> = (1..=25).map(|port| format!("PORT {port}")).collect();
        let many = format!("FROM any TO tag a ALLOW tcp ({})", ports.join(" AND "));
        let ips: Vec<String> = (1..=25).map(|n| format!("ip 10.0.0.{n}")).collect();
        let wide = format!("FROM ({}) TO tag a ALLOW tcp PORT 1", ips.join(" OR "));
        for (given, fragment) in [
            ("FROM any TO any ALLOW tcp PORT 80", "does not affect VMs"),
            (
                "FROM (any OR ip 1.2.3.4) TO tag a ALLOW tcp PORT 80",
                "cannot be part of a list",
            ),
            ("FROM any TO tag a ALLOW sctp PORT 80", "unknown protocol"),
            ("FROM any TO tag a ALLOW tcp PORT 0", "no port"),
            ("FROM any TO tag a ALLOW tcp", "the end"),
            ("FROM ip 300.1.1.1 TO tag a ALLOW tcp PORT 1", "invalid"),
            ("TO tag a ALLOW tcp PORT 1", "expected FROM"),
            (&many, "24 ports"),
            (&wide, "24 targets"),
        ] {
            let problem = written(given).unwrap_err();
            assert!(problem.contains(fragment), "{given}: {problem}");
        }
        assert!(Parsed::parse("FROM any TO tag a ALLOW tcp (PORT 1 AND PORT 2)", 1).is_err());
    }
}
