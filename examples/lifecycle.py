"""What becomes of memories: superseded, late, bound to a run, archived, merged, forgotten. Nothing is lost by accident.

There is nothing to start and no key to set: the server is embedded, the embedder is a small local one, and the clock
is moved by hand, so that ninety days pass at once.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import wordllama

from langgraph_forgetful_store import ForgetfulStore, MemoryItem

START = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """Stands in for the server's time."""

    day = 0.0

    def __call__(self) -> float:
        return self.moment(self.day).timestamp() * 1000

    @staticmethod
    def moment(day: float) -> datetime:
        return START + timedelta(days=day)


def embed(texts: list[str]) -> list[list[float]]:
    return [list(map(float, vector)) for vector in MODEL.embed(texts)]


MODEL = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
clock = Clock()


def texts(items: list[Any]) -> str:
    return " · ".join(item.value["content"] for item in items) or "(nothing)"


def day(moment: datetime | None) -> str:
    return "…" if moment is None else f"day {(moment - START).days}"


def show(item: MemoryItem) -> None:
    memory = item.memory
    interval = f"{day(memory.valid_from)} – {day(memory.valid_until)}"
    print(f"  {item.value['content']:<34} {memory.status.value:<11} {interval}")


def frameworks(store: ForgetfulStore) -> None:
    print("\n1. React, then learning Vue, then all Vue")
    alice = ("memories", "alice")
    clock.day = 1
    react = store.remember(alice, "I build everything with React", subject="user", attribute="framework")
    clock.day = 30
    learning = store.remember(alice, "I am learning Vue", memory_type="episodic")
    clock.day = 90
    store.remember(alice, "I have moved all my work to Vue", subject="user", attribute="framework")
    store.retire(alice, learning.key, reason="resolved")
    print("  now:         ", texts(store.recall(alice, "Which framework does she use?")))
    for then in (1, 40):
        found = store.recall(alice, "Which framework does she use?", as_of=clock.moment(then))
        print(f"  as of day {then:<3}:", texts(found))
    print("  history:")
    for item in store.history(alice, react.key):
        show(item)


def late_fact(store: ForgetfulStore) -> None:
    print("\n2. A fact that is learned late finds its place")
    team = ("memories", "team")
    clock.day = 91
    store.remember(team, "The service runs on MySQL", subject="service", attribute="database")
    clock.day = 100
    store.remember(team, "The service runs on Postgres", subject="service", attribute="database")
    clock.day = 101
    late = store.remember(
        team, "For a week it ran on SQLite", subject="service", attribute="database", valid_from=clock.moment(93)
    )
    for item in store.history(team, late.key):
        show(item)
    known = store.recall(team, as_of=clock.moment(95), known_at=clock.moment(100.5))
    print("  day 95, as known on day 100:", texts(known))
    print("  day 95, as known now:       ", texts(store.recall(team, as_of=clock.moment(95))))


def run(store: ForgetfulStore) -> None:
    print("\n3. What is bound to a run ends with it")
    alice = ("memories", "alice")
    store.remember(alice, "Step 2 of the migration is done", memory_type="task", run_id="run-7")
    print("  in the run:", texts(store.recall(alice, "migration", run_id="run-7", limit=1)))
    print("  outside:   ", texts(store.recall(alice, "migration", memory_types=["task"])))
    print("  ended:     ", store.end_run(("memories",), "run-7"), "memory")


def archive(store: ForgetfulStore) -> None:
    print("\n4. Archived by its own type, and back again")
    alice = ("memories", "alice")
    plan = store.remember(alice, "I intend to visit Lisbon in spring", memory_type="intent")
    clock.day += 8
    print("  after 8 days:", texts(store.recall(alice, "Lisbon", memory_types=["intent"])))
    woken = store.recall(alice, "Is there a visit to Lisbon planned?", archived_above=0.4, memory_types=["intent"])
    print("  woken:       ", [(item.value["content"], item.memory.status.value) for item in woken])
    print("  confirmed:   ", store.confirm(alice, plan.key).memory.status.value)


def names(store: ForgetfulStore) -> None:
    print("\n5. Two names of one person, and a wrong merge undone")
    office = ("memories", "office")
    store.remember(office, "Bob sits on the second floor", subject="Bob", attribute="desk")
    clock.day += 1
    store.remember(office, "Robert sits on the fourth floor", subject="Robert", attribute="desk")
    store.alias(office, "Robert", "Bob")
    print("  one person:  ", texts(store.recall(office)))
    store.unalias(office, "Bob")
    print("  two after all:", texts(store.recall(office)))


def forget(store: ForgetfulStore) -> None:
    print("\n6. An address that leaves no byte behind")
    alice = ("memories", "alice")
    address = store.remember(alice, "I live at 14 Rue des Lilas", subject="user", attribute="address")
    store.supersede(alice, address.key, "I live at 27 Rue des Roses now")
    summary = store.remember(alice, "She moved within Paris, to 27 Rue des Roses now", memory_type="summary")
    store.link(alice, summary.key, "summarizes", address.key)
    receipt = store.forget(alice, address.key, byte_scan=True)
    print("  erased: ", receipt.erased)
    print("  residue:", receipt.residue or "none")
    print("  asked:  ", texts(store.recall(alice, "Where does she live?", min_similarity=0.3)))
    (record,) = [record for record in store.audit(alice) if record.action == "forget"]
    print("  audit:  ", record.action, record.reason, record.details)


def main() -> None:
    index: Any = {"dims": 256, "embed": embed, "fields": ["content"]}
    with ForgetfulStore.embedded(index=index, clock=clock) as store:
        for story in (frameworks, late_fact, run, archive, names, forget):
            story(store)


if __name__ == "__main__":
    main()
