"""Black out names: lower the threshold until little is missed, and see what that costs.

python examples/anonymise.py
"""

from __future__ import annotations

from maskedcrf import Tagger
from maskedcrf.data.demo_corpus import demo_corpus
from maskedcrf.data.sentence import Sentence
from maskedcrf.tagger.prediction import Prediction

PRIVATE = {"PER", "LOC", "ORG"}


def small_tagger() -> Tagger:
    """A tagger good enough to be uncertain in the right places."""
    corpus = demo_corpus()
    return Tagger.train(
        corpus.train[:1000],
        corpus.dev[:100],
        encoder={"words": 32, "characters": 16, "lstm_hidden": 32, "dropout": 0.1},
        optim={"head_rate": 1e-2, "crf_rate": 1e-2},
        batch_sentences=8,
        epochs=3,
    )


def hidden(answer: Prediction) -> set[int]:
    """Tokens inside a private entity that is probable enough, on the best path or not."""
    spans = [entity.tokens for entity in answer.entities if entity.type in PRIVATE]
    return {position for start, end in spans for position in range(start, end)}


def private(sentence: Sentence) -> set[int]:
    """Tokens that must not be seen."""
    return {position for position, tag in enumerate(sentence.tags or ()) if tag[2:] in PRIVATE}


def blacked_out(answer: Prediction) -> str:
    """The text with a bar over every token to hide."""
    bars = hidden(answer)
    return " ".join("█" * len(token) if at in bars else token for at, token in enumerate(answer.tokens))


def main() -> None:
    """Missed and needlessly hidden words by threshold."""
    tagger = small_tagger()
    test = demo_corpus().test[:300]
    words = [sentence.tokens for sentence in test]
    secret = sum(len(private(sentence)) for sentence in test)
    plain = sum(len(sentence) for sentence in test) - secret
    print("threshold   names missed   other words hidden")
    for threshold in (0.9, 0.5, 0.2, 0.05, 0.01):
        answers = tagger.predict(words, threshold=threshold)
        pairs = [(hidden(answer), private(sentence)) for answer, sentence in zip(answers, test, strict=True)]
        missed = sum(len(wanted - found) for found, wanted in pairs)
        needless = sum(len(found - wanted) for found, wanted in pairs)
        print(f"{threshold:9}   {missed / secret:12.1%}   {needless / plain:18.1%}")
    print(blacked_out(tagger.predict("tell anna lopez i will be in new haven by noon", threshold=0.05)))


if __name__ == "__main__":
    main()
