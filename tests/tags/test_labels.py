"""Labels as people write them: each form read into the tags worked out by hand, and what cannot be known asked for."""

from __future__ import annotations

import re

import numpy as np
import pytest

from maskedcrf import Constraints
from maskedcrf.errors import ConstraintError
from maskedcrf.tags.label_file import labels_of_config

READ = {
    "as ours": (["O", "B-PER", "I-PER"], "BIO", ["O", "B-PER", "I-PER"]),
    "small letters": (["o", "b-per", "i-per"], "BIO", ["O", "B-per", "I-per"]),
    "underscore": (["O", "B_PER", "I_PER"], "BIO", ["O", "B-PER", "I-PER"]),
    "type first": (["PER-B", "PER-I", "O"], "BIO", ["B-PER", "I-PER", "O"]),
    "type with a dot": (["O", "B-PER.NAM", "I-PER.NAM"], "BIO", ["O", "B-PER.NAM", "I-PER.NAM"]),
    "type with the delimiter": (
        ["O", "B-work-of-art", "I-work-of-art"],
        "BIO",
        ["O", "B-work-of-art", "I-work-of-art"],
    ),
    "type first with an underscore inside": (
        ["start_time_B", "start_time_I", "O"],
        "BIO",
        ["B-start_time", "I-start_time", "O"],
    ),
    "bare types": (["O", "PER", "LOC"], "IO", ["O", "I-PER", "I-LOC"]),
    "bare prefixes": (["B", "I", "O"], "BIO", ["B", "I", "O"]),
    "no I": (["O", "B-PER", "B-LOC", "I-LOC"], "BIO", ["O", "B-PER", "B-LOC", "I-LOC"]),
    "no O": (["n-B", "n-I", "w-B"], "BIO", ["B-n", "I-n", "B-w"]),
    "a type that only continues": (["O", "B-LOC", "I-LOC", "I-PER"], "IOB1", ["O", "B-LOC", "I-LOC", "I-PER"]),
    "BIOES": (["O", "B-X", "I-X", "E-X", "S-X"], "BIOES", ["O", "B-X", "I-X", "E-X", "S-X"]),
    "BIOES, one type of single words": (["O", "B-X", "E-X", "S-Y"], "BIOES", ["O", "B-X", "E-X", "S-Y"]),
    "BILOU": (["O", "B-X", "I-X", "L-X", "U-X"], "BILOU", ["O", "B-X", "I-X", "L-X", "U-X"]),
    "BMES": (["O", "B-X", "M-X", "E-X", "S-X"], "BMES", ["O", "B-X", "M-X", "E-X", "S-X"]),
    "no separator": (["O", "BPER", "IPER", "BLOC", "ILOC"], "BIO", ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]),
    "no separator, BMES": (["BPER", "MPER", "EPER", "SPER"], "BMES", ["B-PER", "M-PER", "E-PER", "S-PER"]),
    "parts of speech": (["NN", "VB", "IN", "LS", "."], "IO", ["I-NN", "I-VB", "I-IN", "I-LS", "I-."]),
    "types that begin like prefixes": (["O", "LOC", "MISC"], "IO", ["O", "I-LOC", "I-MISC"]),
    "a dot": (["O", "B.PER", "I.PER"], "BIO", ["O", "B-PER", "I-PER"]),
    "a blank": (["O", "B PER", "I PER"], "BIO", ["O", "B-PER", "I-PER"]),
    "two separators": (["O", "B::PER", "I::PER"], "BIO", ["O", "B-PER", "I-PER"]),
    "two separators, type first": (["O", "PER__B", "PER__I"], "BIO", ["O", "B-PER", "I-PER"]),
    "blanks around": (["O", " B-PER ", "I-PER "], "BIO", ["O", "B-PER", "I-PER"]),
    "prefixes with a separator alone": (["O", "B-", "I-"], "BIO", ["O", "B", "I"]),
    "keys of JSON, in any order": ({"2": "I-PER", "0": "O", "1": "B-PER"}, "BIO", ["O", "B-PER", "I-PER"]),
}


@pytest.mark.parametrize("name", READ)
def test_labels_are_read_as_the_tags_they_mean(name):
    labels, scheme, tags = READ[name]
    rules = Constraints.from_labels(labels)
    assert rules.scheme is not None
    assert (rules.scheme.name, list(rules.tags)) == (scheme, tags)
    assert rules == Constraints.from_scheme(tags, scheme)


@pytest.mark.parametrize(
    "filler", ["[PAD]", "<pad>", "PAD", "X", "<s>", "</s>", "[CLS]", "<START>", "STOP", "", "-100"]
)
def test_columns_that_are_no_tag_lie_on_no_path(filler):
    rules = Constraints.from_labels(["O", filler, "B-PER", "I-PER"], columns=5)
    assert rules.alive.tolist() == [True, False, True, True, False]
    assert not rules.legal[1].any()
    assert not rules.legal[:, 1].any()
    assert [each.column for each in rules.report.dropped] == [1, 4]
    assert rules.report.columns == (0, 2, 3)
    assert "more scores than labels" in str(rules.report)


def test_several_columns_may_be_no_tag_and_a_type_may_have_the_name_of_such_a_column():
    rules = Constraints.from_labels(["O", "[PAD]", "B-PAD", "[PAD]", "PAD"])
    assert rules.report.columns == (0, 2)
    assert rules.alive.tolist() == [True, False, True, False, False]


def test_the_rest_of_the_path_space_is_that_of_the_labels_alone():
    rules = Constraints.from_labels(["[PAD]", "O", "B-PER", "I-PER", "X"])
    alone = Constraints.from_scheme(["O", "B-PER", "I-PER"], "BIO")
    kept = list(rules.report.columns)
    assert np.array_equal(rules.legal[np.ix_(kept, kept)], alone.legal)
    assert np.array_equal(rules.start[kept], alone.start)
    assert np.array_equal(rules.end[kept], alone.end)


def test_the_report_names_what_was_read_otherwise_and_what_no_path_can_use():
    report = Constraints.from_labels(["O", "b-per", "S-loc", "E-loc"], "BIOES").report
    assert {each.label: each.tag for each in report.renamed} == {}
    assert [each.label for each in report.dropped] == ["b-per", "E-loc"]
    assert "no legal path of BIOES can use it" in str(report)
    assert report.to_json()["tags"] == {"0": "O", "1": None, "2": "S-loc", "3": None}


def test_bare_types_and_missing_o_are_said():
    report = Constraints.from_labels(["NOUN", "VERB"]).report
    assert len(report.notes) == 2
    assert report.to_json()["renamed"] == {"NOUN": "I-NOUN", "VERB": "I-VERB"}


def test_types_of_one_word_alone_are_said():
    report = Constraints.from_labels(["O", "B-PER", "B-LOC", "I-LOC"]).report
    assert "no I- for PER: each entity is one word" in report.notes
    assert Constraints.from_labels(["O", "B-PER"]).report.notes == ("no I- for PER: each entity is one word",)


REFUSED = {
    "none": ([], "0 labels"),
    "nameless": (["LABEL_0", "LABEL_1"], "LABEL_0 to LABEL_1 say nothing"),
    "one nameless": (["O", "B-A", "LABEL_2"], "LABEL_2 says nothing"),
    "numbers": (["0", "1", "2"], "0 to 2 say nothing"),
    "outside by another name": (["Other", "B-A", "I-A"], "'O' if it means outside"),
    "no separator in some": (["O", "BPER", "IPER", "ORG"], "'BPER' and 'IPER' look like B- and I-"),
    "a letter alone": (["O", "S"], "'S' may be a prefix or a type"),
    "a gap": ({0: "O", 2: "B-A"}, "no label for column 1"),
    "twice": (["O", "B-A", "B-A"], "names columns 1 and 2"),
    "twice in two forms": (["O", "B-A", "b-A"], "'B-A' and 'b-A' are both B-A"),
    "two outsides": (["O", "o", "B-A"], "both mean outside"),
    "two columns of one number": ({1: "O", "1": "B-A"}, "column 1 has two labels"),
    "no number": ({"a": "O"}, "no column number"),
    "a negative number": ({-1: "O"}, "no column number"),
    "no name": (["O", 3], "label 1 is 3, not a name"),
    "no labels at all": (7, "got int"),
    "a string": ("O", "got str"),
    "too many": ([f"B-{n}" for n in range(5000)], "4096 at most"),
    "some with a prefix": (["O", "B-A", "A"], "'A' has no prefix while 'B-A' has one"),
    "from either end": (["O", "B-I", "I-B"], "from either end"),
    "X alone": (["O", "PER", "X"], "'X' may be a type"),
    "no single": (["O", "B-A", "I-A", "E-A"], "B, E, I are of no one scheme"),
    "a begin that nothing ends": (["O", "B-A", "I-A", "S-A"], "'B-A' is on no legal path of BIOES"),
    "letters of two schemes": (["O", "B-A", "L-A", "S-A"], "B, L, S are of no one scheme"),
    "ends alone": (["O", "E-A", "I-A"], "IOE1 or IOE2"),
    "capitals": (["O", "B-Per", "I-PER"], "differ in capitals only"),
    "fillers alone": (["[PAD]", "<s>"], "no label is an entity's"),
    "fillers beside outside": (["O", "START", "END"], "no label is an entity's"),
    "joined, small letters": (["O", "bper", "iper"], "'bper' and 'iper' look like B- and I- of one type"),
    "joined, type first": (["O", "PERB", "PERI", "LOCB"], "'PERB' and 'PERI' look like B- and I-"),
    "another separator": (["O", "B+PER", "I+PER"], "'B+PER' and 'I+PER' look like B- and I-"),
    "brackets": (["O", "[B-PER]", "[I-PER]"], "'[B-PER]' and '[I-PER]' look like B- and I-"),
    "joined, B and S alone": (["O", "BPER", "SPER"], "'BPER' is on no legal path of BIOES"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_known_is_asked_for_in_one_line(name):
    labels, message = REFUSED[name]
    with pytest.raises(ConstraintError, match=re.escape(message)) as caught:
        Constraints.from_labels(labels)
    assert "\n" not in str(caught.value)


def test_a_scheme_that_is_named_must_know_the_prefixes():
    labels = ["O", "E-A", "I-A"]
    assert Constraints.from_labels(labels, "IOE2") == Constraints.from_scheme(labels, "IOE2")
    with pytest.raises(ConstraintError, match="prefix that BIO does not know"):
        Constraints.from_labels(labels, "BIO")


def test_a_scheme_that_allows_no_entity_of_the_labels_is_refused():
    with pytest.raises(ConstraintError, match="no legal path of BIO has an entity of these labels"):
        Constraints.from_labels(["O", "PER", "LOC"], "BIO")


def test_fewer_columns_than_labels_are_refused():
    with pytest.raises(ConstraintError, match="3 labels for 2 columns"):
        Constraints.from_labels(["O", "B-A", "I-A"], columns=2)


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"label2id": {"B-A": 1, "O": 0}},
        {"label_list": ["O", "B-A"]},
        {"id2tag": {"0": "O", "1": "B-A"}},
        {"id2label": {"0": "0", "1": "1"}, "label2id": {"B-A": 1, "O": 0}},
    ],
)
def test_names_are_found_elsewhere_in_the_configuration(elsewhere):
    config = {"id2label": {"0": "LABEL_0", "1": "LABEL_1"}, **elsewhere}
    assert Constraints.from_labels(labels_of_config(config)).tags == ("O", "B-A")


def test_names_of_another_number_are_not_taken():
    config = {"id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "label_list": ["O", "B-A", "I-A"]}
    with pytest.raises(ConstraintError, match="say nothing of tags"):
        Constraints.from_labels(labels_of_config(config))


def test_two_tables_that_number_a_label_differently_are_asked_about():
    config = {"id2label": {"0": "O", "1": "B-A"}, "label2id": {"O": 1, "B-A": 0}}
    with pytest.raises(ConstraintError, match="label 'O' is column 0 by id2label and 1 by label2id; give labels="):
        labels_of_config(config)
    stale = {"id2label": {"0": "O", "1": "B-A"}, "label2id": {"LABEL_0": 0, "LABEL_1": 1}}
    assert labels_of_config(stale) == stale["id2label"]
