"""What is asked for by its name is found first, among a thousand other memories, with and without an embedder."""

from __future__ import annotations

import random
from typing import Any

import pytest
from langgraph.store.base import PutOp

from langgraph_forgetful_store.testing import WordEmbeddings

ROWS = 1000
_GIVEN = ["Noor", "Tomas", "Ingrid", "Yusuf", "Amara", "Oisin", "Beatriz", "Kenji", "Lucia", "Pavel"]
_FAMILY = ["O'Brien", "van Dijk", "Müller", "García", "Łukasz", "Okafor", "Åkesson", "Nguyễn", "Rossi", "Haddad"]
_CHINESE = ["王小明", "李雪", "张伟强", "欧阳娜", "陈晓东"]
_SAID = [
    "{name} called about the roof and will ring again on Monday",
    "We agreed with {name} to move the meeting to the small room upstairs",
    "The order {order} was sent to {name} and has not arrived yet",
    "{name} can be reached at {mail} in the evenings",
    "The script that {name} wrote lies in {path} on the build machine",
    "Ticket {ticket} is waiting for an answer from {name}",
    "{name} likes black tea, long walks and the sea in winter",
    "{chinese}说他下周要去北京开会，回来以后再打电话",
    "{chinese}养了一只狗，住在上海的老房子里",
]


def rows(seed: int) -> list[str]:
    """Make memories as they are: many share their words, no two their numbers."""
    dice = random.Random(seed)
    made = []
    for at in range(ROWS):
        name = f"{dice.choice(_GIVEN)} {dice.choice(_FAMILY)}"
        plain = name.lower().replace(" ", ".").replace("'", "")
        fields = {
            "name": name,
            "chinese": dice.choice(_CHINESE),
            "order": f"ORD-{seed}{at:04d}-{dice.randrange(100):02d}",
            "ticket": f"#{seed}{at:05d}",
            "mail": f"{plain.encode('ascii', 'ignore').decode()}{at}@example.com",
            "path": f"/srv/jobs/{seed}/step_{at}/run.sh",
        }
        made.append(dice.choice(_SAID).format(**fields))
    return made


# Each with the one memory that it is about, among a thousand others.
ASKED = {
    "Zdenka Horáková": "Zdenka Horáková repairs old clocks in the yard behind the church",
    "who is zdenka horakova?": "Zdenka Horáková repairs old clocks in the yard behind the church",
    "O'Sullivan’s parcel": "The parcel for Mrs O’Sullivan was left with her neighbour",
    "osullivan": "The parcel for Mrs O’Sullivan was left with her neighbour",
    "where is INV-20231107-X9?": "Invoice INV-20231107-X9 was paid in two parts",
    "inv-20231107-x9": "Invoice INV-20231107-X9 was paid in two parts",
    "k.ellingsen+home@fjord.example": "Write to k.ellingsen+home@fjord.example about the boat",
    "is there a mail address at fjord.example": "Write to k.ellingsen+home@fjord.example about the boat",
    "/etc/nginx/sites-enabled/shop.conf": "The certificate is named in /etc/nginx/sites-enabled/shop.conf",
    "shop.conf": "The certificate is named in /etc/nginx/sites-enabled/shop.conf",
    "what did we say of pull request 88417": "Pull request 88417 breaks the import of old orders",
    "88417": "Pull request 88417 breaks the import of old orders",
    "192.168.77.12": "The printer answers at 192.168.77.12 only",
    "quinoa": "Dinner on Friday: quinoa with beetroot",
    "a recipe with beetroots": "Dinner on Friday: quinoa with beetroot",
    "赵明月": "赵明月是我的大学同学",
    "赵明月是谁": "赵明月是我的大学同学",
    "猫": "家里新来的猫很怕生",
    "我家的猫": "家里新来的猫很怕生",
    "书": "那本书放在二楼",
    "二楼": "那本书放在二楼",
    "タカハシさん": "タカハシさんは水曜日に来ます",
    "Сергей Королёв": "Сергей Королёв приедет в четверг",
    "королев": "Сергей Королёв приедет в четверг",
}


@pytest.mark.parametrize("embeds", [False, True])
def test_names_numbers_addresses_and_short_words_are_found_first(make_any_store, embeds):
    index: Any = {"dims": 64, "embed": WordEmbeddings(64), "fields": ["content"]} if embeds else None
    store = make_any_store(index=index, track_access=False)
    wanted = sorted(set(ASKED.values()))
    for seed in range(3):
        namespace = ("people", f"{seed}")
        texts = rows(seed) + wanted
        random.Random(seed).shuffle(texts)
        store.batch([PutOp(namespace, f"{at}", {"content": text}) for at, text in enumerate(texts)])
        missed = {
            query: [item.value["content"] for item in found]
            for query, text in ASKED.items()
            if (found := store.search(namespace, query=query, limit=2))[0].value["content"] != text
        }
        assert missed == {}


@pytest.mark.parametrize("embeds", [False, True])
def test_each_number_and_address_of_a_thousand_finds_its_own(make_any_store, embeds):
    index: Any = {"dims": 64, "embed": WordEmbeddings(64), "fields": ["content"]} if embeds else None
    store = make_any_store(index=index, track_access=False)
    texts = rows(7)
    store.batch([PutOp(("people",), f"{at}", {"content": text}) for at, text in enumerate(texts)])
    marked = [
        (at, word.strip(",."))
        for at, text in enumerate(texts)
        for word in text.split()
        if word.startswith(("ORD-", "#", "/srv")) or "@" in word
    ]
    assert len(marked) > 300
    for at, word in random.Random(1).sample(marked, 60):
        assert store.search(("people",), query=f"what about {word}?", limit=1)[0].key == f"{at}"
