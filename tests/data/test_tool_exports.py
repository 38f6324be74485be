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
