//! The screen of `carat ps --watch`: a table that can be sorted, and the tree that is selected.

use carat_model::Bytes;
use carat_model::host::{HostTrees, RubyTree};
use carat_report::{host_lines, tree_text};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::widgets::{Block, Paragraph, Row, Table, TableState};
use std::cmp::Reverse;

/// What the table is sorted by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum SortBy {
    #[default]
    Memory,
    LimitLeft,
    PerWorker,
    Start,
    Pid,
}

impl SortBy {
    const fn next(self) -> Self {
        match self {
            Self::Memory => Self::LimitLeft,
            Self::LimitLeft => Self::PerWorker,
            Self::PerWorker => Self::Start,
            Self::Start => Self::Pid,
            Self::Pid => Self::Memory,
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Memory => "PSS",
            Self::LimitLeft => "left of the limit",
            Self::PerWorker => "private memory of a worker",
            Self::Start => "start, the newest first",
            Self::Pid => "pid",
        }
    }

    fn sort(self, trees: &mut [RubyTree]) {
        // What is unknown stands at the end.
        match self {
            Self::Memory => trees.sort_by_key(|tree| largest(tree.pss.or(tree.largest_rss))),
            Self::LimitLeft => trees.sort_by_key(|tree| (left(tree).is_none(), left(tree))),
            Self::PerWorker => trees.sort_by_key(|tree| largest(tree.private_per_worker)),
            Self::Start => trees.sort_by_key(|tree| Reverse(tree.since_ms)),
            Self::Pid => trees.sort_by_key(|tree| tree.pid),
        }
    }
}

fn largest(bytes: Option<Bytes>) -> (bool, Reverse<Option<Bytes>>) {
    (bytes.is_none(), Reverse(bytes))
}

fn left(tree: &RubyTree) -> Option<Bytes> {
    tree.group.as_ref()?.nearest_limit().map(|one| one.left())
}

/// What the screen shows.
#[derive(Debug, Default)]
pub(crate) struct HostScreen {
    host: HostTrees,
    sort: SortBy,
    /// The pid of the selected tree: it stays selected when the order changes.
    selected: Option<u32>,
}

impl HostScreen {
    /// Takes a new reading.
    pub(crate) fn update(&mut self, host: HostTrees) {
        self.host = host;
        self.sort.sort(&mut self.host.trees);
        let is_left = self.host.trees.iter().any(|tree| Some(tree.pid) == self.selected);
        // The selected tree may have ended.
        if !is_left {
            self.selected = self.host.trees.first().map(|tree| tree.pid);
        }
    }

    pub(crate) fn sort_by_next(&mut self) {
        self.sort = self.sort.next();
        self.sort.sort(&mut self.host.trees);
    }

    pub(crate) fn up(&mut self) {
        self.select(self.place().saturating_sub(1));
    }

    pub(crate) fn down(&mut self) {
        self.select(self.place() + 1);
    }

    pub(crate) fn selected(&self) -> Option<&RubyTree> {
        self.host.trees.get(self.place())
    }

    fn place(&self) -> usize {
        let mut trees = self.host.trees.iter();
        trees.position(|tree| Some(tree.pid) == self.selected).unwrap_or(0)
    }

    fn select(&mut self, place: usize) {
        if let Some(tree) = self.host.trees.get(place) {
            self.selected = Some(tree.pid);
        }
    }
}

/// Draws the whole screen.
pub(crate) fn draw_host(frame: &mut Frame<'_>, screen: &HostScreen) {
    // Two lines of frame and one of headings.
    let rows = screen.host.trees.len() as u16 + 3;
    let heights = [
        Constraint::Length(rows.min(frame.area().height / 2)),
        Constraint::Min(4),
        Constraint::Length(1),
    ];
    let [table, below, foot] = Layout::vertical(heights).areas(frame.area());
    let rows = host_lines(&screen.host, usize::from(table.width.saturating_sub(4)));
    let widths: Vec<Constraint> = (0..rows[0].len())
        .map(|at| {
            let widest = rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
            Constraint::Length(widest as u16 + 1)
        })
        .collect();
    let mut rows = rows.into_iter().map(Row::new);
    let head = rows.next().unwrap_or_default();
    let head = head.style(Style::default().add_modifier(Modifier::BOLD));
    let title = format!("Ruby trees, by {}", screen.sort.label());
    let drawn = Table::new(rows, widths)
        .header(head)
        .block(Block::bordered().title(title))
        .row_highlight_style(Style::default().add_modifier(Modifier::REVERSED));
    let mut state = TableState::default().with_selected(Some(screen.place()));
    frame.render_stateful_widget(drawn, table, &mut state);
    let text = screen.selected().map_or_else(|| "No Ruby runs here.".to_owned(), tree_text);
    // The text quotes titles, which could contain control characters.
    frame.render_widget(Paragraph::new(carat_model::plain(&text)).block(Block::bordered()), below);
    let keys = "↑ ↓ select · s sort · Enter leave with the next command · q end";
    frame.render_widget(Paragraph::new(keys), foot);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn tree(pid: u32, megabytes: Option<u64>) -> RubyTree {
        RubyTree {
            pid,
            pss: megabytes.map(|megabytes| Bytes(megabytes * 1_000_000)),
            next: format!("explain {pid}"),
            ..RubyTree::default()
        }
    }

    fn pids(screen: &HostScreen) -> Vec<u32> {
        screen.host.trees.iter().map(|tree| tree.pid).collect()
    }

    #[test]
    fn the_selected_tree_stays_selected_when_the_order_changes_and_until_it_ends() {
        let mut screen = HostScreen::default();
        let host = |trees| HostTrees { trees, ..HostTrees::default() };
        screen.update(host(vec![tree(1, None), tree(2, Some(90)), tree(3, Some(40))]));
        assert_eq!((pids(&screen), screen.selected), (vec![2, 3, 1], Some(2)));
        screen.down();
        assert_eq!(screen.selected().map(|tree| tree.pid), Some(3));
        (0..4).for_each(|_| screen.sort_by_next());
        assert_eq!((pids(&screen), screen.place()), (vec![1, 2, 3], 2));
        screen.down();
        assert_eq!(screen.selected, Some(3), "the last one");
        screen.update(host(vec![tree(2, Some(90))]));
        assert_eq!(screen.selected, Some(2));
        screen.update(host(Vec::new()));
        assert_eq!(screen.selected().map(|tree| tree.pid), None);
    }

    #[test]
    fn the_screen_shows_every_tree_and_the_next_command_of_the_selected_one() {
        let mut shown = HostScreen::default();
        shown.update(HostTrees {
            trees: vec![tree(4312, Some(90)), tree(7, None)],
            ..HostTrees::default()
        });
        let mut screen = Terminal::new(TestBackend::new(110, 24)).unwrap();
        screen.draw(|frame| draw_host(frame, &shown)).unwrap();
        let text = screen.backend().to_string();
        for expected in
            ["4312", "explain 7", "90.0 MB", "Next  carat explain 4312", "by PSS", "s sort"]
        {
            assert!(text.contains(expected), "{expected:?} is not in\n{text}");
        }
    }
}
