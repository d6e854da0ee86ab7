use super::*;

fn line(second: u32, sequence: u64) -> Vec<u8> {
    format!("{}\n", json!({ "time": format!("2026-11-24T00:00:{second:02}Z"), "sequence": sequence })).into_bytes()
}

fn read(lines: &[Vec<u8>]) -> Vec<HostLine> {
    HostLine::read_all(&lines.concat()).unwrap()
}

#[test]
fn lines_of_several_hosts_are_in_order_of_time_and_the_last_ones_are_kept() {
    let lines = || [read(&[line(1, 7), line(3, 8), line(3, 9)]), read(&[line(2, 1), line(4, 2)])];
    let sequences = |count| {
        let kept = last_by_time(lines().into_iter().flatten().collect(), count);
        kept.map(|line| HostLine::read(line.trim_ascii_end()).unwrap().sequence).collect::<Vec<_>>()
    };
    assert_eq!(sequences(10), [7, 1, 8, 9, 2]);
    assert_eq!(sequences(2), [9, 2]);
    assert_eq!(sequences(0), [] as [u64; 0]);
}

#[test]
fn a_line_is_read_when_its_end_has_come() {
    let (mut buffer, text) = (LineBuffer::default(), [line(1, 1), line(2, 2)].concat());
    let found: Vec<u64> =
        text.iter().flat_map(|byte| buffer.add(&[*byte]).unwrap()).map(|line| line.sequence).collect();
    assert_eq!(found, [1, 2]);
    assert_eq!(buffer.add(&[line(3, 3), line(4, 4), b"{".to_vec()].concat()).unwrap().len(), 2);
    assert!(buffer.add(b"no JSON\n").unwrap_err().contains("not JSON"));
}

#[test]
fn a_line_beyond_its_bound_ends_the_stream() {
    for end in ["", "\n"] {
        let long = format!("\"{}\"{end}", "x".repeat(LINE_BYTES_MAX));
        assert!(LineBuffer::default().add(long.as_bytes()).unwrap_err().contains("more than 1024 KiB"));
    }
}

#[test]
fn a_question_has_the_parameters_of_the_client_alone() {
    let asked = |controller: Option<&str>, key: Option<&str>| RecordQuestion {
        path: "/homeostat/v1/logs",
        controller: controller.map(str::to_owned),
        key: key.map(str::to_owned),
        lines: 10,
        headers: HeaderMap::new(),
    };
    assert_eq!(asked(Some("web"), None).question(1, 0, false).path, "/homeostat/v1/logs?lines=1&controller=web");
    let question = asked(Some("web"), Some("v1/Pod a/b&follow=1")).question(10, 7, true);
    let expected = "/homeostat/v1/logs?lines=10&controller=web&key=v1%2FPod+a%2Fb%26follow%3D1&after=7&follow=1";
    assert_eq!(question.path, expected);
    let all = asked(None, None).question(usize::MAX, 0, false);
    assert_eq!(all.path, format!("/homeostat/v1/logs?lines={LINES_ASKED_MAX}"));
}
