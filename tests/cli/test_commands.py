"""The five commands, in process: what they print, write and return."""

from __future__ import annotations

import gzip
import io
import json
import os
import runpy
import stat
import sys
from pathlib import Path

import pytest
from evaluation.line_by_line import conlleval

from maskedcrf.cli import main

GOLD = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "O"], ["B-LOC"]]
PREDICTED = [["B-PER", "I-PER", "O", "I-LOC"], ["O", "I-PER"], ["I-ORG"]]


def columns(*sides):
    return "".join(
        "".join(f"w {' '.join(row)}\n" for row in zip(*rows, strict=True)) + "\n" for rows in zip(*sides, strict=True)
    )


@pytest.fixture
def scored(tmp_path):
    path = tmp_path / "scored.conll"
    path.write_text(columns(GOLD, PREDICTED))
    return str(path)


@pytest.fixture
def tagged(tmp_path):
    path = tmp_path / "tagged.conll"
    path.write_text("a NN O\nb NN I-X\nc NN I-X\n\nd NN B-Y\ne NN B-Y\n")
    return str(path)


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_evaluate_prints_conllevals_report_and_signs_it_on_stderr(capsys, scored):
    code, out, err = run(capsys, "evaluate", scored)
    assert (code, out) == (0, conlleval(GOLD, PREDICTED))
    assert "scheme:BIO|illegal:retain|v:" in err
    assert f"corpus:{scored}" in err


def test_evaluate_reads_several_files_gzip_and_standard_input_alike(capsys, scored, tmp_path, monkeypatch):
    text = Path(scored).read_bytes()
    packed = tmp_path / "packed.conll.gz"
    packed.write_bytes(gzip.compress(text))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    code, out, _ = run(capsys, "evaluate", scored, packed, "-")
    assert (code, out) == (0, conlleval(GOLD * 3, PREDICTED * 3))


def test_evaluate_json_has_every_key(capsys, scored):
    _, out, _ = run(capsys, "evaluate", "--json", scored)
    answer = json.loads(out)
    assert (answer["tokens"], answer["gold"], answer["predicted"], answer["correct"]) == (7, 3, 4, 2)
    assert answer["precision"] == 50
    assert answer["types"]["PER"]["recall"] == 100
    assert {"accuracy", "recall", "f1", "strategy", "scheme", "signature"} <= set(answer)
    _, out, _ = run(capsys, "evaluate", "--json", "--strategy", "both", scored)
    assert {rule: each["predicted"] for rule, each in json.loads(out).items()} == {"retain": 4, "discard": 1}


def test_evaluate_takes_other_columns_schemes_and_ways_of_writing_tags(capsys, tmp_path):
    path = tmp_path / "a"
    path.write_text("# note\nPER_B PER_B w\nPER_E PER_E w\n")
    options = ["--gold-column", "0", "--predicted-column", "1", "--delimiter", "_", "--prefix-last", "--comment", "#"]
    code, out, _ = run(capsys, "evaluate", path, "--scheme", "BIOES", *options)
    assert code == 0
    assert out.startswith("processed 2 tokens with 1 phrases; found: 1 phrases; correct: 1.\n")


def test_document_marks_count_as_tokens_for_conlleval_but_not_for_check(capsys, tmp_path):
    path = tmp_path / "a"
    path.write_text("-DOCSTART- O O\n\nw B-X B-X\n\n")
    assert run(capsys, "evaluate", path)[1].startswith("processed 2 tokens")
    assert json.loads(run(capsys, "check", "--json", path)[1])["tokens"] == 1


def test_audit_counts_legal_and_illegal(capsys, scored):
    _, out, err = run(capsys, "audit", "--json", scored)
    answer = json.loads(out)
    counts = {"legal_tp": 1, "illegal_tp": 1, "legal_fp": 0, "illegal_fp": 2}
    ratios = {"illegal_tp_over_illegal": 1 / 3, "illegal_fp_over_fp": 1.0, "illegal_over_total": 0.75}
    assert {name: answer[name] for name in (*counts, *ratios)} == {**counts, **ratios}
    assert answer["types"]["ORG"]["illegal_tp_over_illegal"] == 0
    code, out, err = run(capsys, "audit", scored)
    assert code == 0
    assert out.splitlines()[-1].split("\t") == ["all", "1", "1", "0", "2", "33.3%", "100.0%", "75.0%"]
    assert "scheme:BIO" in err


def test_audit_of_no_entities_has_no_ratios(capsys, tmp_path):
    path = tmp_path / "none"
    path.write_text("a O O\n")
    assert json.loads(run(capsys, "audit", "--json", path)[1])["illegal_over_total"] is None
    assert run(capsys, "audit", path)[1].endswith("all\t0\t0\t0\t0\t-\t-\t-\n")


@pytest.mark.parametrize("command", ["evaluate", "audit", "check"])
def test_a_file_without_a_sentence_is_no_perfect_score(capsys, tmp_path, command):
    path = tmp_path / "empty"
    path.write_text("\n\n")
    assert run(capsys, command, path) == (2, "", f"maskedcrf: {path}: no sentence in it; was it written to the end?\n")


@pytest.mark.parametrize("command", [["convert", "--from", "BIO", "--to", "BIOES"], ["repair", "--scheme", "BIO"]])
def test_what_is_empty_is_rewritten_as_nothing(capsys, tmp_path, command):
    path = tmp_path / "empty"
    path.write_text("")
    assert run(capsys, *command, path)[:2] == (0, "")


def test_check_lists_illegal_transitions_and_says_no_by_its_exit_code(capsys, tagged):
    code, out, _ = run(capsys, "check", "--scheme", "BIO", tagged)
    assert code == 1
    assert out.splitlines() == [
        f"{tagged}:2: O -> I-X is illegal in BIO",
        "2 sentences, 5 tokens, 2 types: X 1, Y 2",
        "1 illegal transition under BIO",
    ]
    assert run(capsys, "check", "--scheme", "IOB1", "--json", tagged)[0] == 1


def test_check_suggests_a_scheme_and_names_the_others(capsys, tagged, tmp_path):
    Path(tagged).write_text(Path(tagged).read_text() + "f NN B-X\ng NN O\n")
    code, out, _ = run(capsys, "check", "--json", tagged)
    answer = json.loads(out)
    assert (answer["scheme"], answer["suggested"], code) == ("BIO", True, 1)
    assert answer["other_schemes"]["IOB1"] == 2
    assert answer["illegal"] == [{"file": tagged, "line": 2, "from": "O", "to": "I-X"}]
    path = tmp_path / "clean"
    path.write_text("a S-X\nb B-X\nc E-X\n\nd B\ne E\n\n")
    code, out, _ = run(capsys, "check", path)
    assert code == 0
    assert "BIOES is a suggestion; these tags can also be read as: " in out
    assert "(bare) 1" in out


def test_check_shows_the_edges_of_a_sentence(capsys, tmp_path):
    path = tmp_path / "edges"
    path.write_text("a E-X\nb B-X\n")
    _, out, _ = run(capsys, "check", "--scheme", "BIOES", path)
    assert f"{path}:1: (start) -> E-X is illegal" in out
    assert f"{path}:2: B-X -> (end) is illegal" in out


def test_check_reads_tags_with_the_prefix_last(capsys, tmp_path):
    path = tmp_path / "last"
    path.write_text("a LOC-B\nb LOC-I\nc O\n")
    assert "BIO (prefix last) is a suggestion" in run(capsys, "check", path)[1]
    assert run(capsys, "check", "--scheme", "BIO", "--prefix-last", path)[0] == 0
    code, _, err = run(capsys, "check", "--prefix-last", path)
    assert (code, "say --scheme too" in err) == (2, True)


def test_repair_rewrites_illegal_tags_only(capsys, tagged):
    code, out, err = run(capsys, "repair", tagged)
    assert (code, out) == (0, "a NN O\nb NN B-X\nc NN I-X\n\nd NN B-Y\ne NN B-Y\n\n")
    assert err == "maskedcrf: 1 of 5 tags changed (BIO, retain)\n"
    assert run(capsys, "repair", "--strategy", "discard", tagged)[1].startswith("a NN O\nb NN O\nc NN O\n\nd NN B-Y\n")


def test_repair_may_rewrite_a_column_in_the_middle(capsys, scored):
    out = run(capsys, "repair", "--column", "-1", "--strategy", "discard", scored)[1]
    assert out == columns(GOLD, [["B-PER", "I-PER", "O", "O"], ["O", "O"], ["O"]])
    assert run(capsys, "repair", "--column", "1", scored)[1] == Path(scored).read_text()


def test_convert_says_what_was_illegal_and_what_merges(capsys, tagged):
    code, out, err = run(capsys, "convert", "--from", "BIO", "--to", "BIOES", tagged)
    assert (code, out) == (0, "a NN O\nb NN B-X\nc NN E-X\n\nd NN S-Y\ne NN S-Y\n\n")
    assert "1 segments are illegal in BIO (retain)" in err
    _, out, err = run(capsys, "convert", "--from", "BIO", "--to", "IO", "--strategy", "discard", tagged)
    assert out == "a NN O\nb NN O\nc NN O\n\nd NN I-Y\ne NN I-Y\n\n"
    assert "1 segments merged with a neighbour" in err


def test_convert_keeps_sentences_apart(capsys, tmp_path):
    path = tmp_path / "a"
    path.write_text("a\tB-X\n\nb\tB-X\nc\tB-X\n\n")
    assert run(capsys, "convert", "--from", "BIO", "--to", "IOB1", path)[1] == "a\tI-X\n\nb\tI-X\nc\tB-X\n\n"


@pytest.mark.parametrize("command", [["repair"], ["convert", "--from", "BIO", "--to", "IOB1"]], ids=min)
def test_document_marks_and_comments_stay_where_they_stood(capsys, tmp_path, command):
    path = tmp_path / "a"
    path.write_text("# id 1\n-DOCSTART-\n\n# 2\nann x O\n\n-DOCSTART- -X- O\n\nflew x O\n\n# end\n\n")
    code, out, err = run(capsys, *command, "--comment", "#", str(path))
    assert (code, out) == (0, path.read_text())
    assert "2 tags" in err, "marks are no tokens"


def test_output_is_written_whole_packed_if_named_so_and_links_stay(capsys, tagged, tmp_path):
    plain, packed, link = tmp_path / "out", tmp_path / "out.gz", tmp_path / "link"
    link.symlink_to(plain)
    expected = run(capsys, "repair", tagged)[1]
    plain.write_text("old")
    plain.chmod(0o640)
    for output in (packed, link):
        assert run(capsys, "repair", tagged, "--output", output)[:2] == (0, "")
    assert gzip.decompress(packed.read_bytes()).decode() == plain.read_text() == expected
    assert link.is_symlink()
    assert stat.S_IMODE(plain.stat().st_mode) == 0o640
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "out", "out.gz", "tagged.conll"]


def test_a_device_is_written_to_and_never_replaced(capsys, tagged):
    assert run(capsys, "repair", tagged, "--output", os.devnull)[0] == 0
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)  # noqa: PTH116


@pytest.mark.parametrize("command", ["repair", "convert"])
def test_bad_input_leaves_nothing_behind(capsys, tmp_path, command):
    path, output = tmp_path / "bad", tmp_path / "out"
    path.write_text("a O\n\n" * 50 + "b Q-X\n")
    output.write_text("old")
    options = ["--from", "BIO", "--to", "IO"] if command == "convert" else []
    for target in ("-", output):
        code, out, err = run(capsys, command, path, *options, "--output", target)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(f"maskedcrf: {path}:101: tag 'Q-X' does not fit BIO")
    assert output.read_text() == "old"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["bad", "out"]


@pytest.mark.parametrize("command", ["evaluate", "audit", "check"])
def test_bad_input_is_one_line_and_code_2(capsys, tmp_path, command):
    path = tmp_path / "bad.conll"
    cases = {
        "a O Q-X\n": f"{path}:1: tag 'Q-X' does not fit BIO",
        "a O O\nb O\n": f"{path}:2: 2 columns where the file has 3",
        "a \0 O\n": f"{path}:1: a NUL character",
    }
    for text, message in cases.items():
        path.write_text(text)
        code, out, err = run(capsys, command, "--scheme", "BIO", path)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(f"maskedcrf: {message}")


@pytest.mark.parametrize("command", ["evaluate", "audit"])
def test_words_read_as_gold_say_which_columns_were_read(capsys, tmp_path, command):
    path = tmp_path / "one"
    path.write_text("EU B-ORG\n")
    code, out, err = run(capsys, command, path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "tag 'EU' does not fit BIO" in err
    assert "gold is read from column -2 (--gold-column), predictions from -1 (--predicted-column)" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "FILE", "--scheme", "BOI"], "unknown scheme 'BOI'"),
        (["evaluate", "FILE", "--gold-column", "7"], ":1: there is no column 7, the file has 3 columns"),
        (["evaluate", "FILE", "--strategy", "x"], "--strategy"),
        (["evaluate"], "Missing argument"),
        (["evaluate", "FILE", "--nope"], "No such option: --nope; see maskedcrf evaluate --help"),
        (["nope"], "No such command 'nope'; see maskedcrf --help"),
        (["trian"], "No such command 'trian': did you mean train?; see"),
        (["train", "FILE"], "labelled files go after --train"),
        (["check", "FILE", "--column", "0"], "no scheme has all of these tags: w; is --column right?"),
        (["evaluate", "/nowhere/at/all"], "/nowhere/at/all: No such file or directory"),
        (["evaluate", "/"], "/: a folder of no known format"),
        (["repair", "FILE", "--output", "/nowhere/out"], ": /nowhere/out: there is no folder /nowhere; make it"),
        (["repair", "FILE", "--output", "/tmp"], ": /tmp: a folder; give a file to write"),
        (["repair", "FILE", "--output", "/dev/full"], ": /dev/full: could not be written (No space left on device)"),
    ],
)
def test_bad_usage_is_one_line_and_code_2(capsys, scored, arguments, message):
    code, out, err = run(capsys, *[scored if each == "FILE" else each for each in arguments])
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


@pytest.mark.parametrize("command", [["evaluate"], ["audit"], ["repair"]], ids=min)
def test_commands_on_columns_refuse_json_lines_and_triples_by_name(capsys, tmp_path, command):
    path = tmp_path / "data.txt"
    path.write_text('\n{"tokens": ["a"], "tags": ["I-LOC"]}\n')
    (tmp_path / "seq.in").write_text("a\n")
    for given, kind in ((path, "JSON lines"), (tmp_path, "a folder of parallel files (seq.in)")):
        code, out, err = run(capsys, *command, given)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(f"maskedcrf: {given}: {kind}; this command reads columns: maskedcrf convert writes them")


def test_tables_are_drawn_on_a_terminal(capsys, scored, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    for arguments, words in (
        (["evaluate", scored], ("precision", "PER", "100.00", "illegal segments: retain")),
        (["audit", scored], ("illegal FP/FP", "ORG")),
        (["check", "--scheme", "BIO", scored], ("where", "(start)", "I-ORG")),
    ):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        out = run(capsys, *arguments)[1]
        assert all(word in out for word in words)
        assert "─" in out or "━" in out


def test_tables_neither_cut_nor_interpret_what_is_in_them(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.chdir(tmp_path)
    name = "a[bold]:cat:" + 60 * "x"
    (tmp_path / name).write_text("w O\nv I-ORGANISATION\n")
    code, out, _ = run(capsys, "check", "--scheme", "BIO", name)
    assert code == 1
    assert f"{name}:2" in "".join(line.split("│")[1].strip() for line in out.split("\n") if line.startswith("│"))


def test_progress_is_shown_on_a_terminal_only_when_it_takes_long(capsys, scored, monkeypatch):
    monkeypatch.setattr("maskedcrf.cli.streams.PROGRESS_AFTER_SECONDS", -1.0)
    assert "tokens" not in run(capsys, "evaluate", scored)[2]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert f"{scored}: 7 tokens" in run(capsys, "evaluate", scored)[2]


def test_an_interrupt_and_a_reader_that_left_have_their_own_exit_codes(capsys, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    def unread():
        raise BrokenPipeError

    silenced = []
    monkeypatch.setattr(sys.stdout, "fileno", lambda: 1)
    monkeypatch.setattr("os.dup2", lambda null, output: silenced.append(output))
    for run_, code in ((interrupted, 130), (unread, 141)):
        monkeypatch.setattr("maskedcrf.cli.audit.run", run_)
        assert run(capsys, "audit") == (code, "", "")
    assert silenced == [1]


def test_the_package_runs_as_a_module(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["maskedcrf", "--version"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_module("maskedcrf", run_name="__main__")
    assert capsys.readouterr().out.startswith("maskedcrf ")


def test_evaluate_tells_both_readings_whichever_is_printed(capsys, scored):
    for strategy in ("retain", "discard"):
        _, out, err = run(capsys, "evaluate", "--strategy", strategy, scored)
        scores = {
            line.split("illegal:")[1].split("|")[0]: line.split()[2] for line in err.splitlines() if " | " in line
        }
        assert scores == {"retain": "57.14", "discard": "50.00"}
        assert out.splitlines()[1].endswith(f"FB1:  {scores[strategy]}")


def test_repair_counts_every_tag_it_changed(capsys, tagged):
    assert (
        run(capsys, "repair", "--strategy", "discard", tagged)[2] == "maskedcrf: 2 of 5 tags changed (BIO, discard)\n"
    )


@pytest.mark.parametrize("command", ["audit", "evaluate"])
def test_a_scheme_that_most_segments_break_is_asked_about(command, capsys, tmp_path):
    (tmp_path / "iob1.conll").write_text("Oslo I-LOC I-LOC\nand O O\nRome I-LOC I-LOC\n\n")
    hint = "2 of 2 predicted segments are illegal in BIO: is --scheme right? try maskedcrf check"
    assert hint in run(capsys, command, str(tmp_path / "iob1.conll"))[2]
    assert "is --scheme right" not in run(capsys, command, "--scheme", "IOB1", str(tmp_path / "iob1.conll"))[2]
