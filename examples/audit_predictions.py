"""How many of a tagger's errors are illegal segments? What is it worth to mask them?

python examples/audit_predictions.py

On files the same is `maskedcrf audit predictions.conll`.
"""

from __future__ import annotations

from maskedcrf import Tagger, audit, evaluate
from maskedcrf.data.demo_corpus import demo_corpus


def softmax_tagger() -> Tagger:
    """A tagger that knows nothing of its scheme: an independent choice for each token."""
    corpus = demo_corpus()
    return Tagger.train(
        corpus.train[:1000],
        corpus.dev[:100],
        head="softmax",
        mask="off",
        encoder={"words": 32, "lstm_hidden": 32, "dropout": 0.1},
        optim={"head_rate": 1e-2},
        batch_sentences=8,
        epochs=3,
    )


def main() -> None:
    """Audit the tagger as it is, then with the mask on in decoding."""
    test = demo_corpus().test
    gold = [list(sentence.tags or ()) for sentence in test]
    tagger = softmax_tagger()
    for mask in ("off", "decode"):
        tagger.mask = mask
        predicted = [answer.tags for answer in tagger.predict([sentence.tokens for sentence in test])]
        found = audit(gold, predicted, scheme="BIO").total
        scores = evaluate(gold, predicted, scheme="BIO", strategy="both")
        print(f"mask={mask}: {found.illegal} of {found.predicted} predicted entities are illegal")
        print(f"  errors that are illegal: {found.illegal_fp} of {found.illegal_fp + found.legal_fp}")
        print(f"  F1 {scores['retain'].f1:.1f} with illegal entities retained, {scores['discard'].f1:.1f} discarded")


if __name__ == "__main__":
    main()
