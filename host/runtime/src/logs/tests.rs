use super::*;

fn line(controller: &str, message: &str) -> LogLine {
    LogLine {
        sequence: 0,
        time: "2026-01-01T00:00:00Z".into(),
        controller: controller.into(),
        key: None,
        level: Level::Info,
        message: message.into(),
        fields: Vec::new(),
    }
}

#[test]
fn the_tail_of_the_log_has_the_newest_lines_in_order() {
    let book = LogBook::default();
    for (controller, message) in [("a", "1"), ("b", "2"), ("a", "3"), ("a", "4")] {
        book.write(line(controller, message));
    }
    let texts = |lines: Vec<LogLine>| lines.into_iter().map(|line| line.message).collect::<Vec<_>>();
    assert_eq!(texts(book.tail(None, 0, 3)), ["2", "3", "4"]);
    assert_eq!(texts(book.tail(Some("a"), 1, 10)), ["3", "4"]);
}

#[test]
fn a_controller_that_floods_the_log_loses_its_own_oldest_lines() {
    let book = LogBook::default();
    book.write(line("quiet", "kept"));
    for _ in 0..=LINES_MAX {
        book.write(line("loud", "again"));
    }
    assert_eq!(book.tail(Some("loud"), 0, usize::MAX).len(), LINES_MAX);
    assert_eq!(book.tail(Some("quiet"), 0, 10).len(), 1);
}

#[test]
fn large_lines_are_bounded_by_their_bytes_for_one_controller_and_for_all() {
    let book = LogBook::default();
    let large = "x".repeat(16 << 10);
    book.write(line("quiet", "kept"));
    for number in 0..100 {
        for _ in 0..100 {
            book.write(line(&format!("loud-{}", number % 20), &large));
        }
    }
    let inner = book.inner.lock();
    assert!(inner.lines.values().all(|lines| lines.bytes <= BYTES_MAX));
    assert!(inner.bytes <= BYTES_OF_ALL_MAX && inner.bytes > BYTES_OF_ALL_MAX - BYTES_MAX, "{}", inner.bytes);
    assert_eq!(inner.bytes, inner.lines.values().map(|lines| lines.bytes).sum::<u64>());
    assert_eq!(inner.lines["quiet"].lines.len(), 1);
    drop(inner);
    (0..20).for_each(|number| book.forget(&format!("loud-{number}")));
    assert!(book.inner.lock().bytes < 1 << 10);
}
