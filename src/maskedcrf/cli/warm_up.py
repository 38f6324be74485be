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

    from maskedcrf.cli.streams import print_json
    from maskedcrf.crf import machine_code
    from maskedcrf.errors import MaskedCRFError

    if machine_code.FOLDER is None:
        raise MaskedCRFError(
            f"{machine_code.cache_folder()}: cannot be written, so nothing can be kept; "
            "name another folder in NUMBA_CACHE_DIR"
        )
    begin = perf_counter()
    machine_code.warm_up()
    seconds = perf_counter() - begin
    if as_json:
        print_json({"folder": str(machine_code.FOLDER), "seconds": seconds})
    else:
        print(f"{machine_code.FOLDER}: complete after {seconds:.1f} s")
