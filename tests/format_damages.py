"""What can be wrong with a file of each format: the damage, and what is said of it."""

from __future__ import annotations

import gzip
from collections.abc import Callable

Damage = Callable[[bytes], bytes]

ANY_TEXT: dict[str, tuple[Damage, str]] = {
    "a byte that is no UTF-8": (lambda raw: raw.replace(b"O", b"\xff", 1), "not UTF-8"),
    "a NUL": (lambda raw: raw.replace(b"Oslo", b"Os\0lo", 1), "a NUL character"),
    "UTF-16": (lambda raw: raw.decode().encode("utf-16"), "not UTF-8"),
    "half a surrogate pair": (lambda raw: raw.replace(b"Oslo", b"\xed\xa0\xbd", 1), "not UTF-8"),
    "cut inside a character": (lambda raw: raw + b"\xe7\xbb", "not UTF-8"),
    "packed and cut": (lambda raw: gzip.compress(raw)[:-9], "damaged gzip"),
    "packed and spoilt": (lambda raw: gzip.compress(raw)[:12] + b"x" * 20 + gzip.compress(raw)[32:], "damaged gzip"),
    "only the mark of a packed file": (lambda raw: b"\x1f\x8b" + b"x" * 30, "damaged gzip"),
    "a Latin-1 accent": (lambda raw: raw.replace(b"Bo", b"B\xf6", 1), "not UTF-8"),
}


def swap(old: str, new: str, message: str) -> tuple[Damage, str]:
    def damage(raw: bytes) -> bytes:
        assert old.encode() in raw, old
        return raw.replace(old.encode(), new.encode(), 1)

    return damage, message


def row(line: int, old: str, new: str, message: str) -> tuple[Damage, str]:
    """A damage of one line, which the message must name."""
    return swap(old, new, f":{line}: ... {message}")


CARRIAGE_RETURN = swap("flew", "fl\rew", "a carriage return inside a line")
OWN: dict[str, list[tuple[Damage, str]]] = {
    "columns": [
        CARRIAGE_RETURN,
        row(7, "Oslo NNP B-LOC", "Oslo B-LOC", "2 columns where the file has 3"),
        row(11, "met VBD O", "met", "1 column where the file has 3"),
        row(6, "to TO O", "to TO O O", "4 columns where the file has 3"),
        swap("Ann NNP B-PER", "Ann B-PER", ":4: 3 columns"),
        swap("AB NNP I-ORG\n. . O", "AB NNP I-ORG\n. .", ":17: 2 columns"),
    ],
    "CoNLL-U": [
        row(5, "2\tLee", "5\tLee", "word 5 where 2 is next"),
        row(5, "2\tLee", "x\tLee", "Failed parsing field 'id'"),
        row(5, "2\tLee", "2-1\tLee", "Failed parsing field 'id'"),
        row(5, "2\tLee", "_\tLee", "a word without a number"),
        row(5, "2\tLee", "2\t", "a word without a form"),
        row(6, "3\tflew\tfly\t", "3\tflew\t", "9 cells"),
        row(8, "4\tto\tto\t", "4 to to ", "7 cells"),
        row(10, "6\t.\t", "7\t.\t", "word 7 where 6 is next"),
    ],
    "CoNLL-U Plus": [
        row(1, "ID FORM UPOS EX:NE", "FORM UPOS EX:NE", "global.columns needs ID and FORM"),
        row(1, "ID FORM UPOS EX:NE", "ID FORM FORM EX:NE", "global.columns needs ID and FORM"),
        row(3, "ID FORM UPOS EX:NE", "ID FORM UPOS EX:NE MISC", "4 cells separated by tabs where CoNLL-U has 5"),
        row(4, "2\tLee\tPROPN\t", "2\tLee\t", "3 cells"),
        row(4, "2\tLee", "3\tLee", "word 3 where 2 is next"),
        swap("EX:NE", "EX:XX", "no entities in it"),
    ],
    "JSON lines": [
        row(1, '{"tokens"', '["tokens"', "not JSON"),
        row(1, '"Lee"', "Lee", "not JSON"),
        row(1, '"Lee"', "3", "tokens[1] must be a string"),
        row(1, '"Lee", ', "", "5 tokens but 6 tags"),
        row(1, '"tokens"', '"words"', "neither tokens nor text"),
        row(1, '"I-PER"', "null", "tags[1] must be a string"),
        row(1, '"I-PER"', "1", "the tags are numbers"),
        swap('"B-ORG"', '""', ":2: a tag is empty"),
    ],
    "doccano": [
        row(1, '[0, 7, "PER"]', "[0, 7]", "a label is [start, end, label]"),
        row(1, '[0, 7, "PER"]', '[0, 70, "PER"]', "span 0:70 PER leaves the text"),
        row(1, '[0, 7, "PER"]', '[0, "7", "PER"]', "two whole numbers"),
        row(1, '[0, 7, "PER"]', "[0, 7, null]", "needs a name as its label"),
        row(1, '[0, 7, "PER"]', '[0, 6, "PER"]', "cuts the token 'Lee'"),
        row(1, '[0, 7, "PER"]', '[0, 18, "PER"]', "cuts the token 'Oslo'"),
        swap('[17, 25, "ORG"]', '[9, 25, "ORG"]', ":2: span 9:25 ORG"),
        swap('"text": "She', '"body": "She', ":2: no text"),
    ],
    "doccano with relations": [
        row(1, '"end_offset": 7', '"end_offset": 7.5', "two whole numbers"),
        row(1, '"end_offset": 7', '"end": 7', "two whole numbers"),
        row(1, '{"id": 1, "label": "PER"', '{"id": 1, "label": ""', "needs a name as its label"),
        row(1, '"entities": [', '"entities": [3, ', "a label is [start, end, label]"),
        row(1, '"start_offset": 0', '"start_offset": -1', "leaves the text"),
        row(1, '"id": 11', '"id": ', "not JSON"),
    ],
    "Prodigy": [
        swap('"answer":"reject"', '"answer":"maybe"', ":2: the answer is 'maybe'"),
        row(1, '"start":0,"end":7,"token_start"', '"start":0,"end":99,"token_start"', "leaves the text"),
        row(1, '"start":0,"end":7,"token_start"', '"start":1,"end":7,"token_start"', "cuts the token 'Ann'"),
        row(1, '"start":0,"end":7,"token_start"', '"begin":0,"end":7,"token_start"', "needs start, end and label"),
        row(1, '{"text":"Lee","start":4', '{"text":"Leo","start":4', 'token "Leo" is not what stands at 4:7'),
        row(1, '{"text":"Lee","start":4', '{"text":"Lee","start":2', "needs a start and end in the text, in order"),
        row(1, '"tokens":[', '"tokens":[7,', "tokens[0] must be an object"),
    ],
    "Label Studio": [
        swap('"start": 0, "end": 7', '"start": 0, "end": 6', "task 1: span 0:6 PER is 'Ann Le'"),
        swap('"start": 0, "end": 7', '"start": 0, "end": 700', "task 1: span 0:700 PER leaves the text"),
        swap('"labels": ["PER"]', '"labels": []', "task 1: a region needs a list of labels"),
        swap('"labels": ["PER"]', '"labels": [3]', "task 1: span 0:7 needs a name"),
        swap('"text": "Ann Lee flew', '"body": "", "text2": "Ann Lee flew', "task 1: which of its fields is the text"),
        swap('"data": {"text": "Ann Lee flew to Oslo."}', '"data": "Ann"', "task 1: data must be an object"),
        swap(
            '"was_cancelled": true, "ground_truth": false', '"was_cancelled": false', "task 1: its 2 annotations differ"
        ),
        swap('[{"id": 1', '{"id": 1', "not JSON"),
        swap('[{"id": 1', '[7, {"id": 1', "task 1: an object is needed"),
    ],
    "Label Studio, JSON-MIN": [
        swap('"start": 0, "end": 7', '"start": 0, "end": "7"', "task 1: a span needs two whole numbers"),
        swap('"labels": ["PER"]', '"labels": "PER"', "task 1: a region needs a list of labels"),
        swap('"labels": ["PER"]', '"label": ["PER"]', "task 1: a region needs start, end and labels"),
        swap('"text": "Ann Lee",', '"text": "Anna Lee",', "task 1: span 0:7 PER is 'Ann Lee' in the text"),
        swap('"id": 3', '"id": 1', "task 2: task 1 is annotated twice"),
        swap('"text": "Ann Lee flew to Oslo."', '"text": 7', "task 1: text must be a string"),
    ],
    "WebAnno": [
        CARRIAGE_RETURN,
        row(1, "#FORMAT=WebAnno TSV 3.3", "#FORMAT=WebAnno TSV 2", "is not the first line"),
        row(7, "1-1\t0-3\tAnn", "1-1\t0-3\tAnna", "'Anna' is not what stands at 0-3"),
        row(8, "1-2\t4-7\tLee", "1-2\t4-99\tLee", "is not what stands at 4-99"),
        row(8, "1-2\t4-7", "1.2\t4-7", "a row is 1-1"),
        row(8, "1-2\t4-7", "1-2\tx", "a row is 1-1"),
        row(8, "PROPN\tNNP\t*[1]\tPER[1]\n1-3", "PROPN\n1-3", "4 cells where the layers ask for 7"),
        swap("#Text=Ann Lee flew to Oslo.\n", "", "tokens without their #Text= line"),
        swap("NamedEntity|identifier|value", "Other|identifier|kind", "which layer holds the entities"),
    ],
    "OpenNLP": [
        CARRIAGE_RETURN,
        row(1, "Lee <END>", "Lee", "<START:LOC> inside a name"),
        row(1, "<START:PER> Ann", "Ann", "<END> of no name"),
        row(1, "Ann Lee <END>", "<END>", "<END> of no name"),
        row(1, "Lee <END>", "Lee<END>", "is no token"),
        row(1, "<START:PER> Ann", "<START:PER>Ann", "is no token"),
        row(1, "Oslo <END>", "Oslo", "a name of type LOC that never ends"),
    ],
    "CSV": [
        CARRIAGE_RETURN,
        row(1, "Sentence #,Word,POS,Tag", "Sentence #,POS,Tag", "the header must name a word"),
        row(1, "Sentence #,Word,POS,Tag", "Word,POS,Tag", "the header must name a word"),
        row(1, "Sentence #,Word,POS,Tag", "Sentence #,Word,POS,Kind", "no column of tags"),
        row(3, ",Lee,NNP,I-PER", ",Lee,I-PER", "3 cells where the header has 4"),
        row(3, ",Lee,NNP,I-PER", ",,NNP,I-PER", "no word here"),
        row(3, ",Lee,NNP,I-PER", ",Lee,NNP,", "no tag here"),
        swap(",Lee,NNP", ',"Lee"x,NNP', "write a quote inside a quoted cell twice"),
        swap(",Lee,NNP", ',"Lee,NNP', "write a quote inside a quoted cell twice"),
    ],
}
"""What only one format can suffer: what is done to its text, and what is said."""
OWN["TSV"] = [
    CARRIAGE_RETURN,
    row(1, "sentence_id\ttoken\tner_tag", "token\tner_tag", "the header must name a word and a sentence"),
    row(1, "sentence_id\ttoken\tner_tag", "sentence_id\tner_tag", "the header must name a word"),
    row(1, "ner_tag", "kind", "no column of tags"),
    row(3, "0\tLee\tI-PER", "0\tLee\tI-PER\tx", "4 cells where the header has 3"),
    row(3, "0\tLee\tI-PER", "0\tLee I-PER", "2 cells where the header has 3"),
    row(3, "0\tLee\tI-PER", "0\t \tI-PER", "no word here"),
]
