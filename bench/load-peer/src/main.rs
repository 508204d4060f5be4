//! The peer of `carat load cable` in benchmarks: a broadcast client on tokio-tungstenite with default buffers and one thread.
//!
//! `load-peer ws://127.0.0.1:PORT/cable CLIENTS BROADCASTS PAYLOAD` prints the processor microseconds per received
//! message, the user memory per idle connection in bytes, and the messages.

use futures_util::{SinkExt, StreamExt};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

const IDENTIFIER: &str = r#""{\"channel\":\"BenchmarkChannel\"}""#;
/// Concurrent broadcasts.
const AT_ONCE: u64 = 4;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, clients, broadcasts, payload] = arguments.as_slice() else {
        panic!("usage: load-peer URL CLIENTS BROADCASTS PAYLOAD");
    };
    let numbers = [clients, broadcasts, payload].map(|text| text.parse().expect("a number"));
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(run(url, numbers));
}

async fn run(url: &str, [clients, broadcasts, payload]: [u64; 3]) {
    let before = resident();
    let mut sockets = Vec::new();
    for _ in 0..clients {
        sockets.push(subscribe(url).await);
    }
    let memory = resident().saturating_sub(before) / clients;
    let (received, due) = (Arc::new(AtomicU64::new(0)), clients * broadcasts);
    let (all, (acknowledge, mut acknowledged)) =
        (Arc::new(Notify::new()), mpsc::unbounded_channel());
    let mut senders = Vec::new();
    for socket in sockets {
        let (sender, receiver) = mpsc::unbounded_channel::<String>();
        senders.push(sender);
        tokio::spawn(serve(
            socket,
            receiver,
            (Arc::clone(&received), due),
            Arc::clone(&all),
            acknowledge.clone(),
        ));
    }
    let begun = cpu_seconds();
    let data =
        format!(r#"{{\"action\":\"broadcast\",\"payload\":\"{}\"}}"#, "x".repeat(payload as usize));
    let command = format!(r#"{{"command":"message","identifier":{IDENTIFIER},"data":"{data}"}}"#);
    for number in 0..broadcasts {
        if number >= AT_ONCE {
            acknowledged.recv().await;
        }
        let place = (number * 7919 % clients) as usize;
        senders[place].send(command.clone()).expect("an open connection");
    }
    all.notified().await;
    let micros = (cpu_seconds() - begun) * 1e6 / due as f64;
    println!("{micros:.2} {memory} {}", received.load(Ordering::Relaxed));
}

async fn subscribe(url: &str) -> Socket {
    let mut request = url.into_client_request().expect("a URL");
    let protocol = HeaderValue::from_static("actioncable-v1-json");
    request.headers_mut().insert("Sec-WebSocket-Protocol", protocol);
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await.expect("a connection");
    socket.next().await.expect("a welcome").expect("a welcome");
    let command = format!(r#"{{"command":"subscribe","identifier":{IDENTIFIER}}}"#);
    socket.send(Message::text(command)).await.expect("a subscription");
    socket.next().await.expect("a confirmation").expect("a confirmation");
    socket
}

async fn serve(
    mut socket: Socket,
    mut commands: mpsc::UnboundedReceiver<String>,
    (received, due): (Arc<AtomicU64>, u64),
    all: Arc<Notify>,
    acknowledge: mpsc::UnboundedSender<()>,
) {
    loop {
        tokio::select! {
            command = commands.recv() => match command {
                Some(command) => socket.send(Message::text(command)).await.expect("an open connection"),
                None => return,
            },
            message = socket.next() => {
                let Some(Ok(Message::Text(text))) = message else { return };
                // As little as possible: a search distinguishes the two kinds of message, nothing is parsed.
                if text.contains("broadcastResult") {
                    acknowledge.send(()).ok();
                } else if text.contains("\"broadcast\"") && received.fetch_add(1, Ordering::Relaxed) + 1 == due {
                    all.notify_one();
                }
            }
        }
    }
}

/// Seconds that this process, which has one thread, has run (the first figure of `schedstat`).
fn cpu_seconds() -> f64 {
    let text = fs::read_to_string("/proc/self/schedstat").expect("/proc");
    text.split_whitespace().next().and_then(|nanos| nanos.parse::<f64>().ok()).expect("nanoseconds")
        / 1e9
}

/// Anonymous resident memory of this process in bytes.
fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/status").expect("/proc");
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).expect("a number") * 1024
}
