"""Breaks the product in 37 places, one after another, and says which its tests find: `python -m tests.mutations`.

    python -m tests.mutations [--quick] [--at COMMIT] [WORD ...]

Each is made in a copy of the checkout (of COMMIT, if given), and the tests named beside it run there. `--quick`
takes every fourth; words choose those whose row contains one of them. Exits with 1 if one is missed. Run it by hand
after tests were merged, shortened or removed: what was found before is to be found afterwards.
"""

import argparse
import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# A file and the tests that should find the breakage; then what stands there, and what is put in its place.
TABLE = """
model/layers/attention.py: model/layers/test_attention.py
triu(1 + past) => triu(2 + past)
model/layers/attention.py: model/layers/test_attention.py model/networks/test_transformer.py
masked_fill_(~real, MASKED) => masked_fill_(~real, 0.0)
model/layers/cells.py: model/layers/test_recurrent.py
torch.lerp(n, state[0], z => torch.lerp(state[0], n, z
model/layers/losses.py: model/layers/test_losses.py
label_smoothing=every, => label_smoothing=every / 2,
model/layers/low_rank.py: model/layers/test_low_rank.py
alpha / rank) => alpha)
model/decoding/hypothesis.py: model/decoding/test_search.py
max(1, len(tokens)) ** => max(1, len(tokens) - 1) **
model/decoding/generation.py: model/decoding/test_sampling.py
probabilities[:, top_k:] => probabilities[:, top_k + 1 :]
model/settings.py: model/inference/test_translator.py model/decoding/test_search.py
+ self.max_extra, positions) => + self.max_extra, positions + 1)
model/settings.py: model/decoding/test_search.py model/inference/test_translator.py model/bundles/test_ctranslate2.py
[PAD, BOS, MASK, SEP] + => [PAD, BOS, MASK] +
model/text/sentences.py: model/text/test_sentences.py
"dr", "prof" => "prof"
model/word_vectors/sampling.py: model/word_vectors/test_sampling.py
weights.max()) ** exponent => weights.max()) ** (exponent / 2)
model/word_vectors/glove.py: model/word_vectors/test_glove.py
shares ** np.float32(self.config.alpha) => shares
model/storage/cache.py: model/storage/test_cache.py
if file_sha256(path) != sha256: => if not sha256:
model/shards/reader.py: model/shards/test_reader.py
if size != entry.bytes: => if size < entry.bytes:
model/runs/checkpoints.py: pipelines/training/test_snapshots.py pipelines/training/test_loop.py
file_sha256(path), files.get(name, "") => files.get(name, ""), files.get(name, "")
model/files.py: model/test_files.py
            synchronise(part) =>             pass
model/files.py: model/test_files.py
synchronise(Path(folder) / name) => pass
model/inputs/compression.py: model/inputs/test_compression.py
if size > most: => if size > 2 * most:
model/ranges.py: test_configs.py
low = value < self.most if => low = value <= self.most if
pipelines/loaders/window.py: pipelines/loaders/test_pairs.py pipelines/loaders/test_window.py
(last - begin + 1) * length(last) => (last - begin) * length(last)
pipelines/loaders/pairs.py: pipelines/loaders/test_pairs.py
+ epoch) % 2 == 1 => + epoch) % 2 == 0
pipelines/loaders/masked.py: pipelines/loaders/test_text_loaders.py
(what >= MASKED) & (what < RANDOM) => (what >= MASKED)
pipelines/training/optimizer.py: pipelines/training/test_optimizer.py
, 1) / step) => , 1) / (step + 1))
pipelines/training/optimizer.py: pipelines/training/test_optimizer.py
"params": spared, "weight_decay": 0.0} => "params": spared, "weight_decay": config.weight_decay}
pipelines/evaluation/metrics.py: pipelines/test_evaluate.py
CHRF(**options) => CHRF(word_order=2, **options)
pipelines/evaluation/significance.py: pipelines/evaluation/test_significance.py
- TOLERANCE * max( => + TOLERANCE * max(
pipelines/evaluation/significance.py: pipelines/evaluation/test_significance.py
gain.sum() - 2 * ( => gain.sum() - (
pipelines/tracking/promotion.py: pipelines/tracking/test_promotion.py
self.lead > 0 and => True or
services/texts/glossary.py: services/texts/test_glossary.py
_in_case(self.terms[term], term, => _in_case(term, self.terms[term],
services/texts/runs.py: services/texts/test_documents.py services/texts/test_texts.py
self._add(self.form.write(self.text[start:end])) => self._add(self.text[start:end])
services/endpoint/keys.py: services/endpoint/test_keys.py
[1] >= key.requests: => [1] > key.requests:
services/endpoint/fair_queue.py: services/endpoint/test_fair_queue.py
2.0**self.priority => 2.0**-self.priority
services/jobs/ledger/access.py: services/jobs/test_access.py
index(self.role) >= ROLES => index(self.role) >= -1 + ROLES
services/jobs/pages/sessions.py: services/jobs/pages/test_pages.py
not hmac.compare_digest(str(word).encode(), visitor.csrf.encode()) => not word
services/http/pages.py: services/jobs/pages/test_pages.py services/jobs/pages/test_lists.py
autoescape=True => autoescape=False
services/jobs/service/webhook.py: services/jobs/test_webhook.py
{identity}.{at}. => {at}.{identity}.
services/jobs/scheduling/decide.py: services/jobs/scheduling/test_decide.py services/jobs/scheduling/test_properties.py
return exceeded, -job.priority, => return False, -job.priority,
"""


def rows() -> list[tuple[str, list[str], str, str]]:
    """Returns (file, its tests, what stands there, what is put in its place) of every row of the table."""
    lines = TABLE.strip("\n").splitlines()
    found = []
    for where, change in zip(lines[::2], lines[1::2], strict=True):
        file, tests = where.split(": ")
        old, new = change.split(" => ")
        found.append((file, [f"tests/{test}" for test in tests.split()], old, new))
    return found


def is_found(row: tuple[str, list[str], str, str], commit: str) -> bool:
    """Returns True if the named tests fail in a copy of the commit with this breakage."""
    file, tests, old, new = row
    content = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory(prefix="dragoman-mutation-") as name:
        copy = Path(name)
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            tar.extractall(copy, filter="tar")
        text = (copy / file).read_text(encoding="utf-8")
        if text.count(old) < 1:
            sys.exit(f"{file} does not contain {old!r}")
        (copy / file).write_text(text.replace(old, new, 1), encoding="utf-8")
        words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
        done = subprocess.run(words, cwd=copy, capture_output=True, text=True)
        if done.returncode not in (0, 1):
            sys.exit(f"{file}: the tests could not run\n{done.stdout}\n{done.stderr}")
        return done.returncode == 1


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--at", default="HEAD", metavar="COMMIT")
    parser.add_argument("words", nargs="*", metavar="WORD")
    options = parser.parse_args(argv)
    chosen = [row for row in rows() if not options.words or any(word in str(row) for word in options.words)]
    missed = 0
    for row in chosen[:: 4 if options.quick else 1]:
        found = is_found(row, options.at)
        missed += not found
        print(f"{'found ' if found else 'MISSED'}  {row[0]}: {row[2].strip()} => {row[3].strip()}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
