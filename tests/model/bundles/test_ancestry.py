"""The models that a bundle comes from, by the settings that named them."""

from dragoman.model.bundles.ancestry import ancestry, ancestry_lines

DIGEST = "0123456789abcdef"


def test_each_setting_names_its_model() -> None:
    model = {"reference": "masked", "digest": DIGEST, "run": {"name": "wiki", "id": None}}
    facts = {
        "init": model,
        "lora": {"rank": 4, "alpha": 8.0, "targets": ["attention"]},
        "embeddings": {"source": {**model, "run": None}, "freeze": True},
        "tokenizer_same_as": DIGEST,
    }
    found = ancestry(facts)
    assert found == {
        "train.init_from": "masked (run wiki, bundle 0123456789ab)",
        "train.lora": "rank 4, alpha 8, attention",
        "embeddings.source": "masked (bundle 0123456789ab)",
        "tokenizer.same_as": "a tokenizer with the digest 0123456789ab",
    }
    assert list(ancestry_lines({"pair": "en-de", **found}))[-1] == "`train.lora`: rank 4, alpha 8, attention"


def test_a_network_of_its_own_has_none() -> None:
    assert ancestry({"pair": "en-de", "run": {"name": "a"}}) == {}
