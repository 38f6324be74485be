"""The paper's eight corpora: where to get them, how they are read, and what a right copy holds.

The texts are not ours to give: put your own copy in a folder and name it.

>>> corpus = load("demo")                       # or load("weibo", "path/to/corpora")
>>> len(corpus.train), corpus.differences       # what is not as in the table below
(3000, ())
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple, cast

from maskedcrf.data.demo_corpus import demo_corpus
from maskedcrf.data.formats import read_sentences
from maskedcrf.data.gold import Policy
from maskedcrf.data.sentence import Sentence
from maskedcrf.data.splits import dev_split
from maskedcrf.errors import DataError
from maskedcrf.tags.segments import TagIds, convert, read


class Counts(NamedTuple):
    """What is in a part of a corpus.

    Entities are read as scoring reads gold, illegal ones too; `illegal` counts the steps that the scheme forbids.
    """

    sentences: int
    tokens: int
    entities: int
    types: int
    illegal: int


@dataclass(frozen=True, slots=True)
class Split:
    """One split as its publisher has it. In column files the token stands first and the tag last."""

    files: tuple[str, ...]
    """Names it goes by, `.gz` left off; a folder for triples."""
    counts: tuple[Counts, ...]
    """What a right copy holds; more than one where more than one copy is in use."""
    scheme: str | None = None
    """Where it differs from the corpus's; it is then converted."""
    types: tuple[tuple[str, str], ...] = ()
    """Types that have another name in this part: (here, in the corpus)."""


@dataclass(frozen=True, slots=True)
class CorpusInfo:
    """A row of the table."""

    name: str
    task: str
    language: str
    scheme: str
    train: Split
    test: Split
    dev: Split | None
    """None: 10 % of train, drawn by a seed."""
    licence: str
    source: str
    gold: Policy = "error"
    """What to do with its illegal tags, where it has any."""
    first_character: bool = False
    """The token is the first character of its column; digits after it are its position in a word."""
    quirks: str = ""


@dataclass(frozen=True, slots=True)
class Corpus:
    """The three parts of a corpus, in one scheme, and what is not as expected."""

    name: str
    scheme: str
    train: tuple[Sentence, ...]
    dev: tuple[Sentence, ...]
    test: tuple[Sentence, ...]
    gold: Policy = "error"
    differences: tuple[str, ...] = ()

    @property
    def tags(self) -> tuple[str, ...]:
        """Every tag of the three parts, sorted: ATIS has seven that train never shows."""
        return tuple(sorted({tag for part in (self.train, self.dev, self.test) for s in part for tag in s.tags or ()}))


_MSRA_TRAIN = Split(("train.bio.txt", "msra_train_bio"), (Counts(45000, 2171573, 75059, 3, 0),))
_MSRA_LICENCE = "Microsoft Research Asia, for SIGHAN Bakeoff 2006; no open licence"
_SLOT_GATED = "github.com/MiuLab/SlotGated-SLU, data/"

CORPORA: dict[str, CorpusInfo] = {
    info.name: info
    for info in (
        CorpusInfo(
            "weibo",
            task="named entities",
            language="zh",
            scheme="BIO",
            train=Split(("train.conll", "weiboNER_2nd_conll.train"), (Counts(1350, 73778, 1895, 8, 10),)),
            dev=Split(("dev.conll", "weiboNER_2nd_conll.dev"), (Counts(270, 14509, 389, 8, 0),)),
            test=Split(("test.conll", "weiboNER_2nd_conll.test"), (Counts(270, 14842, 418, 8, 4),)),
            licence="annotations CC BY-SA 3.0; the messages follow Weibo's terms",
            source="github.com/hltcoe/golden-horse, data/weiboNER_2nd_conll.*",
            gold="repair",
            first_character=True,
            quirks="second edition; each character is followed by its position in its word, of one or two digits",
        ),
        CorpusInfo(
            "resume",
            task="named entities",
            language="zh",
            scheme="BIO",
            train=Split(("train.char.bio",), (Counts(3825, 124099, 13440, 8, 2),)),
            dev=Split(("dev.char.bio",), (Counts(472, 13890, 1497, 8, 0),)),
            test=Split(("test.char.bio",), (Counts(477, 15100, 1630, 8, 0),)),
            licence="none stated; names of real people",
            source="github.com/DandyQi/MaskedCRF, data/resume",
            gold="repair",
            quirks="two entities of train are cut by a sentence break; the BMES copy of LatticeLSTM has fewer breaks",
        ),
        CorpusInfo(
            "msra",
            task="named entities",
            language="zh",
            scheme="BIO",
            train=_MSRA_TRAIN,
            dev=None,
            test=Split(
                ("test_4365.char.bmes", "test.char.bmes"),
                (Counts(4365, 172601, 6181, 3, 0),),
                scheme="BMES",
                types=(("NR", "PER"), ("NS", "LOC"), ("NT", "ORG")),
            ),
            licence=_MSRA_LICENCE,
            source="github.com/zhooufeng/Data, MSRA.zip; test: github.com/v-mipeng/LexiconAugmentedNER, data/MSRA",
            quirks="the paper's test sentences; sentences of up to 1475 characters",
        ),
        CorpusInfo(
            "msra-3442",
            task="named entities",
            language="zh",
            scheme="BIO",
            train=_MSRA_TRAIN,
            dev=None,
            test=Split(("test.bio.txt", "msra_test_bio"), (Counts(3442, 172601, 6190, 3, 0),)),
            licence=_MSRA_LICENCE,
            source="github.com/zhooufeng/Data, MSRA.zip",
            quirks="the common copy: the same test text with other sentence breaks, one of 2427 characters",
        ),
        CorpusInfo(
            "ontonotes4",
            task="named entities",
            language="zh",
            scheme="BMES",
            train=Split(("train.char.bmes",), (Counts(15724, 491903, 13372, 4, 0), Counts(15589, 491228, 13372, 4, 0))),
            dev=Split(("dev.char.bmes",), (Counts(4301, 200505, 6950, 4, 0), Counts(4303, 200526, 6954, 4, 0))),
            test=Split(("test.char.bmes",), (Counts(4346, 208066, 7684, 4, 0), Counts(4346, 208042, 7684, 4, 0))),
            licence="LDC user agreement (LDC2011T03)",
            source="catalog.ldc.upenn.edu/LDC2011T03, in the split of Che et al. 2013 as LatticeLSTM prepared it",
            quirks="two copies in use, the larger with markup in its text; legal gold is assumed. Not OntoNotes 5.0",
        ),
        CorpusInfo(
            "conll2003",
            task="named entities",
            language="en",
            scheme="IOB1",
            train=Split(("train.txt", "eng.train"), (Counts(14041, 203621, 23499, 4, 2),)),
            dev=Split(("dev.txt", "eng.testa"), (Counts(3250, 51362, 5942, 4, 0),)),
            test=Split(("test.txt", "eng.testb"), (Counts(3453, 46435, 5648, 4, 0),)),
            licence="text: Reuters RCV1, from NIST under a signed agreement",
            source="www.clips.uantwerpen.be/conll2003/ner with RCV1 from trec.nist.gov/data/reuters",
            gold="repair",
            quirks="IOB1, illegal nearly everywhere if read as IOB2; -DOCSTART- lines are no tokens",
        ),
        CorpusInfo(
            "conll2000",
            task="chunks",
            language="en",
            scheme="BIO",
            train=Split(("train.txt",), (Counts(8936, 211727, 106978, 11, 0),)),
            dev=None,
            test=Split(("test.txt",), (Counts(2012, 47377, 23852, 10, 0),)),
            licence="none stated; text from the Penn Treebank",
            source="www.clips.uantwerpen.be/conll2000/chunking, or nltk_data's conll2000.zip",
            quirks="I-LST is in test only",
        ),
        CorpusInfo(
            "atis",
            task="slots",
            language="en",
            scheme="BIO",
            train=Split(("train",), (Counts(4478, 50497, 14851, 79, 0),)),
            dev=Split(("dev", "valid"), (Counts(500, 5703, 1709, 67, 0),)),
            test=Split(("test",), (Counts(893, 9164, 2837, 69, 0),)),
            licence="speech and text: LDC (ATIS2, ATIS3); no open licence",
            source=_SLOT_GATED + "atis",
            quirks="seven tags are in dev or test only; 83 types over all parts; 40 types never have an I- tag",
        ),
        CorpusInfo(
            "snips",
            task="slots",
            language="en",
            scheme="BIO",
            train=Split(("train",), (Counts(13084, 117700, 33958, 39, 0),)),
            dev=Split(("dev", "valid"), (Counts(700, 6384, 1794, 39, 0),)),
            test=Split(("test",), (Counts(700, 6354, 1790, 39, 0),)),
            licence="CC0 1.0",
            source=_SLOT_GATED + "snips; upstream github.com/sonos/nlu-benchmark",
            quirks="blanks are doubled and trail",
        ),
    )
}


CHECKSUMS = {
    "weibo/train.conll": "4e8954c54ab33b0afc9a8abb85715c47422645cc6d1b49fdb24540f4a427e997",
    "weibo/dev.conll": "e72730d83aac680505280b6301c879b3ba470d29ac308979d48cdc58ee4907cc",
    "weibo/test.conll": "faaf6c0ebde5348b935cfd5c89f0f22c9e0779d60667d8b5efbc647b6707d50e",
    "resume/train.char.bio": "bc47164937ff20adfa0bb8f91a6bcffc038d0c52e0fa422900b9e088c078967e",
    "resume/dev.char.bio": "714196f4a107be2471dc829e13da960d461315b964d7715410236e19e8a7e948",
    "resume/test.char.bio": "831968fde9514387c05db02c2113b1eedb5802879870611574657c1d1bb1d143",
    "msra/test_4365.char.bmes": "9cebc5ce1ea06477d1230d17be90daafa670e78f07eb628c27103af4a6e6dc3b",
    "msra/test.bio.txt": "2be8e580bcb22e9086e4403d82a7ec0f6e18019ebef35b0fd52941724bdf89a3",
    "conll2003/train.txt": "90f4cdcaf844d16a2981727ee793be3131af511057f778c63e5de338c15d97f1",
    "conll2003/dev.txt": "4d39793e09ab4a8cbe666550955db92431a858ff252beb039c603ca98cc97901",
    "conll2003/test.txt": "6412af8187e648972899112d6f7beb5caca2c3d229005439d9eb1b7f34684ce1",
    "conll2000/train.txt": "82033cd7a72b209923a98007793e8f9de3abc1c8b79d646c50648eb949b87cea",
    "conll2000/test.txt": "73b7b1e565fa75a1e22fe52ecdf41b6624d6f59dacb591d44252bf4d692b1628",
    "atis/train/seq.in": "3a670980841b21ab39088b2595efc17d487cdc45769c075a3e5f9458bba28c7f",
    "atis/train/seq.out": "14c7131bd66562f797dbd7189bc7358f0cf354c6afb0785a9ab973c35b58f34c",
    "atis/dev/seq.in": "c7435b96e7948393608c34819628e863c5338f11ca68e8f896d2cc041d8e17f8",
    "atis/dev/seq.out": "83ccff3e36f83a993f8e5b5b82adf3256076f234abda4d784051381d7ac76922",
    "atis/test/seq.in": "4b2119fc59c37f9398c6605db435d4f467505009e6ee3e5af04fed09f39dc397",
    "atis/test/seq.out": "a4690d6bceadc06876d1ff99bc401744aa981cb321e598ae12a3859d7be53254",
    "snips/train/seq.in": "04ad1e3f2121d83c6478f9a4b17d2dbdc21d06d6127f73cb7af835ed733f9855",
    "snips/train/seq.out": "fd5f2121d8055827e5d6b3d3bac30f3d7e94e82a5d437751960cbdd9e1b4f6d3",
    "snips/dev/seq.in": "64e0f6d8ad8aab3a3828164d7d53731a0993d3ca1aed437ceaca6d3d568d410e",
    "snips/dev/seq.out": "712e6d34feb8d52d208b820a5f8bae6e6ff990f08374507dfde22de389088319",
    "snips/test/seq.in": "c1e341173fcea2951a8ca371956a6f81c76de87b9583c62eb87edd6158fa3a7c",
    "snips/test/seq.out": "58c07c9097d5e1f78889765c2a535a160f6455b90b3142055c8051847afcca47",
    "msra/train.bio.txt": "4f7f24a28b6a5377a768eb740f6e4cc8df37cd5fe06777d0279c7180948d233b",
}
"""sha256 of the unpacked files, by corpus and the first of their names; OntoNotes is each licensee's own."""


def load(name: str, folder: str | os.PathLike[str] = ".", *, seed: int = 0) -> Corpus:
    """A corpus by name: `demo`, or one of `CORPORA` from the user's folder (or the corpus's own folder in it).

    All parts come in the corpus's scheme. `seed` draws the dev part where there is none. A copy that is not as
    expected is read all the same; `differences` says in what it differs.
    """
    if name == "demo":
        demo = demo_corpus()
        return Corpus("demo", "BIO", demo.train, demo.dev, demo.test)
    if name not in CORPORA:
        near = get_close_matches(name, CORPORA, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise DataError(f"unknown corpus {name!r}: {hint}known are demo, {', '.join(CORPORA)}")
    info = CORPORA[name]
    train, dev, test = (_load_part(info, part, Path(folder)) for part in (info.train, info.dev, info.test))
    pairs = zip(("train", "dev", "test"), (train, dev, test), strict=True)
    differences = [f"{split}: {difference}" for split, part in pairs for difference in part.differences]
    first, second = (train.sentences, dev.sentences) if info.dev else dev_split(train.sentences, seed=seed)
    return Corpus(name, info.scheme, tuple(first), tuple(second), test.sentences, info.gold, tuple(differences))


class _LoadedSplit(NamedTuple):
    sentences: tuple[Sentence, ...]
    differences: tuple[str, ...]


def _load_part(info: CorpusInfo, part: Split | None, folder: Path) -> _LoadedSplit:
    if part is None:
        return _LoadedSplit((), ())
    path = _find(info, part, folder)
    sentences = list(read_sentences(path, first_character=info.first_character))
    scheme = part.scheme or info.scheme
    differences = _differences(count(sentences, scheme), part.counts)
    differences += _checksum_differences(f"{_own_folder(info)}/{part.files[0]}", path)
    if part.scheme:
        sentences = [_convert(sentence, part, info.scheme) for sentence in sentences]
    return _LoadedSplit(tuple(sentences), tuple(differences))


def _find(info: CorpusInfo, part: Split, folder: Path) -> Path:
    own = _own_folder(info)
    places = [root / (file + end) for root in (folder / own, folder) for file in part.files for end in ("", ".gz")]
    for place in places:
        if place.exists():
            return place
    names = " or ".join(part.files)
    raise DataError(
        f"{folder}: no {names} for {info.name} in {own}/ or here; get it from {info.source} ({info.licence})"
    )


def _own_folder(info: CorpusInfo) -> str:
    """`msra` for `msra-3442` too, which shares its train file."""
    return info.name.partition("-")[0]


def _convert(sentence: Sentence, part: Split, target: str) -> Sentence:
    names = dict(part.types)
    tags = convert(sentence.tags or (), part.scheme or target, target)
    renamed = tuple(_rename(tag, names) for tag in tags)
    return replace(sentence, tags=renamed, columns=())


def _rename(tag: str, names: dict[str, str]) -> str:
    prefix, delimiter, kind = tag.partition("-")
    return prefix + delimiter + names.get(kind, kind)


def count(sentences: Sequence[Sentence], scheme: str) -> Counts:
    """Sentences, tokens, entities (illegal ones too), types and illegal steps."""
    found = read(TagIds.of([sentence.tags or () for sentence in sentences]), scheme)
    types = {found.types[kind] for kind in set(found.type_index.tolist())}
    return Counts(len(sentences), sum(map(len, sentences)), len(found.start), len(types), len(found.violations))


def _differences(found: Counts, expected: Sequence[Counts]) -> list[str]:
    """Every figure that differs from the nearest right copy."""
    nearest = min(expected, key=lambda counts: sum(a != b for a, b in zip(counts, found, strict=True)))
    pairs = zip(Counts._fields, found, nearest, strict=True)
    return [f"{here} {name}, expected {there}" for name, here, there in pairs if here != there]


def _checksum_differences(key: str, path: Path) -> Iterator[str]:
    """Files that are others than the ones the counts were taken from."""
    pairs = [(key, path)] if path.is_file() else [(f"{key}/{name}", path / name) for name in ("seq.in", "seq.out")]
    for known, file in pairs:
        expected, found = CHECKSUMS.get(known), _sha256(file)
        if expected is not None and found != expected:
            yield f"{file} is not the file we know (sha256 {found[:12]}..., expected {expected[:12]}...)"


def _sha256(path: Path) -> str:
    """Of the unpacked bytes, so that packing a file changes nothing."""
    packed = path if path.exists() else path.with_name(path.name + ".gz")
    with gzip.open(packed) if packed.suffix == ".gz" else packed.open("rb") as handle:
        return hashlib.file_digest(cast("io.BufferedReader", handle), "sha256").hexdigest()
