//! An address of its own for each server.
//!
//! A port found by "bind 0, close, use it" lies in the range of outgoing connections and can be
//! taken by one before the server binds it, and again between a kill and a restart. On Linux all
//! of 127.0.0.0/8 is the machine itself, so each server gets an address nobody else uses, with its
//! standard port. Elsewhere only 127.0.0.1 is there, and free ports must do.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    sync::{Mutex, PoisonError},
};

use crate::{Result, TestbedError};

/// The addresses this process has given out: a killed server holds on to its own.
static TAKEN: Mutex<Taken> = Mutex::new(Taken { last: 0, hosts: BTreeSet::new() });

struct Taken {
    last: u8,
    hosts: BTreeSet<u8>,
}

/// An address of its own, until dropped.
#[derive(Debug)]
pub(crate) struct Address {
    ip: Ipv4Addr,
    /// The real port of each standard port.
    ports: BTreeMap<u16, u16>,
}

impl Address {
    /// Finds an address where all these ports are free.
    pub(crate) fn claim(ports: &[u16]) -> Result<Address> {
        if !cfg!(target_os = "linux") {
            return Address::on_localhost(ports);
        }
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..=u8::MAX {
            taken.last = taken.last.wrapping_add(1);
            let host = taken.last;
            // 0 and 255 as last part look like a network and a broadcast address.
            if matches!(host, 0 | 255) || taken.hosts.contains(&host) {
                continue;
            }
            let ip = own(std::process::id(), host);
            // Two processes can share the low bits of their number, and a user can run a server
            // on any of these addresses.
            if ports.iter().all(|port| TcpListener::bind((ip, *port)).is_ok()) {
                taken.hosts.insert(host);
                return Ok(Address { ip, ports: ports.iter().map(|port| (*port, *port)).collect() });
            }
        }
        Err(exhausted())
    }

    fn on_localhost(ports: &[u16]) -> Result<Address> {
        let ip = Ipv4Addr::LOCALHOST;
        // All are held until all are found, or one port would be found twice.
        let held = ports.iter().map(|port| Ok((*port, TcpListener::bind((ip, 0))?)));
        let held = held.collect::<std::io::Result<Vec<_>>>().map_err(TestbedError::io("bind a free port"))?;
        let ports = held.iter().map(|(port, listener)| Ok((*port, listener.local_addr()?.port())));
        let ports = ports.collect::<std::io::Result<_>>().map_err(TestbedError::io("read a bound port"))?;
        Ok(Address { ip, ports })
    }

    pub(crate) fn ip(&self) -> IpAddr {
        self.ip.into()
    }

    /// The real address of this standard port, one of those claimed.
    pub(crate) fn socket(&self, port: u16) -> SocketAddr {
        (self.ip, self.ports.get(&port).copied().unwrap_or(port)).into()
    }
}

impl Drop for Address {
    fn drop(&mut self) {
        if !self.ip.is_loopback() || self.ip == Ipv4Addr::LOCALHOST {
            return;
        }
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let [_, _, _, host] = self.ip.octets();
        taken.hosts.remove(&host);
    }
}

/// 127.x.y.host, with x.y from the process; never 127.0.y.z, where people's own services are.
fn own(pid: u32, host: u8) -> Ipv4Addr {
    let [_, _, high, low] = pid.to_be_bytes();
    Ipv4Addr::new(127, high.checked_add(1).unwrap_or(1), low, host)
}

fn exhausted() -> TestbedError {
    TestbedError::Io {
        what: "find an address for a server".to_owned(),
        source: std::io::ErrorKind::AddrInUse.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_claim_is_another_address() {
        let all: Vec<_> = (0..20).map(|_| Address::claim(&[2181, 2888]).unwrap()).collect();
        let distinct: BTreeSet<_> = all.iter().map(|address| address.socket(2181)).collect();
        assert_eq!(distinct.len(), all.len());
    }

    #[test]
    fn localhost_gets_distinct_ports() {
        let address = Address::on_localhost(&[1, 2, 3]).unwrap();
        let ports: BTreeSet<_> = [1, 2, 3].map(|port| address.socket(port).port()).into();
        assert_eq!(ports.len(), 3);
    }

    #[test]
    fn no_process_is_given_the_usual_loopback_net() {
        for pid in [0, 1, 255, 256, 65_535, 0xff00, 4_194_303] {
            let [net, x, ..] = own(pid, 1).octets();
            assert_eq!(net, 127);
            assert_ne!(x, 0, "pid {pid}");
        }
    }
}
