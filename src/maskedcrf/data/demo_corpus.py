"""The built-in corpus: invented utterances, so that the demo needs no download.

What an assistant hears and a newsreader says, in lower case as a speech recogniser writes it, made by a grammar that
was written for this project. It is hard where real corpora are hard: names hold other names ("bank of north korea"),
words change type ("florence" sings, hosts a festival and is a city), titles are made of plain words, and
dev and test hold what train never shows: a quarter of the names, and words in a new place. In train "america" only
ever follows "north", "south" and the like; in test it also stands alone. Train alone carries label noise, the slips of
annotators: an entity missed, a wrong type, a wrong border.

>>> corpus = demo_corpus()
>>> len(corpus.train), len(corpus.dev), len(corpus.test)
(3000, 500, 1000)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from random import Random
from typing import NamedTuple

from maskedcrf.data.sentence import Sentence

SIZES = {"train": 3000, "dev": 500, "test": 1000}
NOISE = 0.04
"""Share of the entities of train that are marked wrongly."""
HELD_OUT = 4
"""Every fourth name of a list is kept out of train."""
TYPES = ("PER", "LOC", "ORG", "EVENT", "WORK", "PRODUCT", "FOOD", "DATE", "TIME", "MONEY")

# A grammar: a symbol and its expansions, separated by |. `<last>` expands a symbol; `[LOC]` expands one and marks what
# comes out as an entity of that type; what begins with * is left out of train.
GRAMMAR = {
    "sentence": """
        book a table at [ORG] in [LOC] for [TIME] | book me a flight from [LOC] to [LOC] on [DATE]
        | show me flights to [LOC] with [ORG] <when> | how far is [LOC] from [LOC] | what is the weather like in [LOC]
        | will it rain in [LOC] <when> | play [WORK] by [PER] | play something by [PER] | put on [WORK] please
        | add [WORK] to my road trip playlist | i want to hear the new album by [PER] called [WORK]
        | remind me to call [PER] at [TIME] | remind me to buy [FOOD] for [PER] <when>
        | set an alarm for [TIME] <when> | move my meeting with [PER] from [TIME] to [TIME]
        | order [FOOD] and [FOOD] from [ORG] | order a [FOOD] for less than [MONEY] | how do i cook [FOOD]
        | find tickets for [EVENT] in [LOC] | when does [EVENT] start <when> | who won [EVENT] last year
        | is [PER] going to [EVENT] | buy two tickets to [EVENT] for [MONEY] | how much is the [PRODUCT]
        | is the [PRODUCT] cheaper than the [PRODUCT] | order a [PRODUCT] for under [MONEY] | when was [WORK] released
        | who wrote [WORK] | rate [WORK] five stars | what time is it in [LOC] | email [PER] about [EVENT]
        | navigate to [LOC] and stop at [ORG] | tell [PER] i will be in [LOC] by [TIME]
        | [PER] , the head of [ORG] , will visit [LOC] on [DATE] | shares of [ORG] fell after [ORG] cut its forecast
        | [ORG] said it would buy [ORG] for [MONEY] | [ORG] will open an office in [LOC] by [DATE]
        | [PER] of [ORG] told reporters in [LOC] that talks had failed | police in [LOC] said [PER] was found [DATE]
        | the singer [PER] cancelled her concert in [LOC] | [PER] beat [PER] to win [EVENT] in [LOC]
        | thousands came to [LOC] for [EVENT] <when> | [ORG] presented the [PRODUCT] at [EVENT]
        | the [PRODUCT] by [ORG] will cost [MONEY] | critics in [LOC] praised [WORK] , a film by [PER]
        | [WORK] , a novel by [PER] , won the prize at [EVENT] | officials from [LOC] and [LOC] met [PER] <when>
        | the storm moved from [LOC] towards [LOC] at [TIME] | [ORG] and [ORG] will merge on [DATE]
        | [PER] left [ORG] to join [ORG] <when> | the mayor of [LOC] , [PER] , opened [EVENT]
        | [ORG] paid [MONEY] for the rights to [WORK] | farmers near [LOC] sell [FOOD] to [ORG]
        | [PER] ate [FOOD] and [FOOD] in [LOC] <when> | [FOOD] is on the menu at [ORG] <when>
        | the group will play [WORK] at [EVENT] | the bank is closed on [DATE] | the new album is called [WORK]
        | the first train to [LOC] leaves at [TIME] | turn the light off in the kitchen | skip this song
        | is there a cup of coffee left | the last game was on [DATE] | i like the long road along the river
        | the house on the hill was sold <when> | what a beautiful night it was | go back to the first song
        | *the <company> said it would raise prices | *the festival was cancelled because of the storm
        | *the <company> and the <company> both lost money | *is the market open <when>
        | *the north of [LOC] and the south of [LOC] | *which airlines fly to [LOC] | *the cup was half full
        | *the university closed the museum <when> | *a summer without [EVENT] | *the curry at [ORG] is too hot""",
    "when": "[DATE] | [DATE] | [TIME] | [DATE] at [TIME] | today | again | this time",
    "PER": """
        <first> <last> | <first> <last> | <first> <last> | <first> | <last> | <first> <initial> <last>
        | <first> van <last> | <first> de la <last> | lady <last> | <artist> | *<last> <first> | *van <last>""",
    "artist": """
        the <adjective> <noun> s | <first> and the <noun> s | dj <noun> | king <noun> | saint <noun> | <city> nights
        | young <noun> | the <last> brothers | *the <last> sisters | *king <first> | *saint <first>""",
    "LOC": """
        <city> | <city> | <city> | <city> | new <town> | new <town> | port <town> | san <town> | lake <town>
        | fort <town> | <town> city | <town> valley | <town> island | mount <last> | <direction> <continent>
        | <direction> <continent> | the <town> river | <last> street | <city> central station | <city> airport
        | *<continent> | *<continent> | *<town> | *<town> | *<direction> <city> | *<city> island | *old <city>
        | *new <city> | *<last> valley""",
    "ORG": """
        <city> <company> | <last> <company> | <last> and sons | <last> & <last> | bank of <city> | bank of <direction>
        <continent> | university of <city> | university of <direction> <continent> | <noun> <company>
        | <adjective> <noun> <company> | <city> <team> | <city> <team> | the <city> times | museum of <craft>
        | <acronym> | <acronym> | <acronym> <company> | cafe <first> | <first> s kitchen | house of <food>
        | *the <team> | *<team> of <city> | *<first> and <first> | *university of <continent>
        | *bank of <town> | *<company> of <city> | *<noun> & <noun>""",
    "EVENT": """
        the <city> <festival> | <city> <festival> | <craft> <festival> | the <season> <festival> | <city> <craft>
        <festival> | the world cup | *the <continent> cup | <season> games | the battle of <city> | <acronym> <year>
        | the <last> memorial <festival> | <city> pride | new year | *the <acronym> <festival> | *world cup <year>
        | *the <festival> of <city> | *<continent> cup | *<noun> <festival>""",
    "WORK": """
        the <adjective> <noun> | <adjective> <noun> | <noun> and <noun> | last train to <city> | letters to <first>
        | the <noun> of <city> | a <noun> for <first> | <verb> me <when_word> | <verb> the <noun> | my <adjective>
        <noun> | the <noun> on the <noun> | nights in <city> | <city> by night | <direction> of the <noun>
        | <adjective> <season> | <first> | <number> <noun> s | <noun> | goodbye <city> | *<noun> of <noun> s
        | *<adjective> <city> | *<first> and the <noun> | *<when_word> | *the <first> letters
        | *<verb> <first> <when_word>""",
    "PRODUCT": """
        <brand> <model> | <brand> <model> <number> | <brand> <number> | <brand> <product> | <brand> <product> <number>
        | <brand> <model> <grade> | <last> <model> | <acronym> <number> | *<model> <number> | *<model> <grade>
        | *<product> <number> | *<brand>""",
    "FOOD": """
        <food> | <kind> <food> | <kind> <food> | <kind> <kind> <food> | <food> with <food> | <city> style <food>
        | <season> <food> | <food> <dish> | <kind> <food> <dish> | *<food> and <food> <dish> | *<kind> <dish>
        | *<first> s <food> <dish> | *<dish>""",
    "DATE": """
        <day> | next <day> | <month> <ordinal> | the <ordinal> of <month> | <day> <month> <ordinal> | tomorrow
        | yesterday | next week | the first week of <month> | <month> <year> | this <season> | last <season> | <year>
        | the end of <month> | christmas eve | *the <day> after next | *early <month>
        | *the week of <month> <ordinal>""",
    "TIME": """
        <number> o'clock | <number> <half> | half past <number> | quarter to <number> | noon | midnight
        | <number> thirty <half> | tonight | tomorrow morning | <number> in the morning | *ten minutes past <number>
        | *late morning | *<number> at night""",
    "MONEY": """
        <number> dollars | <number> hundred dollars | <number> million euros | <number> pounds | a million dollars
        | <number> thirty | *half a million pounds | *<number> thousand <number> hundred euros""",
    "direction": "north | south | north | south | east | west | central",
    "continent": "america | korea | africa | carolina | dakota | asia | wales | sudan",
    "company": """airlines | group | bank | motors | records | pictures | foods | systems | energy | holdings | media
        | market | insurance | hotels""",
    "team": "giants | kings | tigers | rangers | united | wanderers | stars | rovers",
    "festival": "film festival | festival | marathon | open | fair | jazz festival | book fair | cup | grand prix",
    "craft": "art | film | jazz | design | science | history | music | food | glass | poetry",
    "season": "summer | winter | spring | autumn",
    "half": "am | pm | in the evening",
    "number": "one | two | three | four | five | six | seven | eight | nine | ten | eleven | twelve | twenty | forty",
    "ordinal": "first | second | third | fourth | fifth | sixth | tenth | twelfth | twentieth | thirtieth",
    "year": "nineteen ninety | two thousand | twenty ten | twenty nineteen | twenty twenty | nineteen sixty eight",
    "day": "monday | tuesday | wednesday | thursday | friday | saturday | sunday",
    "month": "january | february | march | april | may | june | july | august | october | november | december",
    "initial": "a | b | c | j | k | m | r | t",
    "when_word": "tonight | tomorrow | again | sunday | always | goodbye | one last time",
    "verb": "call | hold | follow | play | remember | find | leave | wake",
    "grade": "plus | max | pro | mini",
    "dish": "soup | salad | pie | curry | sandwich | stew | bowl | cake",
}

# Names. Some stand in two lists on purpose; every fourth is new in dev and test.
NAMES = {
    "first": """anna florence ben chelsea maria jordan paul austin sofia victoria omar sydney grace lincoln peter may
        lucas april mona madison felix june harold virginia nina carter elena houston dario ruby oscar augustine ivy
        melbourne rosa kingston leo israel amber hunter clara dallas milo georgia tara brooklyn noah paris emil
        savannah hugo jasmine ida troy lena boston ravi olive yuki pearl kofi ginger ines basil""",
    "last": """carter marlow hughes whitfield lincoln tanaka okafor reyes bergman castle novak silva harding stone
        fischer lopez quinn mercer rivers adler moreau hunter bishop kessler dalton prince ivanov wells tagore weaver
        santos field larsen archer mendel banks osei church vance winter petrov hill sharma lake donovan marsh
        keller young abara price lindqvist cook rinaldi baker sterling ford maddox brooks""",
    "city": """paris london florence boston austin sydney lima oslo cairo victoria madison dallas houston melbourne
        kingston jackson lincoln geneva phoenix orlando savannah troy nairobi verona athens belmont charlotte dakar
        eugene medina hamilton salem tallinn quito burton riga clayton utrecht lagos porto nelson turin wellington
        kyoto chester odessa antwerp jordan stirling bergen augusta delhi georgia havana milton naples""",
    "town": """york haven jersey hampton diego jose worth orleans louis brunswick bern castle marlow ashford rico
        hope elizabeth vista pedro stanley bridge moresby zealand delhi marcos wayne ontario superior dale baker
        silver green rock glen maple cedar""",
    "noun": """river moon shadow garden road fire winter stone tiger star ocean castle morning king dream letter
        window summer mountain queen train silence orange bird storm rose kitchen mirror giant bank market museum
        apple light dancer wolf night bridge island church""",
    "adjective": """golden silent last broken long blue wild new secret lonely first young burning red hidden sweet
        early cold beautiful green crooked little northern open""",
    "acronym": "acm nbt kpl wto gtx ucl zrk bbn pdx oec fsm tvr rka isl nmc dxb",
    "brand": """zenda orbit apple falcon lumo castor galaxy orange nimbus tarka pixel ford volta amber sirius halo
        vega stone echo comet""",
    "model": "galaxy nova tiger echo studio star horizon river phantom summit orion wave arrow shadow atlas comet",
    "product": "phone watch tablet speaker camera laptop headphones vacuum charger drone kettle bike",
    "food": """pizza noodles chicken rice lamb tofu beef salmon ginger olive basil apple orange cheese mushroom
        pumpkin lentil turkey lemon garlic pepper bean potato shrimp""",
    "kind": "thai green fried spicy sweet red roast turkey cold indian smoked french little grilled sour korean",
}

_PART = re.compile(r"<(\w+)>|\[(\w+)\]|(\S+)")


class DemoCorpus(NamedTuple):
    """The three parts; the tags are BIO."""

    train: tuple[Sentence, ...]
    dev: tuple[Sentence, ...]
    test: tuple[Sentence, ...]


@lru_cache(maxsize=4)
def demo_corpus(*, seed: int = 0) -> DemoCorpus:
    """The built-in corpus, the same on every machine; another seed gives other sentences of the same grammar."""
    return DemoCorpus(*(tuple(demo_sentences(name, size, seed=seed)) for name, size in SIZES.items()))


def demo_sentences(part: str, size: int, *, seed: int = 0) -> Iterator[Sentence]:
    """Different sentences of one part of the corpus, `train` with noise and without what is held out."""
    grammar = _Grammar(Random(f"{part} {seed}"), held_out=part != "train")
    seen: set[tuple[str, ...]] = set()
    while len(seen) < size:
        tokens, tags = grammar.sentence()
        if tuple(tokens) not in seen:
            seen.add(tuple(tokens))
            yield Sentence(tuple(tokens), tuple(tags), f"demo/{part}", len(seen), one_line=True)


class _Grammar:
    """Draws sentences. Uses `Random.random` alone, the one method whose numbers Python promises to keep."""

    def __init__(self, random: Random, *, held_out: bool) -> None:
        self.random = random
        self.noise = 0.0 if held_out else NOISE
        self.expansions = {symbol: _expansions(text, held_out=held_out) for symbol, text in GRAMMAR.items()}
        self.names = {symbol: _names(text, held_out=held_out) for symbol, text in NAMES.items()}

    def sentence(self) -> tuple[list[str], list[str]]:
        tokens: list[str] = []
        tags: list[str] = []
        for kind, words in self._expand("sentence"):
            tokens += words
            tags += self._mark(kind, words)
        return tokens, tags

    def _expand(self, symbol: str) -> Iterator[tuple[str, list[str]]]:
        """Runs of words with the type that covers them, "" for none."""
        for inner, marked, word in _PART.findall(self._choose(self.expansions[symbol])):
            if marked:
                yield marked, self._words(marked)
            elif inner in self.expansions:
                yield from self._expand(inner)
            else:
                yield "", [word or self._name(inner)]

    def _words(self, symbol: str) -> list[str]:
        return [word for _, words in self._expand(symbol) for word in words]

    def _name(self, symbol: str) -> str:
        """A name of the list; the first ones come more often, as in real text."""
        names = self.names[symbol]
        return names[int(len(names) * self.random.random() ** 2)]

    def _choose(self, options: list[str]) -> str:
        return options[int(len(options) * self.random.random())]

    def _mark(self, kind: str, words: list[str]) -> list[str]:
        size = len(words)
        if not kind:
            return ["O"] * size
        if self.random.random() >= self.noise:
            return _bio(kind, size)
        slip = self._choose(["missed", "type", "first", "last"])
        if slip == "type":
            return _bio(self._choose([other for other in TYPES if other != kind]), size)
        if slip == "missed" or size == 1:
            return ["O"] * size
        return ["O", *_bio(kind, size - 1)] if slip == "first" else [*_bio(kind, size - 1), "O"]


def _bio(kind: str, size: int) -> list[str]:
    return [f"B-{kind}", *[f"I-{kind}"] * (size - 1)]


def _expansions(text: str, *, held_out: bool) -> list[str]:
    options = [option.strip() for option in text.split("|")]
    return [option.removeprefix("*") for option in options if held_out or not option.startswith("*")]


def _names(text: str, *, held_out: bool) -> list[str]:
    return [name for number, name in enumerate(text.split(), 1) if held_out or number % HELD_OUT]
