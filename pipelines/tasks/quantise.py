"""`train.quantize=int8`: the network learns with the rounding of its int8 export (quantisation-aware training).

Usually a trained network (`train.init_from`) learns so for some hundred steps. The checkpoints and the bundle hold
plain weights.
"""

from dragoman.model.bundles.ctranslate2 import exportable
from dragoman.model.errors import UserError
from dragoman.model.layers.int8 import compute_in_int8
from dragoman.model.networks.network import Network
from dragoman.pipelines.config import Config


def adapt(config: Config, network: Network) -> None:
    """Lets `network` compute in int8 if `train.quantize` asks for it."""
    kind = config.train.quantize
    if kind == "none":
        return
    if not exportable(network):
        raise UserError(
            f"train.quantize={kind}: {config.model['architecture']} has no int8 export; choose none, or an "
            f"encoder-decoder Transformer"
        )
    if rank := config.train.lora.rank:
        raise UserError(
            f"train.quantize={kind}: not with train.lora.rank={rank}; first tune by factors, then train.init_from "
            f"that run"
        )
    compute_in_int8(network)
