"""Pieces of files, tagged without a cluster: rows are kept to the letter, and what cannot be tagged is set aside."""

from __future__ import annotations

import gzip
import json
import random

import pytest
from bulk_inputs import BAD_LINES, TEXTS, columns, json_lines, table
from hypothesis import given
from hypothesis import strategies as st
from service_helpers import build_tagger

from maskedcrf.bulk.formats import FORMATS, cut, tag
from maskedcrf.bulk.output import Manifest, OutputFile, Source, find_sources
from maskedcrf.bulk.rows import Options
from maskedcrf.bulk.run import _run_fingerprint
from maskedcrf.bulk.tables import arrow_bytes
from maskedcrf.data.formats.conll import read_conll
from maskedcrf.errors import DataError, MaskedCRFError
from maskedcrf.files import SUFFIXES, format_from_suffix
from maskedcrf.tagger.folder import TrainingRecord
from maskedcrf.tagger.tagger import Tagger

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def tagged(path, options=None, form=None, tagger=None):
    """Content and rejects of a whole file, piece by piece."""
    options = options or Options()
    form = form or format_from_suffix(path)
    done = [
        tag(tagger or build_tagger(), piece, path=str(path), form=form, options=options)
        for piece in cut(str(path), form, options)
    ]
    return [each.content for each in done], [reject for each in done for reject in each.rejects]


def test_rows_are_decoded_as_the_tagger_is_set_to(tmp_path):
    own = Tagger(build_tagger().model)
    own.decoding, own.segment_threshold = "segments", 0.9
    (tmp_path / "a.jsonl").write_text('{"text": "Ann Lee flew to Oslo."}\n')
    (content,), _ = tagged(tmp_path / "a.jsonl", tagger=own)
    assert [entity["text"] for entity in json.loads(content)["entities"]] == ["Ann Lee"]


def test_rows_are_decoded_as_the_options_say(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "Ann Lee flew to Oslo."}\n')
    found = []
    for threshold in (0.9, 0.0):
        options = Options(decoding="segments", segment_threshold=threshold)
        (content,), _ = tagged(tmp_path / "a.jsonl", options)
        found.append([entity["text"] for entity in json.loads(content)["entities"]])
    assert found[0] == ["Ann Lee"]
    assert len(found[1]) > 2


def test_every_form_that_a_name_can_show_can_be_tagged():
    assert FORMATS.keys() == SUFFIXES.keys()


@pytest.mark.parametrize("name", ["a.jsonl.gz", "A.JSONL.GZ"])
def test_what_is_named_as_packed_is_written_packed(name, tmp_path):
    target = OutputFile(tmp_path, Source("in", format_from_suffix(name), name))
    target.write(b"{}\n", b"")
    target.finish()
    assert gzip.decompress((tmp_path / name).read_bytes()) == b"{}\n"


@given(size=st.integers(0, 30), piece=st.integers(1, 3000))
def test_the_size_of_pieces_changes_nothing(size, piece, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pieces")
    for name, content in (("a.jsonl", json_lines(size)), ("a.conll", columns(size))):
        (folder / name).write_bytes(content)
        whole, cut_up = (b"".join(tagged(folder / name, Options(piece=n))[0]) for n in (1 << 20, piece))
        assert cut_up == whole


def test_a_line_of_json_keeps_its_beginning_to_the_letter(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(json_lines(5))
    lines = b"".join(tagged(path)[0]).decode().splitlines()
    for before, after, text in zip(json_lines(5).decode().splitlines(), lines, TEXTS, strict=True):
        assert after.startswith(before.removesuffix(" }"))
        answer = build_tagger().predict(text).to_json()
        assert {key: json.loads(after)[key] for key in answer} == answer


def test_tokens_of_columns_are_cut_as_the_model_learnt_them(tmp_path):
    (tmp_path / "a.conll").write_text("Ann\nOslo\n\n")
    assert b"".join(tagged(tmp_path / "a.conll")[0]) == b"Ann B-PER\nOslo B-LOC\n\n"
    tagger = Tagger(build_tagger().model, record=TrainingRecord(settings={"data": {"first_character": True}}))
    first = tagger.predict([["A", "O"]])[0].tags
    assert b"".join(tagged(tmp_path / "a.conll", tagger=tagger)[0]).decode() == f"Ann {first[0]}\nOslo {first[1]}\n\n"
    assert first != ("B-PER", "B-LOC")
    (tmp_path / "a.jsonl").write_text('{"tokens": ["Ann", "Oslo"]}\n')
    [line] = b"".join(tagged(tmp_path / "a.jsonl", tagger=tagger)[0]).splitlines()
    assert json.loads(line)["tags"] == ["B-PER", "B-LOC"], "as predict, which cuts columns alone"


def test_a_column_file_keeps_every_line_and_gets_a_column(tmp_path):
    path = tmp_path / "a.conll"
    path.write_bytes(columns(2))
    options = Options(comment="#")
    expected = "-DOCSTART- -X- O\n\n" + "# id 7\nAnn NNP B-PER\nflew VB O\n\n\nto TO O\nOslo NNP B-LOC\n\n" * 2
    content, rejects = tagged(path, options)
    assert b"".join(content).decode() == expected
    assert rejects == []


def test_bad_lines_are_set_aside_with_place_and_reason(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(json_lines(2) + b"\n".join(BAD_LINES) + b"\n")
    content, rejects = tagged(path)
    assert b"".join(content).count(b"\n") == 2
    assert [reject["place"] for reject in rejects] == list(range(3, 3 + len(BAD_LINES)))
    for reject, (line, reason) in zip(rejects, BAD_LINES.items(), strict=True):
        assert reason in reject["reason"]
        assert reject["content"] == line.decode("utf-8", "backslashreplace")
        assert "\n" not in reject["reason"]


def test_offsets_count_in_the_field_that_is_read_as_the_guide_says(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"tokens": ["Ann", "flew", "to", "Oslo"], "text": "Ann  flew  to  Oslo"}\n')
    for options, joined in ((Options(), "Ann flew to Oslo"), (Options("text", "new_"), "Ann  flew  to  Oslo")):
        [line] = b"".join(tagged(path, options)[0]).splitlines()
        entities = json.loads(line)[f"{options.prefix}entities"]
        assert [joined[each["start"] : each["end"]] for each in entities] == ["Ann", "Oslo"]


@pytest.mark.parametrize("value", ["3", "null", "{}"])
def test_a_text_that_is_none_is_told_that_it_may_be_a_string(tmp_path, value):
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"text": {value}}}\n')
    _, [reject] = tagged(path)
    assert reject["reason"].startswith("text must be a list of strings or one string, got ")


@pytest.mark.parametrize(
    ("bad", "place", "reason"),
    [
        (b"Ann NNP\nflew\n\n", 5, "1 column where the file has 2"),
        (b"Ann N\xffP\n\n", 4, "not UTF-8"),
        (b"Ann N\0P\n\n", 4, "NUL"),
    ],
)
def test_a_bad_sentence_is_set_aside_and_its_neighbours_are_not(bad, place, reason, tmp_path):
    path = tmp_path / "a.conll"
    path.write_bytes(b"Oslo NNP\nto TO\n\n" + bad + b"Lee NNP\n\n")
    content, [reject] = tagged(path)
    assert b"".join(content) == b"Oslo NNP B-LOC\nto TO O\n\n\nLee NNP B-PER\n\n"
    assert (reject["file"], reject["place"]) == (str(path), place)
    assert reason in reject["reason"]


def test_a_bad_first_line_does_not_speak_for_the_file(tmp_path):
    path = tmp_path / "a.conll"
    path.write_bytes(b"a title of five words\n\nOslo NNP\n\nto TO\n\n")
    content, [reject] = tagged(path)
    assert b"".join(content) == b"\nOslo NNP B-LOC\n\nto TO O\n\n"
    assert reject["place"] == 1


def test_a_sentence_over_the_limit_is_set_aside(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"tokens": ["a", "b", "c"]}\n{"text": "a b"}\n{"text": "a b  c"}\n')
    content, rejects = tagged(path, Options(longest=2))
    assert len(b"".join(content).splitlines()) == 1
    assert [reject["place"] for reject in rejects] == [1, 3]


def test_a_table_keeps_its_columns_and_types(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(table(20), path, row_group_size=6)
    content, [reject] = tagged(path, Options(piece=64, prefix="p_", probabilities=True))
    found = pa.concat_tables([pa.ipc.open_stream(each).read_all() for each in content])
    given = table(20)
    kept = given.take([n for n in range(20) if n != 7])
    assert found.select(given.column_names).equals(kept)
    answers = build_tagger().predict(kept["tokens"].to_pylist(), probabilities=True)
    assert found["p_tags"].to_pylist() == [list(answer.tags) for answer in answers]
    expected = [[entity.to_json() for entity in answer.entities] for answer in answers]
    assert found["p_entities"].to_pylist() == expected
    assert (reject["place"], reject["reason"]) == (8, "tokens is null")


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ({"words": ["a"]}, Options(), "no tokens and no text"),
        ({"text": [3]}, Options(), "the column text is int64"),
        ({"text": ["a"], "tags": ["O"]}, Options(), "a field tags already"),
        ({"text": ["a"]}, Options(field="body"), "no body"),
    ],
)
def test_a_table_without_words_is_refused_as_a_whole(rows, options, message, tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(rows), path)
    with pytest.raises(DataError, match=message) as error:
        tagged(path, options)
    assert str(error.value).startswith(f"{path}: ")


def test_text_that_is_not_utf8_in_a_table_is_set_aside(tmp_path):
    broken = pa.array([b"Ann", b"\xff"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": broken}), tmp_path / "a.parquet")
    content, [reject] = tagged(tmp_path / "a.parquet")
    assert sum(len(pa.ipc.open_stream(each).read_all()) for each in content) == 1
    assert (reject["place"], reject["reason"]) == (2, "text is not UTF-8")


def test_tagged_columns_can_be_read_again(tmp_path):
    path = tmp_path / "a.conll"
    path.write_bytes(columns(3))
    (tmp_path / "out.conll").write_bytes(b"".join(tagged(path, Options(comment="#"))[0]))
    sentences = list(read_conll(tmp_path / "out.conll", comment="#"))
    assert [sentence.tags for sentence in sentences] == [("B-PER", "O"), ("O", "B-LOC")] * 3


class Refusing:
    """A tagger that has no answer to one text."""

    def stream(self, texts, **question):
        if "never" in texts:
            raise MaskedCRFError("input 0 (counted from 0): no legal path")
        return build_tagger().stream(texts, **question)


def test_rejects_stand_in_the_order_of_the_file_whoever_refused_them(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "Oslo"}\n{"text": "never"}\n{]\n{"text": "to"}\n')
    [piece] = cut(str(path), "jsonl", Options())
    done = tag(Refusing(), piece, path=str(path), form="jsonl", options=Options())
    assert [json.loads(line)["text"] for line in done.content.splitlines()] == ["Oslo", "to"]
    assert [(reject["place"], reject["content"]) for reject in done.rejects] == [(2, '{"text": "never"}'), (3, "{]")]
    assert done.rejects[0]["reason"] == "no legal path"
    assert (done.sentences, done.tokens) == (2, 2)


def test_what_a_writer_left_under_a_hidden_name_is_no_input(tmp_path):
    for name in ("in/a.jsonl", "in/_temporary/b.jsonl", "in/.c.jsonl", "in/_d.jsonl", "in/deep/e.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}\n")
    assert [source.name for source in find_sources([tmp_path / "in"], tmp_path / "out")] == ["a.jsonl", "deep/e.jsonl"]


def test_an_output_whose_rejects_are_gone_is_not_done(tmp_path):
    (tmp_path / "a.jsonl").write_text("{]\n")
    [source] = find_sources([tmp_path / "a.jsonl"], tmp_path / "out")
    with Manifest.open(tmp_path / "out", {"made": 1}, overwrite=False) as manifest:
        target = OutputFile(tmp_path / "out", source)
        target.write(b"", b"{}\n")
        target.finish()
        manifest.add(source, source.state(), {"sentences": 0, "tokens": 0, "rejected": 1})
        assert manifest.has(source)
        (tmp_path / "out" / "a.jsonl.rejects.jsonl").unlink()
        assert not manifest.has(source)


def test_rejects_of_an_earlier_run_do_not_outlive_it(tmp_path):
    source = Source("in", "jsonl", "a.jsonl")
    for rejects, names in ((b"{}\n", ["a.jsonl", "a.jsonl.rejects.jsonl"]), (b"", ["a.jsonl"])):
        target = OutputFile(tmp_path, source)
        target.write(b"{}\n", rejects)
        target.finish()
        assert sorted(path.name for path in tmp_path.iterdir()) == names


@pytest.mark.parametrize("form", ["jsonl", "jsonl.gz", "parquet"])
def test_a_full_disk_is_told_by_the_name_of_the_output_and_leaves_nothing(form, tmp_path):
    resource = pytest.importorskip("resource")
    content = random.Random(1).randbytes(1 << 16)
    if form == "parquet":
        content = arrow_bytes(pa.table({"text": [content]}))
    target = OutputFile(tmp_path, Source("in", form.partition(".")[0], f"a.{form}"))

    def write_all():
        for _ in range(3):
            target.write(content, b"")
        target.finish()

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, before[1]))  # no file may be larger, as if the disk were full
    try:
        with pytest.raises(MaskedCRFError, match=rf"a\.{form}: File too large; finished files are kept, make room"):
            write_all()
        target.drop()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_how_large_pieces_are_makes_no_other_output(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"model")
    made = _run_fingerprint(tmp_path / "model.onnx", Options(piece=1))
    assert made == _run_fingerprint(tmp_path / "model.onnx", Options(piece=2))
    assert made != _run_fingerprint(tmp_path / "model.onnx", Options(longest=2))
