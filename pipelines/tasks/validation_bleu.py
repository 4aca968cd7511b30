"""The BLEU of a translation network while it is trained."""

from dragoman.model.inference.translator import network_translator
from dragoman.model.networks.network import TranslationNetwork
from dragoman.model.settings import DecodeConfig
from dragoman.model.shards.manifest import read_manifest
from dragoman.model.text.tokenizer import TokenizerPair
from dragoman.pipelines.cluster.ranks import Ranks
from dragoman.pipelines.config import Config
from dragoman.pipelines.evaluation.held_out import held_out
from dragoman.pipelines.evaluation.metrics import quick_bleu

SENTENCES = 500  # of the validation set; the final evaluation uses all


def validation_bleu(config: Config, network: TranslationNetwork, tokenizers: TokenizerPair, ranks: Ranks) -> float:
    """Returns greedy sacreBLEU on the head of the validation set, on the final evaluation's scale.

    Each rank decodes its part; rank 0 scores for all, because the tokeniser depends on what its machine has installed.
    """
    sources, references = held_out(config.shard_dir, "valid", config.languages, SENTENCES)
    network.eval()
    form = read_manifest(config.shard_dir).normalisation
    translator = network_translator(network, tokenizers, DecodeConfig(beam=1), form)
    mine = [answer.text for answer in translator.translate(sources[ranks.rank :: ranks.world])]
    network.train()
    hypotheses = [""] * len(sources)
    for rank, texts in enumerate(ranks.gather(mine)):
        hypotheses[rank :: ranks.world] = texts
    bleu = quick_bleu(hypotheses, references, config.languages[1], config.evaluate.tokenize) if ranks.first else 0.0
    return float(ranks.from_first(bleu))
