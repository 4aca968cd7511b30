"""The clients that are Python packages. Each is imported only when it is asked: none is needed to run Dragoman."""

import contextlib
import logging
import re
import time
import warnings
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Any
from urllib.parse import urlsplit

from tests.clients.checks import Client, Outcome, Server, explain, judge

TERM = "Dragoman"  # a term of the test glossaries
PARENT = "projects/any/locations/global"
PATIENCE = 60.0  # seconds for a document
KEYLESS = "none"  # clients that insist on a key send this one to a server that needs none


def _key(server: Server) -> str:
    return server.key or KEYLESS


def _libretranslatepy(server: Server) -> Any:
    from libretranslatepy import LibreTranslateAPI

    return LibreTranslateAPI(f"{server.url}/", server.key or None)


def _deep_translator(server: Server) -> Any:
    from deep_translator import LibreTranslator

    return LibreTranslator(
        source=server.source, target=server.target, api_key=_key(server), custom_url=f"{server.url}/"
    )


def _translate(server: Server) -> Any:
    from translate import Translator

    return Translator(
        from_lang=server.source,
        to_lang=server.target,
        provider="libre",
        base_url=f"{server.url}/",
        secret_access_key=server.key or None,
    ).translate(server.text)


def _deepl(server: Server) -> Any:
    import deepl

    return deepl.DeepLClient(_key(server), server_url=server.url)


def _deepl_target(server: Server) -> str:
    """Returns the target as DeepL's client takes it: it refuses plain EN and PT."""
    return {"en": "EN-US", "pt": "PT-PT"}.get(server.target, server.target)


def _deepl_text(server: Server, **options: Any) -> Any:
    client = _deepl(server)
    return client.translate_text(
        server.text, source_lang=server.source, target_lang=_deepl_target(server), **options
    ).text


def _deepl_glossary(server: Server) -> str:
    client = _deepl(server)
    stored = client.create_glossary("dragoman clients", server.source, server.target, {TERM: TERM})
    try:
        entries = client.get_glossary_entries(stored)
        return f"{stored.entry_count} entry: {entries}" if entries == {TERM: TERM} else ""
    finally:
        client.delete_glossary(stored)


def _deepl_glossary_v3(server: Server) -> str:
    from deepl.api_data import MultilingualGlossaryDictionaryEntries

    client = _deepl(server)
    entries = MultilingualGlossaryDictionaryEntries(server.source, server.target, {TERM: TERM})
    stored = client.create_multilingual_glossary("dragoman clients", [entries])
    try:
        return f"{len(client.list_multilingual_glossaries())} glossaries, {stored.dictionaries[0].entry_count} entry"
    finally:
        client.delete_multilingual_glossary(stored)


def _deepl_with_glossary(server: Server) -> str:
    """Returns the translation with a glossary that has the text's longest word; empty if the term is not in it."""
    client, word = _deepl(server), longest_word(server.text)
    stored = client.create_glossary("dragoman clients", server.source, server.target, {word: TERM})
    try:
        text: str = _deepl_text(server, glossary=stored.glossary_id)
        return text if TERM in text else ""
    finally:
        client.delete_glossary(stored)


def _deepl_document(server: Server) -> str:
    client = _deepl(server)
    target = _deepl_target(server)
    handle = client.translate_document_upload(
        server.text, source_lang=server.source, target_lang=target, filename="text.txt"
    )
    until = time.monotonic() + PATIENCE
    while not (status := client.translate_document_get_status(handle)).done:
        if not status.ok or time.monotonic() > until:
            raise RuntimeError(f"{status.status.value}: {status.error_message}")
        time.sleep(0.1)
    with client.translate_document_download(handle) as answer:
        return str(answer.content, "utf-8")


def longest_word(text: str) -> str:
    """Returns the longest word of a text, the first of several."""
    return max(re.findall(r"\w+", text), key=len, default=text)


def _google_login(server: Server) -> Any:
    from google.auth import api_key, credentials

    return api_key.Credentials(server.key) if server.key else credentials.AnonymousCredentials()


def _google_v2(server: Server) -> Any:
    from google.cloud import translate_v2

    return translate_v2.Client(credentials=_google_login(server), client_options={"api_endpoint": server.url})


def _google_v2_text(server: Server) -> Any:
    answer = _google_v2(server).translate(
        server.text, target_language=server.target, source_language=server.source, format_="text"
    )
    return answer["translatedText"]


def _google_v3(server: Server) -> Any:
    from google.cloud.translate_v3 import TranslationServiceClient
    from google.cloud.translate_v3.services.translation_service.transports import TranslationServiceRestTransport

    scheme = urlsplit(server.url).scheme
    transport = TranslationServiceRestTransport(host=server.url, url_scheme=scheme, credentials=_google_login(server))
    return TranslationServiceClient(transport=transport)


def _google_v3_text(server: Server) -> Any:
    request = {
        "parent": PARENT,
        "contents": [server.text],
        "mime_type": "text/plain",
        "source_language_code": server.source,
        "target_language_code": server.target,
    }
    return _google_v3(server).translate_text(request=request).translations[0].translated_text


def _google_api(server: Server) -> Any:
    from googleapiclient.discovery import build

    where = {"api_endpoint": f"{server.url}/language/translate/"}
    return build("translate", "v2", developerKey=_key(server), client_options=where, static_discovery=True)


def _google_api_text(server: Server) -> Any:
    found = (
        _google_api(server)
        .translations()
        .list(q=[server.text], source=server.source, target=server.target, format="text")
        .execute()
    )
    return found["translations"][0]["translatedText"]


def _openai(server: Server) -> Any:
    from openai import OpenAI

    return OpenAI(base_url=f"{server.url}/v1", api_key=_key(server))


def _messages(server: Server) -> list[dict[str, str]]:
    return [{"role": "user", "content": server.text}]


def _openai_chat(server: Server) -> Any:
    found = _openai(server).chat.completions.create(
        model=f"{server.source}-{server.target}", messages=_messages(server)
    )
    return found.choices[0].message.content


def _openai_stream(server: Server) -> str:
    found = _openai(server).chat.completions.create(
        model=f"{server.source}-{server.target}", messages=_messages(server), stream=True
    )
    return "".join(chunk.choices[0].delta.content or "" for chunk in found if chunk.choices)


def _openai_vectors(server: Server) -> str:
    if not server.vectors:
        return "this server has no vectors of texts"
    found = _openai(server).embeddings.create(model=server.vectors, input=[server.text])
    return f"{len(found.data[0].embedding)} numbers"


def _huggingface(server: Server, path: str) -> Any:
    from huggingface_hub import InferenceClient

    return InferenceClient(base_url=f"{server.url}/{path}", api_key=_key(server))


def _huggingface_chat(server: Server) -> Any:
    found = _huggingface(server, "v1").chat_completion(_messages(server), model=f"{server.source}-{server.target}")
    return found.choices[0].message.content


def _mlflow(server: Server) -> Any:
    from mlflow.pyfunc.scoring_server.client import ScoringServerClient

    parts = urlsplit(server.url)
    client = ScoringServerClient(parts.hostname, parts.port)
    client.ping()
    languages = {"source": server.source, "target": server.target}
    return client.invoke([server.text], params=languages).get_predictions().iloc[0, 0]


def _markup(server: Server) -> str:
    return f"<p>{server.text}</p>"


CLIENTS = (
    Client(
        "libretranslatepy",
        {"translate": lambda server: _libretranslatepy(server).translate(server.text, server.source, server.target)},
        {
            "languages": lambda server: [one["code"] for one in _libretranslatepy(server).languages()],
            "detect": lambda server: _libretranslatepy(server).detect(server.text),
        },
    ),
    Client("deep-translator", {"translate": lambda server: _deep_translator(server).translate(server.text)}, {}),
    Client("translate", {"translate": _translate}, {}),
    Client(
        "deepl",
        {
            "translate": _deepl_text,
            "translate a list": lambda server: (
                _deepl(server).translate_text([server.text] * 2, target_lang=_deepl_target(server))[1].text
            ),
        },
        {
            "translate XML": lambda server: (
                _deepl(server)
                .translate_text(_markup(server), target_lang=_deepl_target(server), tag_handling="xml")
                .text
            ),
            "languages": lambda server: [one.code for one in _deepl(server).get_target_languages()],
            "usage": lambda server: _deepl(server).get_usage().character.count is not None,
            "glossary": _deepl_glossary,
            "glossary, version 3": _deepl_glossary_v3,
            "translate with a glossary": _deepl_with_glossary,
        },
        {"document": _deepl_document},
    ),
    Client(
        "google-cloud-translate",
        {"translate, version 2": _google_v2_text, "translate, version 3": _google_v3_text},
        {
            "translate HTML": lambda server: _google_v2(server).translate(
                _markup(server), target_language=server.target, source_language=server.source
            )["translatedText"],
            "languages": lambda server: [one["language"] for one in _google_v2(server).get_languages()],
            "detect": lambda server: _google_v2(server).detect_language(server.text),
            "languages, version 3": lambda server: [
                one.language_code for one in _google_v3(server).get_supported_languages(parent=PARENT).languages
            ],
        },
    ),
    Client(
        "google-api-python-client",
        {"translate": _google_api_text},
        {"languages": lambda server: _google_api(server).languages().list(target="en").execute()["languages"]},
    ),
    Client(
        "openai",
        {"chat": _openai_chat, "chat, streamed": _openai_stream},
        {
            "models": lambda server: [one.id for one in _openai(server).models.list()],
            "embeddings": _openai_vectors,
        },
    ),
    Client("huggingface_hub", {"chat": _huggingface_chat}, {}),
    Client("mlflow", {"invoke": _mlflow}, {}),
)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps the clients' own warnings and log lines back during the block."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def ask_python_clients(server: Server, wanted: Sequence[str] = ()) -> Iterator[Outcome]:
    """Yields what each client of the table, or of `wanted`, got from the server."""
    for client in CLIENTS:
        if wanted and client.name not in wanted:
            continue
        try:
            version = metadata.version(client.name)
        except metadata.PackageNotFoundError:
            yield Outcome(client.name, "", "", "not installed", f"pip install {client.name}")
            continue
        translations = {**client.translations, **(client.documents if server.documents else {})}
        for asked, question in {**translations, **client.others}.items():
            expected = server.expected if asked in translations else None
            try:
                with quiet():
                    answer = question(server)
            except Exception as problem:  # whatever a client raises, the others are asked
                yield Outcome(client.name, version, asked, "failed", explain(problem))
            else:
                yield judge(client.name, version, asked, answer, expected)
