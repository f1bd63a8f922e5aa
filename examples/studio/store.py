"""The store that `langgraph.json` names: on the server at REDIS_URL, else on an embedded one that keeps its data."""

import os
from pathlib import Path
from typing import Any

import wordllama

from langgraph_forgetful_store import ForgetfulStore

DATA = Path(__file__).parent / ".langgraph_api" / "memories"

model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)


def wordllama_l2_supercat_256(texts: list[str]) -> list[list[float]]:
    # The store remembers the name of this function, to tell these vectors from those of another embedder.
    return [list(map(float, vector)) for vector in model.embed(texts, norm=True)]


settings: dict[str, Any] = {
    "index": {"dims": 256, "embed": wordllama_l2_supercat_256, "fields": ["text"]},
    "ttl": {"refresh_on_read": False},
}
url = os.environ.get("REDIS_URL")
store = ForgetfulStore.from_conn_string(url, **settings) if url else ForgetfulStore.embedded(DATA, **settings)
