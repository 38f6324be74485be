"""maskedcrf redact: files come out in the shape they went in, with a promise that is kept and checked."""

from __future__ import annotations

import gzip
import io
import json
import sys

import pytest
from small_corpus import SMALL, corpus, write_conll
from unknown_names import unknown_names

from maskedcrf.cli import main
from maskedcrf.data.sentence import Sentence
from maskedcrf.tagger import Tagger


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model with a promise, and the labelled files for it."""
    place = tmp_path_factory.mktemp("redact")
    Tagger.train(corpus(60), output=place / "model", **{**SMALL, "epochs": 6, "dev_fraction": 0.0})
    write_conll(place / "dev.conll", unknown_names(200, 3, share=0.1))
    write_conll(place / "test.conll", unknown_names(200, 4, share=0.1))
    write_conll(place / "shifted.conll", unknown_names(200, 5, share=1.0))
    assert main(["redact", str(place / "model"), "--calibrate", str(place / "dev.conll"), "--miss-rate", "0.1"]) == 0
    return place


@pytest.fixture
def model(folder):
    return str(folder / "model")


def test_a_promise_is_made_once_and_kept_in_the_folder(folder, model, capsys):
    promise = Tagger.load(model).record.settings["promise"]
    assert promise["units"] == len([each for each in unknown_names(200, 3, share=0.1) if {*each.tags} != {"O"}])
    assert promise["miss_rate"] == 0.1
    assert promise["sentence"] in (folder / "model" / "README.md").read_text()
    assert main(["redact", model, str(folder / "dev.conll")]) == 0
    assert "maskedcrf: On average at most 10.00% of the entities of a sentence" in capsys.readouterr().err


def test_a_folder_of_an_older_version_keeps_a_promise_too(folder, tmp_path):
    tagger = Tagger.load(folder / "model")
    tagger.calibrate(corpus(30, 9))
    tagger.save(tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    config["digests"] = {}
    del config["tokenizer"]["sentences"]
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    card = tmp_path / "model" / "README.md"
    assert "Void: " in card.read_text()
    command = ["redact", str(tmp_path / "model"), "--calibrate", str(folder / "dev.conll"), "--miss-rate", "0.2"]
    assert main(command) == 0
    assert "at most 20.00%" in card.read_text()
    assert "Void: " not in card.read_text()


TEXT = "\ufeffann flew to new york .\r\nBob  Lee left acme \t\n\n  ann\rx é\u2028 ann hired oslo ."


def test_text_keeps_its_bytes(model, tmp_path, capsys):
    (tmp_path / "in.txt").write_bytes(TEXT.encode())
    command = ["redact", model, str(tmp_path / "in.txt"), "--replace", "name"]
    ledger = ["--ledger", str(tmp_path / "ledger.jsonl")]
    assert main([*command, "-o", str(tmp_path / "out.txt"), *ledger, "--ledger-text"]) == 0
    entries = [json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines()]
    assert entries
    out, at, marks = "", 0, {}
    for each in entries:
        assert each["document"] == str(tmp_path / "in.txt")
        assert each["source"] == "model"
        assert TEXT[each["start"] : each["end"]] == each["text"]
        name = each["type"], " ".join(each["text"].casefold().split())
        same = [other for other in marks if other[0] == each["type"]]
        mark = marks.setdefault(name, f"[{each['type']}-{len(same) + 1}]")
        out += TEXT[at : each["start"]] + mark
        at = each["end"]
    assert (tmp_path / "out.txt").read_bytes() == (out + TEXT[at:]).encode()
    assert [each["text"] for each in entries].count("ann") > 1  # one document: the same mark
    assert main([*command, "-o", str(tmp_path / "out.txt"), *ledger]) == 0
    assert all("text" not in json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines())
    capsys.readouterr()
    assert main(command) == 0
    assert capsys.readouterr().out.encode() == (tmp_path / "out.txt").read_bytes()


@pytest.mark.parametrize("splitter", ["line", "blank_line", "none"])
def test_a_text_file_is_cut_into_sentences_as_the_text_itself(model, tmp_path, splitter):
    tagger = Tagger.load(model)
    tagger.tokenizer = tagger.tokenizer.with_sentences(splitter)
    tagger.save(tmp_path / "model")
    text = "\ufeff\n\nann flew to new\r\nyork with bob\nlee .\n \t\neve left\racme .\n\n\nbob\nleft"
    (tmp_path / "in.txt").write_bytes(text.encode())
    command = ["redact", str(tmp_path / "model"), str(tmp_path / "in.txt"), "-o", str(tmp_path / "out.txt")]
    assert main([*command, "--threshold", "0.3", "--replace", "name"]) == 0
    whole = tagger.redact(text[1:], threshold=0.3, replace="name").text
    assert (tmp_path / "out.txt").read_bytes().decode() == "\ufeff" + whole


def test_a_text_without_an_end_of_a_sentence_is_refused_before_it_fills_the_memory(model, tmp_path, capsys):
    tagger = Tagger.load(model)
    tagger.tokenizer = tagger.tokenizer.with_sentences("blank_line")
    tagger.save(tmp_path / "model")
    (tmp_path / "in.txt").write_text("ann left\n" * 300_000)
    command = ["redact", str(tmp_path / "model"), str(tmp_path / "in.txt"), "-o", str(tmp_path / "out.txt")]
    assert main([*command, "--threshold", "0.3"]) == 2
    assert "in.txt:233017: no end of a sentence in 2,097,153 characters" in capsys.readouterr().err
    assert not (tmp_path / "out.txt").exists()


def test_blanks_are_as_long_as_what_they_hide(model, tmp_path):
    (tmp_path / "in.txt").write_bytes(TEXT.encode())
    assert main(["redact", model, str(tmp_path / "in.txt"), "-o", str(tmp_path / "out"), "--replace", "blank"]) == 0
    out = (tmp_path / "out").read_bytes().decode()
    assert len(out) == len(TEXT)
    assert all(after in (before, " ") for before, after in zip(TEXT, out, strict=True))
    assert "ann" not in out


def test_json_lines_keep_all_but_their_text(model, tmp_path):
    lines = [
        '{"id": 7,  "text" : "ann flew to oslo .","meta":{"text": "ann", "n": [1.50, "\\u00e9"]}}\r\n',
        "\n",
        '{ "tokens": ["bob", "lee", "left"], "tags": ["B-PER", "I-PER", "O"] }\n',
        '{"text": "caf\\u00e9 ann"}\n',
        '{"text": "the rain stopped"   }\n',
        '{"text": "ann", "text": "eve"}',
    ]
    (tmp_path / "in.jsonl").write_bytes("".join(lines).encode())
    command = ["redact", model, str(tmp_path / "in.jsonl"), "-o", str(tmp_path / "out.jsonl"), "--replace", "name"]
    assert main([*command, "--threshold", "0.4"]) == 0
    out = (tmp_path / "out.jsonl").read_bytes().decode().splitlines(keepends=True)
    texts = ["ann flew to oslo .", "caf\u00e9 ann"]
    first, fourth = (each.text for each in Tagger.load(model).redact(texts, threshold=0.4, replace="name"))
    assert out[0] == lines[0].replace('"ann flew to oslo ."', json.dumps(first))
    assert out[1] == "\n"
    assert out[2] == '{ "tokens": ["[PER-1]", "[PER-1]", "left"], "tags": ["B-PER", "I-PER", "O"] }\n'
    assert out[3] == lines[3].replace('"caf\\u00e9 ann"', json.dumps(fourth))
    assert out[4] == lines[4]
    assert out[5] == '{"text": "[PER-1]", "text": "[PER-1]"}'


@pytest.mark.parametrize("separator", ["\t", " ", "  ", " \t "])
def test_columns_keep_all_but_their_tokens(model, tmp_path, separator):
    rows = [
        "-DOCSTART- O",
        "",
        "ann B-PER",
        "flew O",
        "",
        "",
        "bob B-PER",
        "lee I-PER",
        "",
        "-DOCSTART- O",
        "",
        "bob B-PER",
    ]
    (tmp_path / "in.conll").write_bytes("\r\n".join(row.replace(" ", separator) for row in rows).encode())
    command = ["redact", model, str(tmp_path / "in.conll"), "-o", str(tmp_path / "out"), "--threshold", "0.4"]
    assert main([*command, "--replace", "name", "--ledger", str(tmp_path / "ledger")]) == 0
    expected = [*rows]
    for row, mark in ((2, "[PER-1]"), (6, "[PER-2]"), (7, "[PER-2]"), (11, "[PER-1]")):
        expected[row] = f"{mark} {rows[row].split()[1]}"
    assert (tmp_path / "out").read_bytes().decode() == "\r\n".join(row.replace(" ", separator) for row in expected)
    entries = [json.loads(line) for line in (tmp_path / "ledger").read_text().splitlines()]
    assert [(each["document"].rpartition(":")[2], each["start"], each["end"]) for each in entries] == [
        ("3", 0, 1),
        ("7", 0, 2),
        ("12", 0, 1),
    ]


def test_columns_keep_their_byte_order_mark(model, tmp_path):
    (tmp_path / "in.conll").write_bytes(b"\xef\xbb\xbfann B-PER\r\nleft O\r\n")
    command = ["redact", model, str(tmp_path / "in.conll"), "-o", str(tmp_path / "out"), "--threshold", "0.4"]
    assert main(command) == 0
    assert (tmp_path / "out").read_bytes() == b"\xef\xbb\xbf[PER] B-PER\r\nleft O\r\n"


def test_columns_come_from_standard_input_and_other_columns_too(model, capsys, monkeypatch):
    given = b"# c\n1 ann NN\n2 flew VB\n\n1 rain NN\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
    command = ["redact", model, "-", "--input-format", "conll", "--token-column", "1", "--comment", "#"]
    assert main([*command, "--threshold", "0.4"]) == 0
    assert capsys.readouterr().out == "# c\n1 [PER] NN\n2 flew VB\n\n1 rain NN\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a b\nc\n")))
    assert main([*command[:-2], "--threshold", "0.4"]) == 2
    assert capsys.readouterr().err.startswith("maskedcrf: <stdin>:2: 1 column where the file has 2")


def test_cells_of_which_only_the_first_character_is_read_are_hidden_whole(model, tmp_path):
    tagger = Tagger.load(model)
    settings = {**tagger.record.settings, "data": {**tagger.record.settings["data"], "first_character": True}}
    tagger.record = tagger.record.model_copy(update={"settings": settings})
    tagger.save(tmp_path / "model")
    (tmp_path / "in.conll").write_text("\u53e30 O\n\u81541 O\n")
    command = ["redact", str(tmp_path / "model"), str(tmp_path / "in.conll"), "-o", str(tmp_path / "out")]
    assert (
        main([*command, "--threshold", "0", "--types", " PER ", "--ledger", str(tmp_path / "book"), "--ledger-text"])
        == 0
    )
    assert (tmp_path / "out").read_text() == "[PER] O\n[PER] O\n"
    entries = [json.loads(line) for line in (tmp_path / "book").read_text().splitlines()]
    assert " ".join(each["text"] for each in entries) == "\u53e30 \u81541"


def test_several_files_and_gzip_go_into_a_folder(model, tmp_path):
    (tmp_path / "a.txt").write_text("ann flew to oslo .\n")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"eve left\n"))
    (tmp_path / "out").mkdir()
    files = [str(tmp_path / "a.txt"), str(tmp_path / "b.txt.gz")]
    assert main(["redact", model, *files, "-o", str(tmp_path / "out"), "--threshold", "0.3"]) == 0
    assert (tmp_path / "out" / "a.txt").read_text() == "[PER] flew to [LOC] .\n"
    assert gzip.decompress((tmp_path / "out" / "b.txt.gz").read_bytes()) == b"[PER] left\n"


@pytest.mark.parametrize("kind", ["string", "large_string"])
def test_tables_keep_all_but_one_column(model, tmp_path, kind):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    texts = ["ann flew to oslo .", None, "", "the rain stopped"] * 3
    schema = pa.schema([("id", pa.int16()), ("text", getattr(pa, kind)()), ("x", pa.string())], metadata={"a": "b"})
    pq.write_table(pa.table({"id": range(12), "text": texts, "x": ["ann"] * 12}, schema), tmp_path / "in.parquet")
    command = ["redact", model, str(tmp_path / "in.parquet"), "--threshold", "0.4", "--replace", "name"]
    assert main([*command, "-o", str(tmp_path / "out.parquet"), "--ledger", str(tmp_path / "ledger")]) == 0
    out = pq.read_table(tmp_path / "out.parquet")
    assert out.schema.equals(schema, check_metadata=True)
    assert out["id"].to_pylist() == list(range(12))
    assert out["x"].to_pylist() == ["ann"] * 12
    expected = Tagger.load(model).redact([text or "" for text in texts], threshold=0.4, replace="name")
    assert out["text"].to_pylist() == [
        None if text is None else each.text for text, each in zip(texts, expected, strict=True)
    ]
    first = json.loads((tmp_path / "ledger").read_text().splitlines()[0])
    assert (first["document"], first["start"]) == (f"{tmp_path / 'in.parquet'}: row 1", 0)
    assert main(command) == 2  # not to standard output


def test_tables_of_tokens_keep_their_number(model, tmp_path, capsys):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"tokens": [["bob", "lee", "left"], []]}), tmp_path / "in.parquet")
    command = ["redact", model, str(tmp_path / "in.parquet"), "-o", str(tmp_path / "out"), "--threshold", "0.4"]
    assert main(command) == 0
    assert pq.read_table(tmp_path / "out")["tokens"].to_pylist() == [["[PER]", "[PER]", "left"], []]
    for table, message in (({"text": [1]}, "the column text is int64"), ({"words": ["a"]}, "needs a column text or")):
        pq.write_table(pa.table(table), tmp_path / "in.parquet")
        assert main(command) == 2
        assert message in capsys.readouterr().err


def test_a_check_tells_the_miss_rate_found_and_whether_it_agrees(folder, model, capsys):
    assert main(["redact", model, "--check", str(folder / "test.conll"), "--json"]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)["check"]
    assert found["agrees"]
    assert found["low"] <= found["miss_rate"] <= found["high"]
    assert not found["is_own_sample"]
    assert "this agrees with the promise of at most 10.00%" in captured.err
    assert main(["redact", model, "--check", str(folder / "shifted.conll")]) == 1
    assert "this breaks the promise of at most 10.00%" in capsys.readouterr().err
    assert main(["redact", model, "--check", str(folder / "dev.conll")]) == 0
    assert "the sentences the promise was made on, so this check proves nothing" in capsys.readouterr().err
    assert main(["redact", model, "--check", str(folder / "shifted.conll"), "--threshold", "0.9"]) == 0
    assert "agrees" not in capsys.readouterr().err


def test_the_rate_found_is_the_mean_over_units(folder, model, capsys):
    assert main(["redact", model, "--check", str(folder / "test.conll"), "--json", "--threshold", "0.8"]) == 0
    found = json.loads(capsys.readouterr().out)["check"]
    gold = unknown_names(200, 4, share=0.1)
    tagger = Tagger.load(model)
    shares = [missed(tagger, sentence) for sentence in gold if {*sentence.tags} != {"O"}]
    assert found["units"] == len(shares)
    assert found["miss_rate"] == pytest.approx(sum(shares) / len(shares))


def missed(tagger: Tagger, sentence: Sentence) -> float:
    """The share of a sentence's entities of which a token is left, in its text of tokens joined by blanks."""
    text = " ".join(sentence.tokens)
    hidden = tagger.redact(text, threshold=0.8, replace="blank").text
    at, left = 0, []
    for token, tag in zip(sentence.tokens, sentence.tags, strict=True):
        is_left = hidden[at : at + len(token)] == token
        if tag.startswith("B"):
            left.append(is_left)
        elif tag.startswith("I"):
            left[-1] |= is_left
        at += len(token) + 1
    return sum(left) / len(left)


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (b"ann\n", [], "nothing to do: give files"),
        (b"ann\n", ["in.txt", "--json"], "cannot both go to standard output"),
        (b"ann\n", ["in.txt", "--threshold", "0.5", "--calibrate", "in.txt"], "leave out one of it and --calibrate"),
        (b"ann\n", ["in.txt", "--threshold", "1.5"], "threshold is a probability from 0 to 1, got 1.5"),
        (b"ann\n", ["in.txt", "-o", "in.txt"], "is read, and would be lost; write to another place"),
        (b"ann\n", ["in.txt", "in.txt"], "several files are redacted into a folder that is there"),
        (b"ann\n", ["in.txt", "in.txt", "-o", "."], "two files would be written there"),
        (b"ann\n", ["--check", "in.txt", "--ledger", "x"], "--ledger tells what was hidden in files"),
        (b"ann\n", ["in.txt", "-o", "out", "--ledger-text"], "--ledger-text puts the hidden text into a ledger"),
        (b"ann\n", ["in.txt", "-o", "out", "--miss-rate", "0.5"], "--confidence and --loss belong to --calibrate"),
        (
            b"ann O\n",
            ["--calibrate", "in.txt", "--miss-rate", "1"],
            "miss_rate is a share between 0 and 1, such as 0.01",
        ),
        (b"ann O\n", ["--calibrate", "in.txt", "--confidence", "95"], "confidence is a share between 0 and 1"),
        (
            b"ann\n" + b"a " * (1 << 20) + b"b\n",
            ["in.txt", "-o", "out"],
            "in.txt:2: a text of more than 2,097,152 char",
        ),
        (b"ann\n", ["in.txt", "--types", "PER"], "the promise is about"),
        (b"ann\n", ["in.txt", "--types", "FOOD", "--threshold", "0.5"], "'FOOD' is not one of the model's types"),
        (b"ann\n", ["--calibrate", "in.txt"], "no gold tags; a miss rate needs them"),
        (b"ann\xff\n", ["in.txt", "-o", "out"], "in.txt:1: not UTF-8 (byte 0xff)"),
        (b"a\nan\0n\n", ["in.txt", "-o", "out"], "in.txt:2: a NUL character"),
        (b'{"text": "a", "tokens": ["a"]}\n', ["in.txt", "-o", "out"], "in.txt:1: both text and tokens"),
        (b'{"text": "ann", "spans": [{"start": 0, "end": 3, "label": "PER"}]}', ["in.txt", "-o", "out"], "counts char"),
        (b'{"text": "a"}\n[]\n', ["in.txt", "-o", "out"], "in.txt:2: "),
        (
            b"ann B-PER\n",
            ["in.txt", "--replace", "blank", "--input-format", "conll"],
            "columns cannot hold blank tokens",
        ),
        (b"ann\n", ["in.txt", "--input-format", "brat"], "brat is not redacted, only text, jsonl, conll and"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(model, content, arguments, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_bytes(content)
    assert main(["redact", model, *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert not (tmp_path / "out").exists()
    assert (tmp_path / "in.txt").read_bytes() == content


def test_a_void_promise_is_an_error(model, tmp_path, capsys):
    tagger = Tagger.load(model)
    tagger.calibrate(corpus(30, 9))
    tagger.save(tmp_path / "model")
    (tmp_path / "in.txt").write_text("ann\n")
    assert main(["redact", str(tmp_path / "model"), str(tmp_path / "in.txt"), "-o", str(tmp_path / "out")]) == 2
    assert "the promise was made for another model" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_rules_hide_what_they_find_and_the_ledger_says_which_found_it(model, tmp_path, capsys):
    (tmp_path / "in.txt").write_text("mail ann@example.org , ref C-123456 by zzz\n", encoding="utf-8")
    (tmp_path / "clients.txt").write_text("zzz\n", encoding="utf-8")
    (tmp_path / "own.toml").write_text("[[patterns]]\nname='ref'\ntype='REF'\npattern='C-[0-9]{6}'\n", encoding="utf-8")
    command = ["redact", model, str(tmp_path / "in.txt"), "--threshold", "1", "--ledger", str(tmp_path / "ledger")]
    rules = ["--patterns", "builtin", "--patterns", str(tmp_path / "own.toml")]
    assert main([*command, *rules, "--dictionary", f"PER={tmp_path / 'clients.txt'}"]) == 0
    assert capsys.readouterr().out == "mail [EMAIL] , ref [REF] by [PER]\n"
    entries = [json.loads(line) for line in (tmp_path / "ledger").read_text().splitlines()]
    assert [entry["source"] for entry in entries] == ["pattern:email", "pattern:ref", "dictionary:clients.txt"]
    assert [entry["probability"] for entry in entries] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--patterns", "bultin"], "bultin: No such file or directory; give a readable TOML or JSON file"),
        (["--patterns", "builtin", "--patterns", "builtin"], "two patterns are called 'email'"),
        (["--dictionary", "names.txt"], "names.txt: names of which type? Write TYPE=FILE"),
        (["--dictionary", "PER=names.txt"], "names.txt: No such file or directory"),
    ],
)
def test_rules_that_cannot_be_read_are_refused_in_one_line(model, arguments, message, tmp_path, capsys):
    (tmp_path / "in.txt").write_text("ann\n")
    assert main(["redact", model, str(tmp_path / "in.txt"), "-o", str(tmp_path / "out.txt"), *arguments]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert message in lines[-1]
    assert not (tmp_path / "out.txt").exists()
