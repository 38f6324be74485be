"""Word embeddings and pretrained vectors."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from token_lists import sentences_of

from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.encoders.encoder import build_encoder, load_encoder
from maskedcrf.encoders.vectors import read_vectors
from maskedcrf.encoders.words import WordEmbeddings
from maskedcrf.errors import DataError

WORDS = ["the", "cat", "é", "judas", ". . ."]
ARRAY = np.array([[n + 0.5, -n, n / 8] for n in range(5)], dtype=np.float32)
TEXT = "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, ARRAY.tolist(), strict=True)).encode()
BINARY = b"5 3\n" + b"".join(
    word.replace(" ", "_").encode() + b" " + struct.pack("<3f", *row) + b"\n"
    for word, row in zip(WORDS, ARRAY, strict=True)
)


def _npz(path: Path, words: object = WORDS, vec: object = ARRAY) -> None:
    np.savez(path, words=np.array(words), vec=vec)  # type: ignore[arg-type]


FILES: dict[str, Callable[[Path], object]] = {
    "v.txt": lambda path: path.write_bytes(TEXT),
    "v.vec": lambda path: path.write_bytes(b"5 3\n" + TEXT.replace(b"\n", b" \r\n")),
    "v.txt.gz": lambda path: path.write_bytes(gzip.compress(TEXT)),
    "v.bin": lambda path: path.write_bytes(BINARY),
    "v.bin.gz": lambda path: path.write_bytes(gzip.compress(BINARY.replace(b"\n", b"").replace(b"5 3", b"5 3\n"))),
    "v.npz": _npz,
}


@pytest.mark.parametrize("name", FILES)
def test_every_kind_of_file_reads_to_the_same_vectors(name: str, tmp_path: Path) -> None:
    FILES[name](tmp_path / name)
    vectors = read_vectors(tmp_path / name)
    assert [word.replace("_", " ") for word in vectors.words] == WORDS
    np.testing.assert_array_equal(vectors.array, ARRAY.astype(np.float16))


def test_the_head_of_a_file_is_kept_and_wanted_words_from_anywhere(tmp_path: Path) -> None:
    FILES["v.txt"](tmp_path / "v.txt")
    assert read_vectors(tmp_path / "v.txt", {"judas"}, most=2).words == ["the", "cat", "judas"]


BROKEN = {
    "short row": ("v.txt", b"the 1 2 3\ncat 1 2\n", "v.txt:2: expected a word and 3 numbers"),
    "no number": ("v.txt", b"the 1 2 3\ncat 1 x 3\n", "v.txt:2: expected"),
    "only a word": ("v.txt", b"the\n", "v.txt:1: expected"),
    "not UTF-8": ("v.txt", b"the 1 2 3\n\xff\xfe 1 2 3\n", "v.txt:2: expected"),
    "blank line": ("v.txt", b"the 1 2 3\n\n", "v.txt:2: expected"),
    "NaN": ("v.txt", b"2 3\nthe 1 2 3\ncat 1 nan 3\n", "v.txt:3: the vector of 'cat'"),
    "infinity": ("v.bin", b"1 1\nthe " + struct.pack("<f", np.inf), "v.bin:1: the vector of 'the'"),
    "empty": ("v.txt", b"", "no word vectors"),
    "only a header": ("v.txt", b"5 3\n", "no word vectors"),
    "no gzip": ("v.txt.gz", TEXT, "cannot read"),
    "cut gzip": ("v.txt.gz", gzip.compress(TEXT)[:-9], "cannot read"),
    "cut binary": ("v.bin", BINARY[:-3], "ends inside vector 5 of 5"),
    "promises too much": ("v.bin", b"999999999999 3\n", "ends inside vector 1"),
    "too wide": ("v.bin", b"1 99999999999\nthe ", "not word2vec binary"),
    "no binary": ("v.bin", TEXT, "not word2vec binary"),
    "no npz": ("v.npz", TEXT, "v.npz:1: "),
    "pickle": ("v.npz", b"\x80\x04K\x01.", "v.npz:1: "),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_refused_with_its_line(case: str, tmp_path: Path) -> None:
    name, content, message = BROKEN[case]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as refused:
        read_vectors(tmp_path / name)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("words", "vec"),
    [
        (WORDS[:4], ARRAY),
        (WORDS, ARRAY[0]),
        (WORDS, ARRAY.astype(int)),
        ([1, 2, 3, 4, 5], ARRAY),
        (WORDS, np.float32(1)),
    ],
)
def test_an_npz_of_another_kind_is_refused(words: object, vec: object, tmp_path: Path) -> None:
    _npz(tmp_path / "v.npz", words, vec)
    with pytest.raises(DataError, match=r"v\.npz:1: expected words"):
        read_vectors(tmp_path / "v.npz")


def test_objects_in_an_npz_are_never_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "v.npz", words=np.array([{}, {}], dtype=object), vec=ARRAY)
    with pytest.raises(DataError, match=r"v\.npz:1: "):
        read_vectors(tmp_path / "v.npz")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot read word vectors"):
        read_vectors(tmp_path / "nothing.txt")


TRAINING = [["The", "dog", "Zyx"], ["the", "dog"]]


def _pretrained(folder: Path) -> WordEmbeddings:
    FILES["v.txt"](folder / "v.txt")
    encoder = build_encoder(
        EncoderConfig(vectors=str(folder / "v.txt"), characters=0, lstm_layers=0), sentences_of(TRAINING)
    ).eval()
    assert encoder.config.words == encoder.width == 3, "the file sets the width"
    part = encoder.parts["words"]
    assert isinstance(part, WordEmbeddings)
    return part


def _look_up(part: WordEmbeddings, word: str) -> list[float]:
    return part(part.prepare(sentences_of([[word]]), np.array([[True]])))[0, 0].tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(("word", "row"), [("the", 0), ("The", 0), ("cat", 1), ("Cat", 1), ("judas", 3), ("É", 2)])
def test_a_word_with_a_vector_uses_it_whether_training_saw_it_or_not(word: str, row: int, tmp_path: Path) -> None:
    assert _look_up(_pretrained(tmp_path), word) == ARRAY[row].tolist()


def test_training_words_are_trained_and_the_others_fixed(tmp_path: Path) -> None:
    part = _pretrained(tmp_path)
    assert [name for name, _ in part.named_parameters()] == ["trained.weight"]
    assert (part.trained.num_embeddings, len(part.known)) == (part.vocabulary.trained_rows, 4)
    assert set(part.vocabulary.words[-part.vocabulary.rare :]) == {"Zyx"}


def test_a_width_that_contradicts_the_file_is_refused(tmp_path: Path) -> None:
    FILES["v.txt"](tmp_path / "v.txt")
    with pytest.raises(DataError, match="vectors are 3 wide, `words` says 50"):
        build_encoder(EncoderConfig(words=50, vectors=str(tmp_path / "v.txt")), sentences_of(TRAINING))


def test_training_hides_words_seen_once_half_of_the_time_behind_their_shape() -> None:
    torch.manual_seed(0)
    encoder = build_encoder(
        EncoderConfig(words=4, characters=0, lstm_layers=0), sentences_of([["Peter", "Paul", "saw", "saw"]])
    )
    part = encoder.parts["words"]
    assert isinstance(part, WordEmbeddings)
    features = encoder.prepare(sentences_of([["Peter", "saw"]] * 2000))
    own, shape = part.trained.weight[part.vocabulary.number("Peter")], part.trained.weight[features["shapes"][0, 0]]
    vectors = encoder.train()(features)
    hidden = (vectors[:, 0] == shape).all(dim=1)
    assert ((vectors[:, 0] == own).all(dim=1) ^ hidden).all()
    assert 850 < int(hidden.sum()) < 1150, "binomial: 1000 +- 22"
    assert (vectors[:, 1] == vectors[0, 1]).all(), "a word seen twice is never hidden"
    assert (encoder.eval()(features)[:, 0] == own).all(), "prediction hides nothing"


SPOILT = {
    "twice": {"words": ["a", "a"], "rare": 0},
    "rare": {"rare": 99},
    "type": {"words": [1]},
    "path": {"known": "../../etc/passwd"},
    "key": {"evil": 1},
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_spoilt_vocabulary_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    build_encoder(EncoderConfig(words=4, characters=3), sentences_of(TRAINING)).save(tmp_path)
    path = tmp_path / "words.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | SPOILT[name]))
    with pytest.raises(DataError, match=r"words\.json:1: ") as refused:
        load_encoder(tmp_path)
    assert "\n" not in str(refused.value)


def test_a_spoilt_alphabet_is_refused(tmp_path: Path) -> None:
    build_encoder(EncoderConfig(words=4, characters=3), sentences_of(TRAINING)).save(tmp_path)
    (tmp_path / "characters.json").write_text('{"characters": ["a", "a"]}')
    with pytest.raises(DataError, match=r"characters\.json:1: a character stands twice"):
        load_encoder(tmp_path)


def test_the_first_of_two_vectors_of_a_word_counts(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_bytes(b"the 1 2 3\ncat 4 5 6\nthe 7 8 9\n")
    vectors = read_vectors(tmp_path / "v.txt")
    assert vectors.words == ["the", "cat"]
    np.testing.assert_array_equal(vectors.array, np.array([[1, 2, 3], [4, 5, 6]], dtype=np.float16))
