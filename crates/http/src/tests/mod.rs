//! The client against real HTTP servers: over pipes with a paused clock, over TLS sockets, and
//! through proxies.

mod calls;
mod secrets;
mod server;
mod sockets;
