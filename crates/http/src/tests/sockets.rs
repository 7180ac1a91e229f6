//! Real sockets: TLS with a CA of our own, client certificates, proxies.
