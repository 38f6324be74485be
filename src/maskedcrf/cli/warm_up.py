"""maskedcrf warm-up."""

from __future__ import annotations

from maskedcrf.cli.options import AsJson


def run(as_json: AsJson = False) -> None:
    """Compile the CRF for this processor and keep the machine code, so that no first call waits for the compiler.

    The machine code is kept in the user's cache folder, or in the folder that NUMBA_CACHE_DIR names, as for a
    container image. Kernels that are there already are not compiled again.

    \b
    Example:
      maskedcrf warm-up --json
    """
    from time import perf_counter

    from maskedcrf import machine_code
    from maskedcrf.cli.streams import print_json
    from maskedcrf.errors import MaskedCRFError

    if machine_code.FOLDER is None:
        raise MaskedCRFError(
            f"{machine_code.cache_folder()}: cannot be written, so nothing can be kept; "
            "name another folder in NUMBA_CACHE_DIR"
        )
    begin = perf_counter()
    _call_every_kernel()
    seconds = perf_counter() - begin
    if as_json:
        print_json({"folder": str(machine_code.FOLDER), "seconds": seconds})
    else:
        print(f"{machine_code.FOLDER}: complete after {seconds:.1f} s")


def _call_every_kernel() -> None:
    """The first call of each compiles it, unless it is on disk."""
    import torch

    from maskedcrf.crf.layer import MaskedCRF

    crf, emissions = MaskedCRF(["O", "B-X", "I-X"], "BIO", backend="cpu"), torch.zeros(2, 2, 3)
    for scores in (emissions, emissions + torch.tensor([0.0, 1e4, 0.0])):  # the second does not fit into masses
        crf(scores, torch.zeros(2, 2, dtype=torch.long))
    crf.decode(emissions)
    crf.nbest(emissions, k=2)
    crf.sample(emissions)
    crf.decode_segments(emissions)
