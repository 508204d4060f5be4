//! TLS over a connection's socket: which certificates are accepted, and one session.
//!
//! Built on rustls with ring. Nothing here waits: what the kernel does not accept or have now is left to the next event.
//! Time stamps are those of the last bytes from the kernel, so decryption counts as the generator's lag.

use crate::error::GeneratorError;
use crate::net::{self, Receipt};
use carat_model::load::ConnectionOptions;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// The TLS configuration for one server.
#[derive(Debug)]
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// TLS with a server of this name, without its port.
    ///
    /// # Errors
    /// If no certificate can have the name, or the file holds no certificate.
    pub(crate) fn new(name: &str, options: &ConnectionOptions) -> Result<Self, GeneratorError> {
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| GeneratorError::TlsName(name.to_owned()))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| GeneratorError::Tls(error.to_string()))?;
        let builder = if options.insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        } else {
            builder.with_root_certificates(roots(options.ca.as_deref())?)
        };
        let mut config = builder.with_no_client_auth();
        // Without it a server may choose HTTP/2, which the generator does not speak.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // Every connection stands for another visitor, so none resumes an earlier one's session.
        config.resumption = Resumption::disabled();
        Ok(Self { config: Arc::new(config), name })
    }

    /// A session before its first message.
    pub(crate) fn session(&self) -> io::Result<TlsSession> {
        let connection = ClientConnection::new(Arc::clone(&self.config), self.name.clone())
            .map_err(io::Error::other)?;
        Ok(TlsSession { connection, stamp: None })
    }
}

/// The certificates that may sign the server's: those of the file, or those that the system trusts.
fn roots(file: Option<&str>) -> Result<RootCertStore, GeneratorError> {
    let mut roots = RootCertStore::empty();
    let Some(file) = file else {
        // A system may hold certificates that rustls cannot read; the handshake shows whether the others suffice.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    let problem = |reason: String| GeneratorError::TlsCa { file: file.to_owned(), reason };
    let certificates =
        CertificateDer::pem_file_iter(file).map_err(|error| problem(error.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| problem(error.to_string()))?;
        roots.add(certificate).map_err(|error| problem(error.to_string()))?;
    }
    if roots.is_empty() { Err(problem("no certificate in it".to_owned())) } else { Ok(roots) }
}

/// Whether a handshake that failed with this error will always fail.
pub(crate) fn is_permanent(error: &io::Error) -> bool {
    // rustls reports what the peer did wrong as invalid data; everything else may pass.
    error.kind() == io::ErrorKind::InvalidData
}

/// Why a handshake failed and what to do.
pub(crate) fn explain(error: &io::Error) -> String {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    let (what, advice) = match cause {
        Some(rustls::Error::InvalidCertificate(_)) => (
            error.to_string(),
            "pass the file of the signing certificate with --ca, or accept any certificate with --insecure (`ca`, `insecure` in an experiment)",
        ),
        Some(_) => (
            error.to_string(),
            "check whether the server speaks TLS 1.2 or 1.3 on this port, or use http:// or ws://",
        ),
        None => (
            "the server closed the connection".to_owned(),
            "check whether it speaks TLS on this port, and read its log",
        ),
    };
    format!("the TLS handshake failed ({what}): {advice}")
}

/// The TLS session of one connection.
#[derive(Debug)]
pub(crate) struct TlsSession {
    connection: ClientConnection,
    /// When the last bytes reached the socket.
    stamp: Option<i64>,
}

impl TlsSession {
    /// Continues the handshake and returns whether it is finished.
    ///
    /// # Errors
    /// See [`is_permanent`].
    pub(crate) fn handshake(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        loop {
            self.flush(socket)?;
            if !self.connection.is_handshaking() {
                return Ok(true);
            }
            match self.receive(socket) {
                // The server closed in the middle of the handshake, often because it speaks no TLS.
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// Accepts bytes to send; what the kernel does not accept is kept until [`flush`](Self::flush).
    pub(crate) fn write(&mut self, socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
        self.flush(socket)?;
        // A full buffer: taking more would let a server that never reads fill memory.
        if self.connection.wants_write() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = self.connection.writer().write(bytes)?;
        self.flush(socket)?;
        Ok(taken)
    }

    /// Sends what was accepted before; what the kernel does not accept now is kept.
    pub(crate) fn flush(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Socket { socket, stamp: &mut self.stamp }) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads what has arrived.
    ///
    /// # Errors
    /// `UnexpectedEof` if the connection ends without `close_notify`: anybody can end TCP (RFC 9112, 9.8).
    pub(crate) fn read(
        &mut self,
        socket: BorrowedFd<'_>,
        buffer: &mut [u8],
    ) -> io::Result<Receipt> {
        loop {
            let length = match self.connection.reader().read(buffer) {
                Ok(length) => Some(length),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
                Err(error) => return Err(error),
            };
            if let Some(length) = length {
                // Never drained: the session may hold another record without an event for it.
                return Ok(Receipt { length, drained: false, stamp: self.stamp });
            }
            self.receive(socket)?;
            // A record may need an answer at once, such as a key update (RFC 8446, 4.6.3).
            self.flush(socket)?;
        }
    }

    /// Reads from the kernel; 0 is the end.
    fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let length = self.connection.read_tls(&mut Socket { socket, stamp: &mut self.stamp })?;
        if let Err(error) = self.connection.process_new_packets() {
            // This sends the server the reason, if it still listens.
            let _ = self.flush(socket);
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        Ok(length)
    }
}

/// A socket with the interface that rustls requires.
struct Socket<'a> {
    socket: BorrowedFd<'a>,
    stamp: &'a mut Option<i64>,
}

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let receipt = net::receive(self.socket, buffer)?;
        // The stamp of the last bytes: a record is complete only with them.
        *self.stamp = receipt.stamp;
        Ok(receipt.length)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        net::send(self.socket, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Accepts any certificate, but only from a server that has its key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // The name is not checked; the signatures below still prove that the server has its key.
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_connection_resumes_the_session_of_another_and_all_ask_for_http_1() {
        let options = ConnectionOptions { insecure: true, ..ConnectionOptions::default() };
        let config = Tls::new("localhost", &options).unwrap().config;
        // rustls shows where sessions are kept only so.
        let kept = format!("{:?}", config.resumption);
        assert!(kept.contains("NoClientSessionStorage"), "{kept}");
        assert_eq!(config.alpn_protocols, [b"http/1.1"]);
    }
}
