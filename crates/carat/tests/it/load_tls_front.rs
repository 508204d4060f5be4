//! A TLS proxy in front of a server without TLS, with a chosen behaviour.

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// How the proxy treats its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Correctly.
    Whole,
    /// Every byte of TLS, also of the handshake, is sent in its own packet.
    Dribble,
    /// The connection is closed in the middle of the handshake.
    CloseInside,
    /// The first connection never receives anything.
    FirstSilent,
    /// There is no TLS.
    Plain,
}

/// A self-signed certificate for 127.0.0.1, and its key.
pub(crate) struct Certificate {
    pub(crate) pem: String,
    pub(crate) key_pem: String,
    config: Arc<ServerConfig>,
}

impl Certificate {
    pub(crate) fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let (pem, key_pem) = (made.cert.pem(), made.signing_key.serialize_pem());
        Self { pem, key_pem, config: Arc::new(config) }
    }
}

/// Starts a proxy for `target`; it runs until the test process ends.
pub(crate) fn tls_front(
    target: SocketAddr,
    certificate: &Certificate,
    manner: Manner,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let config = Arc::clone(&certificate.config);
    thread::spawn(move || {
        let mut silent = None;
        for client in listener.incoming().map_while(Result::ok) {
            if manner == Manner::FirstSilent && silent.is_none() {
                silent = Some(client);
                continue;
            }
            client.set_nodelay(true).unwrap();
            let session = Mutex::new(ServerConnection::new(Arc::clone(&config)).unwrap());
            let server = TcpStream::connect(target).unwrap();
            let front = Arc::new(Front { client, server, session, manner });
            let other = Arc::clone(&front);
            thread::spawn(move || front.forward());
            thread::spawn(move || other.answer());
        }
    });
    address
}

struct Front {
    client: TcpStream,
    server: TcpStream,
    session: Mutex<ServerConnection>,
    manner: Manner,
}

impl Front {
    /// From the client to the server, until either ends.
    fn forward(&self) {
        let mut piece = [0; 4096];
        while let Ok(length @ 1..) = (&self.client).read(&mut piece) {
            let mut fresh = &piece[..length];
            if self.manner == Manner::Plain {
                let _ = (&self.client).write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
                break;
            }
            let mut text = Vec::new();
            while !fresh.is_empty() {
                let mut session = self.session.lock().unwrap();
                session.read_tls(&mut fresh).unwrap();
                let state = session.process_new_packets();
                if let Ok(state) = &state {
                    let mut part = vec![0; state.plaintext_bytes_to_read()];
                    session.reader().read_exact(&mut part).unwrap();
                    text.extend(part);
                }
                self.send(&mut session);
                if state.is_err() || self.manner == Manner::CloseInside {
                    return self.close();
                }
            }
            let _ = (&self.server).write_all(&text);
        }
        self.close();
    }

    /// From the server to the client, until either ends.
    fn answer(&self) {
        let mut piece = [0; 4096];
        while let Ok(length @ 1..) = (&self.server).read(&mut piece) {
            let mut session = self.session.lock().unwrap();
            session.writer().write_all(&piece[..length]).unwrap();
            self.send(&mut session);
        }
        self.close();
    }

    fn send(&self, session: &mut ServerConnection) {
        let mut bytes = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut bytes).unwrap();
        }
        match self.manner {
            Manner::Dribble => {
                for byte in &bytes {
                    let _ = (&self.client).write_all(&[*byte]);
                }
            }
            Manner::CloseInside => {
                let _ = (&self.client).write_all(&bytes[..bytes.len() / 2]);
            }
            _ => {
                let _ = (&self.client).write_all(&bytes);
            }
        }
    }

    fn close(&self) {
        // Either may have closed already.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}
