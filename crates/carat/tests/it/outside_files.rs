//! What an observed process leaves at the paths of the files that it has mapped is not opened.

use crate::needs::TestRuby;
use crate::outside_ruby::OutsideRuby;
use crate::support::Folder;
use rustix::fs::{CWD, Mode, inotify, mkfifoat};
use rustix::io::Errno;

/// Maps a file, of which no page is read, and removes it. `maps` then shows its path with a mark.
fn map_and_remove(path: &str) -> String {
    format!(
        "require 'fiddle'; File.write('{path}', 'x' * 65_536); file = File.open('{path}'); \
         pointer, long, int = Fiddle::TYPE_VOIDP, Fiddle::TYPE_LONG, Fiddle::TYPE_INT; \
         mmap = Fiddle::Function.new(Fiddle::Handle::DEFAULT['mmap'], \
         [pointer, long, int, int, int, long], pointer); \
         $mapped = mmap.call(nil, 65_536, 1, 2, file.fileno, 0); File.unlink('{path}'); 1"
    )
}

#[test]
fn a_named_pipe_at_the_path_of_a_mapped_library_is_not_opened() {
    require!(Ruby);
    let folder = Folder::new("pipe");
    let mut ruby = OutsideRuby::start(TestRuby::OnPath);
    // Files with this name are the first in which Ruby is searched for.
    let library = folder.path("libruby-0.so").display().to_string();
    ruby.eval(&map_and_remove(&library));
    let pipe = format!("{library} (deleted)");
    mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
    let events = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&events, &pipe, inotify::WatchFlags::OPEN).unwrap();
    let ran = folder.run(&["explain", &ruby.pid.to_string(), "--details"]);
    ran.assert_code(0).assert_says("from outside, Ruby ");
    assert_eq!(rustix::io::read(&events, &mut [0; 256]), Err(Errno::AGAIN), "it was opened");
}
