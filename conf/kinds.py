"""The settings of the kind of model that a corpus is for, where the user chose none."""

LABELLERS = {"classes": "classifier_transformer", "tags": "tagger_transformer"}
LANGUAGE_MODEL = "model=gpt_modern"
WHOLE_WORDS = ("words", "vocabulary")  # tokenizers that word vectors need


def kind_words(form: str, labels: str, languages: int, tokenizer: str) -> list[str]:
    """Returns the words that choose network and registry; empty for pairs, whose defaults are right.

    Args:
        form: `corpus.format`. labels: `corpus.labels`. languages: one or two. tokenizer: `tokenizer.type`.
    """
    if form == "labelled":
        return [f"model={LABELLERS[labels]}", "registry=labels"]
    if languages > 1:
        return []
    whole = tokenizer in WHOLE_WORDS
    return ["model=skipgram", "registry=vectors"] if whole else [LANGUAGE_MODEL, "registry=language"]
