"""Fine-tune a Hugging Face encoder with a masked CRF on top, and hand it on as a PreTrainedModel.

python examples/huggingface_encoder.py                              # a tiny encoder with random weights
python examples/huggingface_encoder.py --encoder bert-base-uncased  # a folder, or a name on the hub
"""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from tokenizers import BertWordPieceTokenizer
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from maskedcrf import Tagger
from maskedcrf.data.demo_corpus import demo_corpus
from maskedcrf.integrations.huggingface import MaskedCRFForTokenClassification, to_huggingface


def tiny_encoder(folder: Path, texts: list[str]) -> Path:
    """A BERT of two small layers, its word pieces learnt from the texts: enough to see how things fit together."""
    pieces = BertWordPieceTokenizer()
    pieces.train_from_iterator(texts, vocab_size=2000, show_progress=False)
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=pieces._tokenizer, **names)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128
    )
    torch.manual_seed(0)
    BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def main(encoder: str | None, output: Path) -> None:
    """Train, score, and read the saved model back."""
    corpus = demo_corpus()
    train = corpus.train[:600]
    encoder = encoder or str(tiny_encoder(output / "encoder", [" ".join(one.tokens) for one in train]))
    tagger = Tagger.train(
        train,
        corpus.dev[:100],
        encoder={"transformer": encoder},
        epochs=4,
        batch_sentences=16,
        optim={"encoder_rate": 1e-3, "crf_rate": 1e-2},  # 1e-4 and less suits weights that are not random
        device="cpu",
    )
    scores = tagger.evaluate(corpus.test[:200])
    print(f"F1 {scores.f1:.1f}, illegal segments {scores.cells.illegal}")

    model, tokenizer = to_huggingface(tagger)
    model.save_pretrained(output / "model")
    tokenizer.save_pretrained(output / "model")
    again = MaskedCRFForTokenClassification.from_pretrained(output / "model")
    print(f"{type(again).__name__} with {again.config.num_labels} labels")
    print(tagger.pipeline("remind me to call anna lopez at noon"))


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", help="folder or name of a Hugging Face encoder")
    with TemporaryDirectory() as folder:
        main(parser.parse_args().encoder, Path(folder))
