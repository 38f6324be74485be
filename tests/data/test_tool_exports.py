"""What tools export beside plain annotations: links, judgements of one span, older versions, other recipes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from maskedcrf.cli import main
from maskedcrf.data.annotation import ReadReport
from maskedcrf.data.formats import find_format, read_sentences
from maskedcrf.errors import DataError

LINKED = """#FORMAT=WebAnno TSV 3.3
#T_SP=webanno.custom.Frame|ROLE_webanno.custom.Frame:roles_webanno.custom.Link|webanno.custom.Unit
#T_SP=de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity|identifier|value
#T_CH=de.tudarmstadt.ukp.dkpro.core.api.coref.type.CoreferenceLink|referenceRelation|referenceType
#T_RL=webanno.custom.Coref|type|BT_webanno.custom.Referent


#Text=Ann Lee saw Bo
1-1\t0-3\tAnn\tagent\t1-3\t*[1]\tPER[1]\t_\t_\tcoref\t2-1[0_1]\t
1-2\t4-7\tLee\t_\t_\t*[1]\tPER[1]\t_\t_\t_\t_\t
1-3\t8-11\tsaw\t_\t_\t_\t_\t_\t_\t_\t_\t
1-4\t12-14\tBo\t_\t_\t*\tPER\t*->1-1\tpers\t_\t_\t

#Text=She left
2-1\t15-18\tShe\t_\t_\t*[2]\t*[2]\t_\t_\t_\t_\t
2-2\t19-23\tleft\t_\t_\t*[2]\t*[2]\t_\t_\t_\t_\t
"""


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def write_json(path: Path, *records: Any) -> Path:
    return write(path, "".join(json.dumps(record) + "\n" for record in records))


def test_webanno_with_relations_chains_and_slots_is_read_by_its_entities(tmp_path: Path) -> None:
    report = ReadReport()
    found = list(read_sentences(write(tmp_path / "a.tsv", LINKED), report=report))
    assert [each.tags for each in found] == [("B-PER", "I-PER", "O", "B-PER"), ("O", "O")]
    assert report.counts == {"annotations without a label left out": 1}


def test_a_webanno_annotation_over_two_sentences_is_refused(tmp_path: Path) -> None:
    crossing = LINKED.replace("Bo\t_\t_\t*\tPER\t", "Bo\t_\t_\t*[2]\tPER[2]\t").replace("*[2]\t*[2]", "*[2]\tPER[2]")
    with pytest.raises(DataError, match=r"a\.tsv:15: PER\[2\] goes on from the sentence before; cut it in two"):
        list(read_sentences(write(tmp_path / "a.tsv", crossing)))


def test_a_webanno_annotation_of_no_character_covers_no_token(tmp_path: Path) -> None:
    empty = LINKED.replace("1-4\t12-14", "1-3.1\t11-11\t\t_\t_\t*\tPER\t_\t_\t_\t_\t\n1-4\t12-14")
    with pytest.raises(DataError, match="span 11:11 PER '' covers no token"):
        list(read_sentences(write(tmp_path / "a.tsv", empty)))


def test_of_a_prodigy_judgement_of_one_span_the_rest_is_open(tmp_path: Path) -> None:
    judged = {"text": "Ann met Bo.", "spans": [{"start": 0, "end": 3, "label": "PER"}], "_is_binary": True}
    path = write_json(tmp_path / "a.jsonl", {**judged, "answer": "accept"}, {**judged, "answer": "reject"})
    [sentence] = read_sentences(path)
    assert (sentence.tags, sentence.open) == (("B-PER", "O", "O", "O"), (1, 2, 3))
    assert main(["convert", str(path), "--to-format", "jsonl", "-o", str(tmp_path / "b.jsonl")]) == 0
    [again] = read_sentences(tmp_path / "b.jsonl")
    assert (again.tags, again.open) == (sentence.tags, sentence.open)
    assert [each.open for each in read_sentences(path, tag_column=None)] == [(), ()]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"text": "Ann.", "label": "NEWS", "answer": "accept"}, "no spans, but what other recipes ask for"),
        ({"text": "Ann.", "options": [], "accept": [1], "_task_hash": 1}, "no spans, but what other recipes ask for"),
        (
            {"text": "Ann.", "annotations": [{"start_offset": 0, "end_offset": 3, "label": 27, "user": 1}]},
            "a label is a number of doccano's database; export as JSONL with text labels",
        ),
        ([{"text": "Ann."}], "jq -c '.[]' writes one object a line"),
    ],
)
def test_what_holds_no_spans_with_names_is_refused(tmp_path: Path, record: Any, said: str) -> None:
    path = write_json(tmp_path / "a.jsonl", record)
    with pytest.raises(DataError, match=rf"a\.jsonl:1: .*{re.escape(said)}"):
        list(read_sentences(path))


def test_annotations_of_the_first_doccano_are_read(tmp_path: Path) -> None:
    spans = [{"start_offset": 0, "end_offset": 3, "label": "PER", "user": 1}]
    path = write_json(tmp_path / "a.jsonl", {"id": 1, "text": "Ann left", "annotations": spans})
    assert find_format(path) == "doccano"
    assert next(read_sentences(path)).tags == ("B-PER", "O")


def test_label_studio_tasks_of_html_are_refused_and_those_without_annotations_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    value = {"start": "/p[1]/text()[1]", "end": "/p[1]/text()[1]", "startOffset": 0, "hypertextlabels": ["PER"]}
    page = {"data": {"html": "<p>Ann</p>"}, "annotations": [{"result": [{"type": "hypertextlabels", "value": value}]}]}
    path = write(tmp_path / "a.json", json.dumps([page]))
    with pytest.raises(DataError, match=r"task 1: labels of HTML or of a dialogue have no places in one text"):
        list(read_sentences(path))
    write(path, json.dumps([{"data": {"text": "Ann"}}, {"data": {"text": "Bo"}}]))
    assert [each.tokens for each in read_sentences(path, tag_column=None)] == [("Ann",), ("Bo",)]
    assert main(["check", str(path)]) == 2
    assert f"{path}: no sentence in it; 2 tasks without a finished annotation left out" in capsys.readouterr().err


@pytest.mark.parametrize("saved", ["dataset", "parquet"])
@pytest.mark.parametrize(
    ("columns", "entity_column"),
    [
        ({"words": [["Ann", "left"]], "ner": [["B-PER", "O"]]}, None),
        ({"tokens": [["Ann", "left"]], "pos": [["X", "Y"]], "mine": [["B-PER", "O"]]}, "mine"),
        ({"text": ["Ann left"], "spans": [[{"start": 0, "end": 3, "label": "PER"}]]}, None),
        ({"text": ["Ann left"], "entities": [{"start": [0], "end": [3], "label": ["PER"]}]}, None),
    ],
)
def test_tables_are_read_by_the_names_that_people_give_their_columns(
    tmp_path: Path, saved: str, columns: dict[str, Any], entity_column: str | None
) -> None:
    datasets = pytest.importorskip("datasets")
    table, path = datasets.Dataset.from_dict(columns), tmp_path / saved
    table.save_to_disk(path) if saved == "dataset" else table.to_parquet(str(path))
    [sentence] = read_sentences(path, entity_column=entity_column)
    assert (sentence.tokens, sentence.tags) == (("Ann", "left"), ("B-PER", "O"))
    with pytest.raises(DataError, match="no column 'absent' [(]there are: "):
        list(read_sentences(path, entity_column="absent"))
    table.rename_column(next(iter(columns)), "odd").to_parquet(str(tmp_path / "odd"))
    with pytest.raises(DataError, match=r"no column tokens, words, text \(there are: .*\); rename yours"):
        list(read_sentences(tmp_path / "odd"))


def test_a_bracket_of_coreference_is_no_tag(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conllu", "1\tAnn\tAnn\tPROPN\tNNP\t_\t0\troot\t_\tEntity=(person-1)\n")
    with pytest.raises(DataError, match=r"a\.conllu:1: '\(person-1\)' is a bracket of coreference and no tag"):
        list(read_sentences(path))


def label_studio(*results: dict[str, Any], text: str, **annotation: Any) -> str:
    annotations = [{"result": list(results), "was_cancelled": False, "ground_truth": False, **annotation}]
    return json.dumps([{"id": 1, "annotations": annotations, "predictions": [], "data": {"text": text}}])


def region(start: int, end: int, mention: str, *labels: str, name: str = "label") -> dict[str, Any]:
    value = {"start": start, "end": end, "text": mention, "labels": list(labels)}
    return {"value": value, "id": "a", "from_name": name, "to_name": "text", "type": "labels"}


@pytest.mark.parametrize(
    ("text", "start", "mention"),
    [
        ("💩💩 Ann", 3, "Ann"),  # code points
        ("💩💩 Ann", 5, "Ann"),  # UTF-16, past the end of the text as code points
        ("Hi.\r\nAnn left", 5, "Ann"),
        ("Hi.\r\nAnn left", 4, "Ann"),  # a browser's \r\n is one
        ("💩\r\nAnn", 3, "Ann"),  # both
        ("Dr\nAnn left", 0, "Dr\\nAnn"),  # the tool writes a line end so
    ],
)
def test_label_studio_counts_as_the_mention_shows(tmp_path: Path, text: str, start: int, mention: str) -> None:
    export = label_studio(region(start, start + len(mention.replace("\\n", "\n")), mention, "PER"), text=text)
    [sentence] = read_sentences(write(tmp_path / "a.json", export), sentences="none")
    assert sentence.tags is not None
    found = [token for token, tag in zip(sentence.tokens, sentence.tags, strict=True) if tag != "O"]
    assert found == mention.replace("\\n", " ").split()


def test_what_is_said_beside_labels_is_passed_over_and_skipped_work_left_out(tmp_path: Path) -> None:
    choice = {"value": {"start": 0, "end": 3, "text": "Ann", "choices": ["sure"]}, "id": "a", "type": "choices"}
    remark = {"value": {"start": 0, "end": 3, "text": ["a", "b"]}, "id": "a", "type": "textarea"}
    link = {"from_id": "a", "to_id": "b", "type": "relation", "labels": ["knows"]}
    export = label_studio(region(0, 3, "Ann", "PER"), choice, remark, link, text="Ann left")
    path = write(tmp_path / "a.json", export)
    assert next(read_sentences(path)).tags == ("B-PER", "O")
    assert not list(read_sentences(write(path, label_studio(region(0, 3, "Ann", "PER"), text="Ann", skipped=True))))
    minimal = {
        "text": "Ann left",
        "annotation_id": 1,
        "topics": ["news"],
        "remark": ["a", "b"],
        "how": [choice["value"]],
    }
    label = [region(0, 3, "Ann", "PER")["value"]]
    write(path, json.dumps([{**minimal, "id": 1}, {**minimal, "id": 2, "label": label}]))
    assert [each.tags for each in read_sentences(path)] == [("O", "O"), ("B-PER", "O")]


def test_of_several_groups_of_labels_one_is_named(tmp_path: Path) -> None:
    both = region(0, 3, "Ann", "PER"), region(0, 8, "Ann left", "S", name="part")
    path = write(tmp_path / "a.json", label_studio(*both, text="Ann left"))
    assert next(read_sentences(path, entity_column="part")).tags == ("B-S", "I-S")
    groups = {name: [each["value"]] for name, each in zip(("label", "part"), both, strict=True)}
    write(path, json.dumps([{"text": "Ann left", "annotation_id": 1, "id": 1, **groups}]))
    assert next(read_sentences(path, entity_column="label")).tags == ("B-PER", "O")
    with pytest.raises(DataError, match=r"several fields hold labels \(label, part\); name one with entity_column"):
        list(read_sentences(path))
    with pytest.raises(DataError, match=r"a\.json: no labels of 'other' in it; entity_column names a <Labels>"):
        list(read_sentences(path, entity_column="other"))


def test_a_long_first_text_hides_no_tool(tmp_path: Path) -> None:
    text, spans = "Ann left. " * 40_000, [{"start": 0, "end": 3, "label": "PER"}]
    value = [{"text": text, "id": 1, "label": [region(0, 3, "Ann", "PER")["value"]], "annotation_id": 1}]
    assert find_format(write(tmp_path / "a.json", json.dumps(value))) == "labelstudio"
    path = write_json(tmp_path / "a.jsonl", {"text": text, "spans": spans, "answer": "reject"})
    with pytest.raises(DataError, match=r"a\.jsonl:1: a line of prodigy's.*--input-format prodigy"):
        list(read_sentences(path))
    write_json(path, {"text": text, "label": [[0, 3, "PER"]]})
    with pytest.raises(DataError, match=r"a\.jsonl:1: a line of doccano's.*--input-format doccano"):
        list(read_sentences(path))


@pytest.mark.parametrize(
    "record",
    [
        {"id": 1, "data": "Ann left", "label": [[0, 3, "PER"]]},
        {"doc_id": 1, "text": "Ann left", "entities": [[0, 3, "PER"]], "username": "admin"},
        {"text": "Ann left", "entities": [{"start": 0, "end": 3, "label": "PER"}]},
        {"text": "Ann left", "spans": [{"start": 0, "end": 3, "label": "PER"}], "meta": {"labels": ["news"]}},
        {"tokens": ["Ann", "left"], "tags": ["B-PER", "O"], "labels": ["news"], "text": "Ann left"},
    ],
)
def test_labels_are_found_under_the_names_of_every_version_and_not_in_meta(tmp_path: Path, record: Any) -> None:
    path = write_json(tmp_path / "a.jsonl", record)
    assert next(read_sentences(path)).tags == ("B-PER", "O")
    assert next(read_sentences(path, tag_column=None)).tokens == ("Ann", "left")


def test_two_annotators_of_prodigy_must_agree(tmp_path: Path) -> None:
    mine = {"text": "Ann left", "spans": [{"start": 0, "end": 3, "label": "PER"}], "answer": "accept"}
    report = ReadReport()
    path = write_json(tmp_path / "a.jsonl", {**mine, "_session_id": "a"}, {**mine, "_session_id": "b"})
    assert len(list(read_sentences(path, report=report))) == 1
    assert report.counts == {"repeated examples left out": 1}
    write_json(path, mine, {**mine, "spans": []})
    with pytest.raises(DataError, match=r"a\.jsonl:2: this text stood before with other spans"):
        list(read_sentences(path))


def test_a_header_is_no_token_and_an_archive_no_text(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "token\tlabel\nAnn\tB-PER\nleft\tO\n\nBo\tB-PER\n")
    with pytest.raises(DataError, match=r"a\.tsv:1: the header must name a word and a sentence column.*take it out"):
        list(read_sentences(path, tag_column=None))
    (tmp_path / "all.zip").write_bytes(b"PK\3\4")
    with pytest.raises(DataError, match=r"all\.zip: a zip archive; unpack it"):
        find_format(tmp_path / "all.zip")
    write(path, "No names in here .\n" * 30)
    assert find_format(path.rename(tmp_path / "a.txt")) == "text"


def test_a_sentence_of_webanno_may_begin_with_blanks(tmp_path: Path) -> None:
    head = "#FORMAT=WebAnno TSV 3.3\n#T_SP=webanno.custom.Mine|kind|note\n\n\n"
    path = write(tmp_path / "a.tsv", head + "#Text=  Ann left\n1-1\t9-12\tAnn\tPER\t_\t\n1-2\t13-17\tleft\t_\t_\t\n")
    assert next(read_sentences(path, entity_column="kind")).tags == ("B-PER", "O")


def test_an_entity_of_a_docbin_over_two_sentences_is_reported_and_not_lost(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy")
    doc = spacy.blank("en")("She joined Yahoo! Inc in May.")
    doc.set_ents([spacy.tokens.Span(doc, 2, 5, "ORG")])
    for token in doc:
        token.is_sent_start = token.i in (0, 4)
    path = tmp_path / "a.spacy"
    path.write_bytes(spacy.tokens.DocBin(docs=[doc], attrs=["ENT_IOB", "ENT_TYPE", "SENT_START"]).to_bytes())
    with pytest.raises(DataError, match=r"a\.spacy: document 1: span 11:21 ORG .* crosses a sentence break"):
        list(read_sentences(path))
    report = ReadReport()
    assert [each.tags for each in read_sentences(path, misfits="drop", report=report)] == [("O",) * 4, ("O",) * 4]
    assert report.counts == {"spans dropped that fit no tokens": 1}


def test_an_entity_of_brat_over_a_line_end_is_one_entity(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Seen by Ann\nLee today.\n")
    ann = write(tmp_path / "a.ann", "T1\tPER 8 11;12 15\tAnn Lee\n")
    [sentence] = read_sentences(tmp_path, sentences="blank_line")
    assert sentence.tags == ("O", "O", "B-PER", "I-PER", "O", "O")
    with pytest.raises(DataError, match=r"'Ann\\nLee' crosses a sentence break; split otherwise \(--sentences, "):
        list(read_sentences(tmp_path))
    for places in ("0 4;8 11", "8 11;8 11", "12 15;8 11", "0 4;5 7"):
        write(ann, f"T1\tPER {places}\tAnn Lee\n")
        with pytest.raises(DataError, match=r"a\.ann:1: a discontinuous entity, which tags cannot write"):
            list(read_sentences(tmp_path))


def test_entities_are_preferred_to_parts_of_speech(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "sentence_id,word,tag,ner\n1,Ann,NNP,B-PER\n1,left,VBD,O\n")
    assert [each.tags for each in read_sentences(path)] == [("B-PER", "O")]


def test_what_has_no_lines_is_named_by_its_task(tmp_path: Path) -> None:
    tasks = [{"data": {"text": text}, "annotations": [{"result": []}]} for text in ("Ann left.", "Bo came.")]
    path = write(tmp_path / "tasks.json", json.dumps(tasks))
    assert [each.where(0) for each in read_sentences(path)] == [f"{path}: task 1", f"{path}: task 2"]
