//! What the reader of scripts accepts and refuses, and where it says that an error is.

use uc_drill::syntax::{Act, Content, Expression, OtherOption, TcpOption, When};
use uc_drill::{parse, parse_with};
use uc_net::{Ecn, Nanos};
use uc_tcp::flags;

/// Returns the only event of a script.
fn single(text: &str) -> (When, Act) {
    let script = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(script.events.len(), 1, "{text}");
    let event = script.events.into_iter().next().expect("one event");
    (event.when, event.act)
}

#[test]
fn a_segment_keeps_every_field() {
    let (_, act) = single(
        "+0 < [ect0] SEW. 4294967295:9(10)! ack 7 win 8 urg 9 \
         <mss 1460,nop,wscale 6,sackOK,TS val 100 ecr 0,sack 1:2 5:8,eol,FO abcd>",
    );
    let Act::Arrives(packet) = act else {
        panic!("{act:?}")
    };
    assert_eq!(packet.ecn, Some(Ecn::Ect0));
    let Content::Tcp(tcp) = packet.content else {
        panic!("not TCP")
    };
    let all = flags::SYN | flags::ECE | flags::CWR | flags::ACK;
    assert_eq!((tcp.flags, tcp.ack, tcp.window), (all, Some(7), Some(8)));
    assert_eq!((tcp.range.from, tcp.range.bytes), (Some(u32::MAX), 10));
    assert!(tcp.range.absolute && tcp.urgent == Some(9));
    let options = tcp.options.expect("listed options");
    assert_eq!(options[0], TcpOption::Mss(1460));
    assert_eq!(options[4], TcpOption::Timestamps(100, 0));
    assert_eq!(options[5], TcpOption::Sack(vec![(1, 2), (5, 8)]));
    let cookie = OtherOption {
        kind: 34,
        bytes: vec![0xab, 0xcd],
    };
    assert_eq!(options[7], TcpOption::Other(cookie));
}

#[test]
fn times_count_from_the_start_or_from_the_event_before() {
    let nanos = |when| match when {
        When::At(moment) => (moment.relative, moment.time.0),
        other => panic!("{other:?}"),
    };
    let time = |text: &str| nanos(single(&format!("{text} close(3) = 0")).0);
    assert_eq!(time("1.5"), (false, 1_500_000_000));
    assert_eq!(time("+ .000001"), (true, 1_000));
    assert_eq!(time("+7"), (true, 7_000_000_000));
    let (when, _) = single("0.1...0.25 read(3, ..., 9) = 9");
    let When::Blocking(from, until) = when else {
        panic!("{when:?}")
    };
    assert_eq!(
        (from.time, until.time),
        (Nanos(100_000_000), Nanos(250_000_000))
    );
    assert!(matches!(single("+0~+1 close(3) = 0").0, When::Between(..)));
    assert!(matches!(single("* > . 1:1(0) ack 1").0, When::Any));
}

#[test]
fn syntax_of_other_versions_is_a_feature_that_the_reader_lacks() {
    for (line, feature) in [
        ("+0 < SEWA 0:0(0) win 9 <ECN e1b 1 ceb 0>", "Accurate ECN"),
        ("+0 > .5 1:1(0) ack 1", "Accurate ECN"),
        ("+0 < S 0:0(0) win 9 <mp_capable key_a>", "Multipath TCP"),
        ("+0 < addr[caddr0] S 0:0(0) win 9", ""),
        ("+0 > . 1:1(0) ack 1 <nop,nocheck>", "nocheck"),
        ("+0 < sctp: INIT[]", "SCTP"),
        ("+0 < S 0:0(0) win 9 <mssx 3>", ""),
    ] {
        let error = parse(line).expect_err(line);
        let seen = error.lacks.unwrap_or("");
        assert!(seen.contains(feature), "{line}: {error}");
        assert_eq!(seen.is_empty(), feature.is_empty(), "{line}: {error}");
    }
}

#[test]
fn defined_words_and_included_files_take_the_place_of_their_names() {
    let text = "`./defaults.sh`\n+0 < S 0:0(0) win 9 <FO COOKIE>\n`./none.sh`";
    let cookie = [("COOKIE".to_owned(), "0a0b".to_owned())];
    let mut script = parse_with(text, &cookie).unwrap_or_else(|error| panic!("{error}"));
    script.include(|file| (file == "./defaults.sh").then(|| "sysctl a=1".to_owned()));
    let acts: Vec<_> = script.events.iter().map(|event| &event.act).collect();
    assert_eq!(acts[0], &Act::Command("sysctl a=1".to_owned()));
    assert_eq!(acts[2], &Act::Command("./none.sh".to_owned()));
    let Act::Arrives(packet) = acts[1] else {
        panic!("{acts:?}");
    };
    let Content::Tcp(tcp) = &packet.content else {
        panic!("{packet:?}");
    };
    let bytes = vec![0x0a, 0x0b];
    let option = TcpOption::Other(OtherOption { kind: 34, bytes });
    assert_eq!(tcp.options, Some(vec![option]));
}

#[test]
fn a_call_keeps_its_arguments_result_and_error() {
    let (_, act) = single(
        "+0 connect(3, {sa_family = AF_INET, sin_port = htons(8080)}, [1, -2], \
         A | B) = -1 EINPROGRESS (Operation now in progress)",
    );
    let Act::Calls(call) = act else {
        panic!("{act:?}")
    };
    assert_eq!((call.name.as_str(), call.arguments.len()), ("connect", 4));
    assert_eq!(call.result, Expression::Number(-1));
    assert_eq!(call.errno.as_deref(), Some("EINPROGRESS"));
    let list = vec![Expression::Number(1), Expression::Number(-2)];
    assert_eq!(call.arguments[2], Expression::List(list));
}

#[test]
fn an_error_names_line_and_column_and_what_was_expected() {
    for (text, place, why) in [
        (
            "+0 < S 0:0(0) win x",
            "1:19",
            "a number within the field's range",
        ),
        ("--a=b\n+0 > . 1:9(3) ack 1", "2:11", "are not 3 bytes"),
        ("+0 close(3 = 0", "1:12", "`,`"),
        ("\n  +0 < <mss 1>", "2:8", "the segment's flags"),
        ("#ifdef A\n+0 close(3) = 0\n", "3:1", "`#endif` for `A`"),
        ("+0 `true", "1:5", "before the end of the file"),
        ("+0 > . 1:1(0) ack 1 <mss 1,bad>", "1:31", "a TCP option"),
        ("x close(3) = 0", "1:1", "a time in seconds"),
    ] {
        let error = parse(text).expect_err(text);
        assert_eq!(error.place.to_string(), place, "{text}: {error}");
        assert!(error.why.contains(why), "{text}: {error}");
    }
}

#[test]
fn an_event_knows_the_symbols_that_it_depends_on() {
    let text = "#ifdef A\n+0 close(3) = 0\n#else\n+1 close(4) = 0\n#endif\n+2 close(5) = 0";
    let script = parse(text).expect("a script");
    let conditions: Vec<_> = script
        .events
        .iter()
        .map(|event| event.conditions.first().map(|(_, defined)| *defined))
        .collect();
    assert_eq!(conditions, [Some(true), Some(false), None]);
}
