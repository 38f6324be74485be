"""The same two sentences in every format that is read, as its tool writes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

FIRST, SECOND = "Ann Lee flew to Oslo.", "She met Bo Ek of Volvo AB."
TOKENS = [["Ann", "Lee", "flew", "to", "Oslo", "."], ["She", "met", "Bo", "Ek", "of", "Volvo", "AB", "."]]
TAGS = [["B-PER", "I-PER", "O", "O", "B-LOC", "O"], ["O", "O", "B-PER", "I-PER", "O", "B-ORG", "I-ORG", "O"]]
TWIN = (
    '{"text": "Ann Lee flew to Oslo.", "spans": [{"start": 0, "end": 7, "label": "PER"}, '
    '{"start": 16, "end": 20, "label": "LOC"}]}\n'
    '{"text": "She met Bo Ek of Volvo AB.", "spans": [{"start": 8, "end": 13, "label": "PER"}, '
    '{"start": 17, "end": 25, "label": "ORG"}]}\n'
)

COLUMNS = """-DOCSTART- -X- O

Ann NNP B-PER
Lee NNP I-PER
flew VBD O
to TO O
Oslo NNP B-LOC
. . O

She PRP O
met VBD O
Bo NNP B-PER
Ek NNP I-PER
of IN O
Volvo NNP B-ORG
AB NNP I-ORG
. . O
"""
CONLLU = """# newdoc id = travel
# sent_id = travel-1
# text = Ann Lee flew to Oslo.
1\tAnn\tAnn\tPROPN\tNNP\tNumber=Sing\t3\tnsubj\t_\tNER=B-PER
2\tLee\tLee\tPROPN\tNNP\tNumber=Sing\t1\tflat\t_\tNER=I-PER
3\tflew\tfly\tVERB\tVBD\tTense=Past\t0\troot\t_\t_
3.1\tflew\tfly\tVERB\tVBD\t_\t_\t_\t_\tCopyOf=3
4\tto\tto\tADP\tIN\t_\t5\tcase\t_\t_
5\tOslo\tOslo\tPROPN\tNNP\tNumber=Sing\t3\tobl\t_\tNER=B-LOC|SpaceAfter=No
6\t.\t.\tPUNCT\t.\t_\t3\tpunct\t_\t_

# sent_id = travel-2
1\tShe\tshe\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2\tmet\tmeet\tVERB\tVBD\t_\t0\troot\t_\t_
3\tBo\tBo\tPROPN\tNNP\t_\t2\tobj\t_\tNER=B-PER
4\tEk\tEk\tPROPN\tNNP\t_\t3\tflat\t_\tNER=I-PER
5\tof\tof\tADP\tIN\t_\t6\tcase\t_\t_
6\tVolvo\tVolvo\tPROPN\tNNP\t_\t3\tnmod\t_\tNER=B-ORG
7-8\tAB.\t_\t_\t_\t_\t_\t_\t_\t_
7\tAB\tAB\tPROPN\tNNP\t_\t6\tflat\t_\tNER=I-ORG
8\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_
"""
CONLLU_PLUS = """# global.columns = ID FORM UPOS EX:NE
# sent_id = 1
1\tAnn\tPROPN\tB-PER
2\tLee\tPROPN\tI-PER
3\tflew\tVERB\tO
4\tto\tADP\tO
5\tOslo\tPROPN\tB-LOC
6\t.\tPUNCT\tO

1\tShe\tPRON\tO
2\tmet\tVERB\tO
3\tBo\tPROPN\tB-PER
4\tEk\tPROPN\tI-PER
5\tof\tADP\tO
6\tVolvo\tPROPN\tB-ORG
7\tAB\tPROPN\tI-ORG
8\t.\tPUNCT\tO
"""
DOCCANO = (
    '{"id": 11, "text": "Ann Lee flew to Oslo.", "label": [[0, 7, "PER"], [16, 20, "LOC"]], "Comments": []}\n'
    '{"id": 12, "text": "She met Bo Ek of Volvo AB.", "label": [[8, 13, "PER"], [17, 25, "ORG"]], "Comments": []}\n'
)
DOCCANO_RELATIONS = (
    '{"id": 11, "text": "Ann Lee flew to Oslo.", "entities": [{"id": 1, "label": "PER", "start_offset": 0, '
    '"end_offset": 7}, {"id": 2, "label": "LOC", "start_offset": 16, "end_offset": 20}], "relations": []}\n'
    '{"id": 12, "text": "She met Bo Ek of Volvo AB.", "entities": [{"id": 3, "label": "PER", "start_offset": 8, '
    '"end_offset": 13}, {"id": 4, "label": "ORG", "start_offset": 17, "end_offset": 25}], "relations": []}\n'
)
PRODIGY = (
    '{"text":"Ann Lee flew to Oslo.","_input_hash":-148,"_task_hash":909,"_is_binary":false,'
    '"spans":[{"start":0,"end":7,"token_start":0,"token_end":1,"label":"PER"},{"start":16,"end":20,"token_start":4,"token_end":4,"label":"LOC"}],'
    '"tokens":[{"text":"Ann","start":0,"end":3,"id":0,"ws":true},{"text":"Lee","start":4,"end":7,"id":1,"ws":true},'
    '{"text":"flew","start":8,"end":12,"id":2,"ws":true},{"text":"to","start":13,"end":15,"id":3,"ws":true},'
    '{"text":"Oslo","start":16,"end":20,"id":4,"ws":false},{"text":".","start":20,"end":21,"id":5,"ws":false}],'
    '"_view_id":"ner_manual","answer":"accept","_timestamp":1700000000}\n'
    '{"text":"Ann is a verb.","spans":[{"start":0,"end":3,"label":"PER"}],"_input_hash":5,"answer":"reject"}\n'
    '{"text":"Unsure about Bo.","spans":[],"_input_hash":6,"answer":"ignore"}\n'
    '{"text":"She met Bo Ek of Volvo AB.",'
    '"spans":[{"start":8,"end":13,"label":"PER"},{"start":17,"end":25,"label":"ORG"}],"_input_hash":7,"_task_hash":8,"answer":"accept"}\n'
)
LABEL_STUDIO = """[{"id": 1, "annotations": [
  {"id": 7, "completed_by": 1, "was_cancelled": true, "ground_truth": false, "result": []},
  {"id": 8, "completed_by": 2, "was_cancelled": false, "ground_truth": false, "result": [
    {"value": {"start": 0, "end": 7, "text": "Ann Lee", "labels": ["PER"]}, "id": "k4",
     "from_name": "label", "to_name": "text", "type": "labels", "origin": "manual"},
    {"value": {"start": 16, "end": 20, "text": "Oslo", "labels": ["LOC"]}, "id": "k5",
     "from_name": "label", "to_name": "text", "type": "labels", "origin": "manual"},
    {"value": {"choices": ["travel"]}, "id": "k6", "from_name": "topic", "to_name": "text", "type": "choices"}]}],
  "data": {"text": "Ann Lee flew to Oslo."}, "meta": {}, "created_at": "2024-05-01T10:00:00Z", "project": 3},
 {"id": 2, "annotations": [{"id": 9, "was_cancelled": true, "result": []}], "data": {"text": "Skipped."}},
 {"id": 3, "annotations": [{"id": 10, "was_cancelled": false, "result": [
    {"value": {"start": 8, "end": 13, "text": "Bo Ek", "labels": ["PER"]}, "type": "labels"},
    {"value": {"start": 17, "end": 25, "text": "Volvo AB", "labels": ["ORG"]}, "type": "labels"}]}],
  "data": {"text": "She met Bo Ek of Volvo AB."}}]
"""
LABEL_STUDIO_MIN = """[{"id": 1, "text": "Ann Lee flew to Oslo.", "annotator": 1, "annotation_id": 8, "lead_time": 4.2,
  "created_at": "2024-05-01T10:00:00Z", "label": [
   {"start": 0, "end": 7, "text": "Ann Lee", "labels": ["PER"]},
   {"start": 16, "end": 20, "text": "Oslo", "labels": ["LOC"]}]},
 {"id": 3, "text": "She met Bo Ek of Volvo AB.", "annotator": 1, "annotation_id": 10, "lead_time": 9.1, "label": [
   {"start": 8, "end": 13, "text": "Bo Ek", "labels": ["PER"]},
   {"start": 17, "end": 25, "text": "Volvo AB", "labels": ["ORG"]}]}]
"""
BRAT_TEXT = "Ann Lee flew to Oslo.\nShe met Bo Ek of Volvo AB.\n"
BRAT = """T1\tPER 0 7\tAnn Lee
T2\tLOC 16 20\tOslo
R1\tWent Arg1:T1 Arg2:T2
T3\tPER 30 35\tBo Ek
T4\tORG 39 47\tVolvo AB
#1\tAnnotatorNotes T4\tthe car maker
A1\tSure T4
"""
WEBANNO = """#FORMAT=WebAnno TSV 3.3
#T_SP=de.tudarmstadt.ukp.dkpro.core.api.lexmorph.type.pos.POS|coarseValue|PosValue
#T_SP=de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity|identifier|value


#Text=Ann Lee flew to Oslo.
1-1\t0-3\tAnn\tPROPN\tNNP\t*[1]\tPER[1]
1-2\t4-7\tLee\tPROPN\tNNP\t*[1]\tPER[1]
1-3\t8-12\tflew\tVERB\tVBD\t_\t_
1-4\t13-15\tto\tADP\tTO\t_\t_
1-5\t16-20\tOslo\tPROPN\tNNP\t*\tLOC
1-6\t20-21\t.\tPUNCT\t.\t_\t_

#Text=She met Bo Ek of Volvo AB.
2-1\t22-25\tShe\tPRON\tPRP\t_\t_
2-2\t26-29\tmet\tVERB\tVBD\t_\t_
2-3\t30-32\tBo\tPROPN\tNNP\t*[2]\tPER[2]
2-4\t33-35\tEk\tPROPN\tNNP\t*[2]\tPER[2]
2-5\t36-38\tof\tADP\tIN\t_\t_
2-6\t39-44\tVolvo\tPROPN\tNNP\t*[3]\tORG[3]
2-7\t45-47\tAB\tPROPN\tNNP\t*[3]\tORG[3]
2-8\t47-48\t.\tPUNCT\t.\t_\t_
"""
OPENNLP = """<START:PER> Ann Lee <END> flew to <START:LOC> Oslo <END> .

She met <START:PER> Bo Ek <END> of <START:ORG> Volvo AB <END> .
"""
GMB = """Sentence #,Word,POS,Tag
Sentence: 1,Ann,NNP,B-PER
,Lee,NNP,I-PER
,flew,VBD,O
,to,TO,O
,Oslo,NNP,B-LOC
,.,.,O
Sentence: 2,She,PRP,O
,met,VBD,O
,Bo,NNP,B-PER
,Ek,NNP,I-PER
,of,IN,O
,Volvo,NNP,B-ORG
,AB,NNP,I-ORG
,.,.,O
"""
TSV = "sentence_id\ttoken\tner_tag\n" + "".join(
    f"{number}\t{token}\t{tag}\n"
    for number, (tokens, tags) in enumerate(zip(TOKENS, TAGS, strict=True))
    for token, tag in zip(tokens, tags, strict=True)
)
JSONL = "".join(
    json.dumps({"tokens": tokens, "ner_tags": tags}) + "\n" for tokens, tags in zip(TOKENS, TAGS, strict=True)
)


def write_brat(folder: Path) -> Path:
    """A folder of one document."""
    folder.mkdir()
    (folder / "travel.txt").write_text(BRAT_TEXT)
    (folder / "travel.ann").write_text(BRAT)
    return folder


def write_triples(folder: Path) -> Path:
    """A folder as ATIS has it."""
    folder.mkdir()
    for name, rows in (("seq.in", TOKENS), ("seq.out", TAGS), ("label", [["flight"], ["meeting"]])):
        (folder / name).write_text("".join(" ".join(row) + "\n" for row in rows))
    return folder


def write_docbin(path: Path) -> Path:
    """Two documents, made by spaCy."""
    import spacy
    from spacy.tokens import DocBin

    nlp = spacy.blank("en")
    docs = []
    for text, spans in ((FIRST, [(0, 7, "PER"), (16, 20, "LOC")]), (SECOND, [(8, 13, "PER"), (17, 25, "ORG")])):
        doc = nlp(text)
        doc.ents = [doc.char_span(start, end, label=label) for start, end, label in spans]
        docs.append(doc)
    path.write_bytes(DocBin(docs=docs).to_bytes())
    return path


def _features(datasets: Any) -> Any:
    names = ["O", "B-PER", "I-PER", "B-LOC", "B-ORG", "I-ORG"]
    return datasets.Features(
        tokens=datasets.Sequence(datasets.Value("string")), ner_tags=datasets.Sequence(datasets.ClassLabel(names=names))
    )


def _dataset() -> Any:
    import datasets

    features = _features(datasets)
    ids = [[features["ner_tags"].feature.str2int(tag) for tag in tags] for tags in TAGS]
    return datasets.Dataset.from_dict({"tokens": TOKENS, "ner_tags": ids}, features=features)


def write_dataset(folder: Path) -> Path:
    """A saved Dataset with class labels."""
    _dataset().save_to_disk(folder)
    return folder


def write_dataset_dict(folder: Path) -> Path:
    """A saved DatasetDict of one split."""
    import datasets

    datasets.DatasetDict(train=_dataset()).save_to_disk(folder)
    return folder


def write_parquet(path: Path) -> Path:
    """A table with class labels, as `Dataset.to_parquet` writes it."""
    _dataset().to_parquet(str(path))
    return path


def text_file(content: str) -> Callable[[Path], Path]:
    """Writes this text."""

    def write(path: Path) -> Path:
        path.write_text(content, encoding="utf-8")
        return path

    return write


EXAMPLES: dict[str, tuple[str, str, Callable[[Path], Path]]] = {
    "columns": ("conll", "eng.train", text_file(COLUMNS)),
    "CoNLL-U": ("conllu", "travel.conllu", text_file(CONLLU)),
    "CoNLL-U Plus": ("conllu", "travel.conllup", text_file(CONLLU_PLUS)),
    "JSON lines": ("jsonl", "train.jsonl", text_file(JSONL)),
    "doccano": ("doccano", "admin.jsonl", text_file(DOCCANO)),
    "doccano with relations": ("doccano", "all.jsonl", text_file(DOCCANO_RELATIONS)),
    "Prodigy": ("prodigy", "ner_travel.jsonl", text_file(PRODIGY)),
    "Label Studio": ("labelstudio", "project-3.json", text_file(LABEL_STUDIO)),
    "Label Studio, JSON-MIN": ("labelstudio", "project-3-min.json", text_file(LABEL_STUDIO_MIN)),
    "BRAT": ("brat", "brat", write_brat),
    "DocBin": ("spacy", "train.spacy", write_docbin),
    "WebAnno": ("webanno", "admin.tsv", text_file(WEBANNO)),
    "OpenNLP": ("opennlp", "en-ner.train", text_file(OPENNLP)),
    "CSV": ("csv", "ner_dataset.csv", text_file(GMB)),
    "TSV": ("csv", "ner.tsv", text_file(TSV)),
    "Parquet": ("parquet", "train-00000.parquet", write_parquet),
    "Dataset": ("huggingface", "dataset", write_dataset),
    "DatasetDict": ("huggingface", "dataset_dict", write_dataset_dict),
    "parallel files": ("triples", "atis", write_triples),
}
"""Format, file name and how it is written, by what people call it."""
