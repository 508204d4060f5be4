//! `carat ps --watch`: the screen, its keys and its end.

use crate::view::{HostScreen, draw_host, output};
use anyhow::{Context, bail};
use carat_model::host::HostTrees;
use ratatui::Terminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::prelude::CrosstermBackend;
use signal_hook::flag;
use signal_hook::low_level::emulate_default_handler;
use std::io::{self, IsTerminal, Stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Signals that end a program, which would leave the terminal in raw mode.
const ENDING: [i32; 2] = [libc::SIGTERM, libc::SIGHUP];
/// Time between two looks for such a signal.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Time between two readings.
const PERIOD: Duration = Duration::from_secs(2);

/// The terminal in raw mode; it is put back at the end.
struct Screen(Terminal<CrosstermBackend<Stderr>>);

impl Screen {
    fn open() -> anyhow::Result<Self> {
        enable_raw_mode().context("--watch needs a terminal")?;
        let opened = execute!(io::stderr(), EnterAlternateScreen)
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stderr())));
        match opened {
            Ok(terminal) => Ok(Self(terminal)),
            Err(error) => {
                // Raw mode is on already, and the shell would be left in it.
                let _ = disable_raw_mode();
                Err(error.into())
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = disable_raw_mode();
        let _ = execute!(io::stderr(), LeaveAlternateScreen);
    }
}

/// Shows the trees that `read` returns until the user ends it. Returns the command that was chosen.
pub(crate) fn watch_host(read: impl Fn() -> HostTrees) -> anyhow::Result<Option<String>> {
    let dumb = output::variable("TERM").is_none_or(|term| term == "dumb");
    // Keys come from standard input, the screen goes to standard error: both must be a terminal.
    if dumb || !io::stderr().is_terminal() || !io::stdin().is_terminal() {
        bail!("--watch needs a terminal; without one use `carat ps`, or `carat ps --json`");
    }
    let signal = Arc::new(AtomicUsize::new(0));
    for number in ENDING {
        flag::register_usize(number, Arc::clone(&signal), number as usize)?;
    }
    let mut screen = Screen::open()?;
    let mut shown = HostScreen::default();
    loop {
        shown.update(read());
        match until_next(&mut screen, &mut shown, &signal)? {
            Next::Again => {}
            Next::End => return Ok(None),
            Next::Chosen(command) => return Ok(Some(command)),
            Next::Signal(number) => {
                drop(screen);
                // As without a handler, so that whoever sent it sees that it was obeyed.
                emulate_default_handler(number)?;
                return Ok(None);
            }
        }
    }
}

/// What follows the time between two readings.
enum Next {
    Again,
    End,
    /// This signal was received.
    Signal(i32),
    Chosen(String),
}

/// Handles keys until the next reading is due.
fn until_next(
    screen: &mut Screen,
    shown: &mut HostScreen,
    signal: &AtomicUsize,
) -> anyhow::Result<Next> {
    let due = Instant::now() + PERIOD;
    loop {
        screen.0.draw(|frame| draw_host(frame, shown))?;
        let mut is_key = false;
        while !is_key && Instant::now() < due {
            let left = due.saturating_duration_since(Instant::now());
            is_key = event::poll(left.min(LOOK_EVERY))?;
            let number = signal.load(Ordering::Relaxed);
            if number != 0 {
                return Ok(Next::Signal(number as i32));
            }
        }
        if !is_key {
            return Ok(Next::Again);
        }
        let Event::Key(key) = event::read()? else { continue };
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            // Some terminals report releases too, and each key would count twice.
            _ if key.kind == KeyEventKind::Release => {}
            KeyCode::Char('q') | KeyCode::Esc => return Ok(Next::End),
            // In raw mode Ctrl-C is a key and no signal.
            KeyCode::Char('c') if control => return Ok(Next::End),
            KeyCode::Char('s') => shown.sort_by_next(),
            KeyCode::Up | KeyCode::Char('k') => shown.up(),
            KeyCode::Down | KeyCode::Char('j') => shown.down(),
            KeyCode::Enter => {
                if let Some(tree) = shown.selected() {
                    return Ok(Next::Chosen(tree.next.clone()));
                }
            }
            _ => {}
        }
    }
}
