"""Stores and a model of them, taken through the same steps, and compared after each."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from langgraph_forgetful_store import ForgetfulStore
from langgraph_forgetful_store.errors import ForgetfulStoreError
from langgraph_forgetful_store.testing import Clock, Face, WordEmbeddings, check_keys
from langgraph_forgetful_store.testing.internals import session_of
from tests.support.timeline_model import DATED, HOUR, NEVER, TYPES, Model, Row, Said, Unclear
from tests.support.timeline_steps import CLIENTS, Step

PLACES: tuple[tuple[str, ...], ...] = (("m", "u"), ("m", "v"))
DIMS = 4
# How far the time of a client may lie ahead of a clock that stepped back.
BOUND = 5 * 60_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_serial = itertools.count()


class Difference(AssertionError):
    """A store did not do what the model did."""


def when(ms: float) -> datetime:
    """Return a moment."""
    return _EPOCH + ms * _MS


def _ms(moment: datetime | None) -> float:
    return NEVER if moment is None else round((moment - _EPOCH) / _MS, 3)


class World:
    """Three clients of one store, and a model of each namespace.

    Args:
        server: Where the store lies.
        asynchronous: Which side of it is called.
        done: Counts the steps, and what became of them.
    """

    def __init__(self, server: Any, *, asynchronous: bool, done: Counter[str]) -> None:
        self.server, self.done = server, done
        self.clock = Clock()
        self.key_prefix = f"w{next(_serial)}"
        self.stores = [self._store(**more) for more in ({}, {"cache_bytes": 0}, {})]
        self.faces = [Face(store, asynchronous=asynchronous) for store in self.stores]
        self.seen = [0.0] * len(CLIENTS)
        self.models = {place: Model() for place in PLACES}
        self.made = itertools.count()
        self.is_steady = True
        self.has_ended = False
        # How many rows have expired of which the store may still have to remove some.
        self.removed = 0
        self._tell_the_time()

    def _store(self, **more: Any) -> ForgetfulStore:
        return ForgetfulStore.from_conn_string(
            self.server.url,
            key_prefix=self.key_prefix,
            clock=self.clock,
            index={"dims": DIMS, "embed": WordEmbeddings(DIMS)},
            **more,
        )

    def end(self) -> None:
        """Close the stores, and remove what they have written."""
        for face in self.faces:
            face.end()
        for store in self.stores:
            store.close()
        with self.server.client() as client:
            if keys := list(client.scan_iter(match=f"{self.key_prefix}:*", count=10_000)):
                client.delete(*keys)

    # Time.

    def _tell_the_time(self) -> None:
        """Have every client see it."""
        for client, face in enumerate(self.faces):
            self._time_of(client)
            face.get(PLACES[0], "nothing", refresh_ttl=False)

    def _time_of(self, client: int) -> float:
        """Return the time by which a client's next call goes: no earlier than what it has seen, within the bound."""
        now, seen = self.clock.now, self.seen[client]
        self.seen[client] = now if now > seen or seen > now + BOUND else seen
        return self.seen[client]

    def _models_at(self, client: int) -> float:
        now = self._time_of(client)
        for model in self.models.values():
            model.now = now
        return now

    # Steps.

    def take(self, step: Step) -> None:
        """Make a step in the store and in the model, and compare what they hold."""
        if self.has_ended:
            return
        if step["clock"] < 0:
            # What has expired may be removed by any write; if it is still there, it would live again. Both are right.
            self._models_at(0)
            self.faces[0].sweep_ttl()
            for model in self.models.values():
                model.sweep()
        unsure = [
            (place, row, name)
            for place, model in self.models.items()
            for row in model.rows.values()
            for name in (model.unnoted(row) if row.is_unsure else ())
        ]
        self.clock.advance(ms=step["clock"])
        self.is_steady = self.is_steady and step["clock"] >= 0
        if step["clock"]:
            self._tell_the_time()
        if step["clock"] < 0 and unsure:
            self._ask_for(unsure)
            if self.has_ended:
                return
        client = step["client"] % len(self.faces)
        if client == CLIENTS.index("cold"):
            session_of(self.stores[client]).cache.clear()
        now = self._models_at(client)
        place = PLACES[step["place"]]
        op = step["op"]
        try:
            for one in self.models.values():
                self.removed += sum(map(one.expired, one.rows.values()))
                one.sweep()
            store, expect = self._calls(step, place, client, now)
            wanted = _outcome(expect)
            if op != "wait":
                self.models[place].touched()
        except Unclear:
            self.done[f"{op}: unclear"] += 1
        else:
            got = _outcome(store)
            self.done[f"{op}: {_kind(wanted) or 'done'}"] += 1
            if _kind(got) != _kind(wanted):
                raise Difference(f"{op}: {got!r}, expected {wanted!r}")
            if isinstance(wanted, int | set):
                count = got if isinstance(got, int) else got.erased.get("memories", 0)
                residue = () if isinstance(got, int) else got.residue
                expected = wanted if isinstance(wanted, int) else len(wanted)
                # It also removes what has expired.
                if not expected <= count <= expected + self.removed or residue:
                    raise Difference(f"{op}: {count} with residue {residue}, expected {expected}")
            elif isinstance(wanted, Row) and op != "put":
                self._accept(op, self.models[place], got, wanted)
                self._compare_row(op, self.models[place], got, wanted)
        self._look(step["look"], place)

    def _accept(self, op: str, model: Model, item: Any, row: Row) -> None:
        """Take over what the rules leave open of a row that was written."""
        if op in ("remember", "supersede"):
            # It rises, by how much is not always said.
            row.version = max(row.version, item.memory.version)
        is_late = row in model.line_of(row)[:-1]
        if op in ("remember", "supersede") and row.corrects is None and (not row.begun or is_late):
            # Which version a late fact has, or a plan that corrects none.
            row.version = item.memory.version
        if model.names and row.slot is not None:
            # Which of two names that are one a successor is written with, and behind whose version.
            slot = (item.memory.subject, item.memory.attribute)
            if model.topic(row) == (model.canonical(slot[0]), slot[1]):
                row.slot = slot
            row.version = item.memory.version

    def _calls(
        self, step: Step, place: tuple[str, ...], client: int, now: float
    ) -> tuple[Callable[[], Any], Callable[[], Any]]:
        face, model = self.faces[client], self.models[place]
        op, key = step["op"], step.get("key", "")
        content = f"text {next(self.made)}"
        if op in ("remember", "supersede", "put"):
            start = None if step.get("start") is None else now + step["start"]
            # An end is so many ms after the start.
            end = None if step.get("end") is None else (now if start is None else start) + step["end"]
            ttl, kind, slot = step["ttl"], step.get("kind"), step.get("slot")
            if kind is not None and ttl is not None:
                raise Unclear
            said = Said(slot, start, end, step.get("run"), None if ttl is None else ttl * 60_000, kind)
            asked: dict[str, Any] = {"memory_type": kind, "run_id": said.run}
            asked |= {"subject": None, "attribute": None} if slot is None else dict(zip(_SLOT, slot, strict=True))
            asked |= {"valid_from": None if start is None else when(start)}
            asked |= {"valid_until": None if end is None else when(end)}
            asked = {name: value for name, value in asked.items() if value is not None}
            if ttl is not None:
                asked["ttl"] = ttl
        if op == "remember":
            return (
                lambda: face.remember(place, content, key=key, **asked),
                lambda: model.remember(key, content, said),
            )
        if op == "put":
            value: dict[str, Any] = {"content": content}
            if kind is not None:
                value["$memory"] = {"memory_type": kind}
            more = {} if ttl is None else {"ttl": ttl}
            return lambda: face.put(place, key, value, **more), lambda: model.put(key, content, said)
        if op == "supersede":
            version = self._version(step["version"], model, key)
            new_key, reason = step["new_key"], step["reason"]
            return (
                lambda: face.supersede(
                    place, key, content, new_key=new_key, reason=reason, expected_version=version, **asked
                ),
                lambda: model.supersede(key, content, new_key, said, version, reason),
            )
        if op == "retire":
            until = None if step["until"] is None else now + step["until"]
            return (
                lambda: face.retire(place, key, valid_until=None if until is None else when(until)),
                lambda: model.retire(key, until),
            )
        if op in ("archive", "restore", "confirm", "pin", "unpin", "demote", "deny", "anchor"):
            return lambda: getattr(face, op)(place, key), lambda: getattr(model, op)(key)
        if op == "set_ttl":
            return lambda: face.set_ttl(place, key, step["ttl"]), lambda: model.set_ttl(key, step["ttl"] * 60_000)
        if op in ("link", "unlink"):
            link = key, step["relation"], step["other"]
            return lambda: getattr(face, op)(place, *link), lambda: getattr(model, op)(*link)
        if op == "forget_all":
            if not step["really"]:
                raise Unclear
            return lambda: face.forget_all(place), model.forget_all
        if op == "undo":
            return lambda: face.undo_supersede(place, key), lambda: model.undo_supersede(key)
        if op == "delete":
            return lambda: face.delete(place, key), lambda: model.delete(key)
        if op == "forget":
            return lambda: face.forget(place, key), lambda: model.forget(key)
        if op == "alias":
            names = step["canonical"], step["name"]
            return lambda: face.alias(place, *names), lambda: model.alias(*names)
        if op == "unalias":
            return lambda: face.unalias(place, step["name"]), lambda: model.unalias(step["name"])
        if op == "end_run":
            if not step["everywhere"]:
                return lambda: face.end_run(place, step["run"]), lambda: model.end_run(step["run"])
            every = self.models.values()
            return (
                lambda: face.end_run((), step["run"]),
                lambda: sum(one.end_run(step["run"]) for one in every),
            )
        if op == "sweep":
            return face.sweep_ttl, lambda: None
        return lambda: None, lambda: None

    def _version(self, wanted: str | None, model: Model, key: str) -> int | None:
        row = model.rows.get(key)
        if wanted is None or row is None:
            return None
        begun = model.begun_of(model.line_of(row))
        replaced = row if model.is_planned(row) or row.layer == DATED or not begun else begun[-1]
        return replaced.version + (wanted == "wrong")

    # Reads.

    def _look(self, look: str, place: tuple[str, ...]) -> None:
        model = self.models[place]
        # What is read past the cache is read by one of them.
        both = [0, 1] if look not in ("history", "rows", "known_at") else [next(self.made) % 2]
        for client in both:
            face = self.faces[client]
            now = self._models_at(client)
            ask: dict[str, Any] = {"limit": 100, "refresh_ttl": False}
            if look == "run":
                for run in ("r1", "r2"):
                    self._compare(f"recall(run_id={run!r})", face.recall(place, run_id=run, **ask), model.current(run))
            elif look == "guesses":
                found = face.recall(place, memory_types=sorted(TYPES), **ask)
                self._compare("recall(memory_types=all)", found, model.current(guesses=True))
            elif look == "query":
                found = face.search(place, query="text", **ask)
                self._compare("search(query)", found, model.current(), is_ordered=False)
            elif look == "as_of":
                self._look_back(face, place, model, now, ask)
            elif look == "known_at":
                self._look_at_known(face, place, model, now, ask)
            elif look == "rows":
                self._look_at_rows(face, place, model)
            elif look == "history":
                self._look_at_history(face, place, model)
            else:
                self._compare("recall", face.recall(place, **ask), model.current())
        if look == "new client":
            self._look_anew()

    def _look_back(self, face: Any, place: tuple[str, ...], model: Model, now: float, ask: dict[str, Any]) -> None:
        moments = {time for row in model.rows.values() for time in model.interval(row) if time < NEVER}
        moments |= {moment - 1 for moment in moments} | {now, now + HOUR, now - HOUR}
        chosen = sorted(moments)
        # Some of them, and other ones each time.
        step = max(1, len(chosen) // 3)
        for moment in chosen[next(self.made) % step :: step]:
            for run in (None, "r1") if any(row.run == "r1" for row in model.rows.values()) else (None,):
                found = face.recall(place, as_of=when(moment), run_id=run, **ask)
                found = [item for item in found if not (item.key in model.rows and model.is_dim(model.rows[item.key]))]
                self._compare(f"recall(as_of=now{moment - now:+}, run_id={run!r})", found, model.as_of(moment, run))

    def _look_at_known(self, face: Any, place: tuple[str, ...], model: Model, now: float, ask: dict[str, Any]) -> None:
        times = sorted(
            {time for row in model.rows.values() for time in (row.recorded, *(at for at, _ in row.ends + row.states))}
        )
        step = max(1, len(times) // 3)
        for known in {time - before for time in times[next(self.made) % step :: step] for before in (0, 1)} | {now}:
            moment = (now, known)[next(self.made) % 2]
            more = {} if moment == now else {"as_of": when(moment)}
            found = face.recall(place, known_at=when(known), **more, **ask)
            # A row is known from when it was recorded on, whatever the clock has done.
            if late := [item.key for item in found if model.rows[item.key].recorded > known]:
                raise Difference(f"recall(known_at=now{known - now:+}): {late} were not recorded yet")
            wanted = model.known(known, moment) if self.is_steady else None
            if wanted is not None:
                self._compare(f"recall(known_at=now{known - now:+}, as_of=now{moment - now:+})", found, wanted)

    def _look_at_rows(self, face: Any, place: tuple[str, ...], model: Model) -> None:
        for key in "abcdefg":
            item, row = face.get(place, key, refresh_ttl=False), model.rows.get(key)
            if row is None or model.expired(row):
                if item is not None:
                    raise Difference(f"get({key!r}): {item!r}, expected nothing")
                continue
            self._compare_row("get", model, item, row)
            linked = sorted((relation, other.key) for relation, other in face.neighbors(place, key))
            if linked != model.neighbors(key):
                raise Difference(f"neighbors({key!r}): {linked}, expected {model.neighbors(key)}")
        if any(one.living() for one in self.models.values()):
            spaces = sorted(face.list_namespaces())
            wanted = sorted(space for space, one in self.models.items() if one.living())
            if spaces != wanted:
                raise Difference(f"list_namespaces: {spaces}, expected {wanted}")
        with self.server.client() as client:
            check_keys(client, self.key_prefix)

    def _look_at_history(self, face: Any, place: tuple[str, ...], model: Model) -> None:
        for key in list(model.rows):
            items = face.history(place, key)
            family = (
                [] if model.expired(model.rows[key]) else [row for row in model.family(key) if not model.expired(row)]
            )
            if sorted(item.key for item in items) != sorted(row.key for row in family):
                raise Difference(
                    f"history({key!r}): {[item.key for item in items]}, expected {[row.key for row in family]}"
                )
            starts = [item.memory.valid_from for item in items]
            if starts != sorted(starts):
                raise Difference(f"history({key!r}): not in the order of valid_from: {starts}")
            for item in items:
                self._compare_row(f"history({key!r})", model, item, model.rows[item.key])

    def _look_anew(self) -> None:
        """A client that has seen nothing yet goes by the clock alone."""
        for model in self.models.values():
            model.now = self.clock.now
        store = self._store()
        try:
            for place, model in self.models.items():
                found = store.recall(place, limit=100, refresh_ttl=False)
                self._compare("recall by a new client", found, model.current())
        finally:
            store.close()

    def _ask_for(self, unsure: list[tuple[tuple[str, ...], Row, str]]) -> None:
        """Ask what calls have noted of rows that they were not about, where a step of the clock lets it be seen."""
        unsure = unsure[:6]
        for place in {place for place, _, _ in unsure}:
            model = self.models[place]
            model.now = self.clock.now
            own = [(row, name) for where, row, name in unsure if where == place]
            shown, fitting = self._shown(place), []
            for choice in itertools.product((False, True), repeat=len(own)):
                _set(own, choice)
                if shown == self._expected(model):
                    fitting.append(choice)
            if not fitting:
                raise Difference(f"after a step back: {shown}, expected {self._expected(model)}")
            _set(own, fitting[0])
            if len(fitting) > 1:
                # It can't be seen yet, and what is right from here on depends on it.
                self.done["ended: unseen"] += 1
                self.has_ended = True

    def _shown(self, place: tuple[str, ...]) -> Any:
        store = self._store()
        try:
            keys = [item.key for item in store.recall(place, limit=100, refresh_ttl=False)]
            items: dict[str, Any] = {key: store.get(place, key, refresh_ttl=False) for key in self.models[place].rows}
        finally:
            store.close()
        return keys, {key: item and str(item.memory.status) for key, item in items.items()}

    def _expected(self, model: Model) -> Any:
        rows = {key: None if model.expired(row) else model.status(row) for key, row in model.rows.items()}
        return [row.key for row in model.current()], rows

    # Comparing.

    def _compare(self, what: str, found: list[Any], rows: list[Row], *, is_ordered: bool = True) -> None:
        got, wanted = [item.key for item in found], [row.key for row in rows]
        if not is_ordered:
            got, wanted = sorted(got), sorted(wanted)
        if got != wanted:
            raise Difference(f"{what}: {got}, expected {wanted}")
        for item, row in zip(sorted(found, key=_key), sorted(rows, key=_key), strict=True):
            if item.value != {"content": row.content}:
                raise Difference(f"{what}: {item.key} holds {item.value}, expected {row.content!r}")

    def _compare_row(self, what: str, model: Model, item: Any, row: Row) -> None:
        if item is None:
            raise Difference(f"{what}: nothing, expected {row.key}")
        memory = item.memory
        got: dict[str, Any] = {
            "key": item.key,
            "content": item.value["content"],
            "status": str(memory.status),
            "slot": None if memory.subject is None else (memory.subject, memory.attribute),
            "run": memory.run_id,
            "type": memory.memory_type,
            "version": memory.version,
            "from": _ms(memory.valid_from),
            "pinned": memory.pinned,
            "importance": round(memory.importance, 6),
            "confidence": round(memory.confidence, 6),
        }
        wanted: dict[str, Any] = {
            "key": row.key,
            "content": row.content,
            "status": model.status(row),
            "slot": row.slot,
            "run": row.run,
            "type": row.memory_type,
            "version": row.version,
            "from": row.start,
            "pinned": row.pinned,
            "importance": round(row.importance, 6),
            "confidence": round(row.confidence, 6),
        }
        if not row.withdrawn:
            got["until"], wanted["until"] = _ms(memory.valid_until), model.interval(row)[1]
        if got != wanted:
            differing = {name: (got[name], wanted[name]) for name in got if got[name] != wanted[name]}
            raise Difference(f"{what}: {row.key} has {differing} (found, expected) at {model.now}")


def _set(rows: list[tuple[Row, str]], values: Iterable[bool]) -> None:
    for (row, name), value in zip(rows, values, strict=True):
        setattr(row, name, value)


_SLOT = ("subject", "attribute")


def _key(one: Any) -> str:
    key: str = one.key
    return key


def _outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (ValueError, ForgetfulStoreError) as error:
        return error


def _kind(outcome: Any) -> str | None:
    if isinstance(outcome, ValueError | ForgetfulStoreError):
        # An error of the library that is also a ValueError is what it is first.
        return type(outcome).__name__
    return None


def code_of(steps: list[Step], why: str) -> str:
    """Return a script that makes the same steps, for people."""
    lines = [
        f'"""{why}"""',
        "",
        "from datetime import UTC, datetime",
        "",
        "from langgraph_forgetful_store import ForgetfulStore",
        "",
        "T = [1_700_000_000_000]",
        "# Client 1 has cache_bytes=0, client 2 a cache that is emptied before each call.",
        "warm = ForgetfulStore.embedded(clock=lambda: T[0])",
        "",
        "",
        "def at(offset):",
        "    return datetime.fromtimestamp((T[0] + offset) / 1000, UTC)",
        "",
        "",
    ]
    for number, step in enumerate(steps):
        if step["clock"]:
            lines.append(f"T[0] += {step['clock']}")
        lines.append(_call(step, number) + f"  # client {step['client']}, then look: {step['look']}")
    return "\n".join(lines) + "\n"


def _call(step: Step, number: int) -> str:
    op, place = step["op"], PLACES[step["place"]]
    said = []
    for name, told in (("start", "valid_from"), ("until", "valid_until")):
        if step.get(name) is not None:
            said.append(f"{told}=at({step[name]})")
    if step.get("end") is not None:
        said.append(f"valid_until=at({(step['start'] or 0) + step['end']})")
    if step.get("slot"):
        said.append(f"subject={step['slot'][0]!r}, attribute={step['slot'][1]!r}")
    for name, told in (("run", "run_id"), ("ttl", "ttl"), ("kind", "memory_type"), ("new_key", "new_key")):
        if step.get(name) is not None and op != "end_run":
            said.append(f"{told}={step[name]!r}")
    if step.get("version") is not None:
        said.append(f"expected_version=...  # the {step['version']} one")
    first = [repr(place)]
    if op == "remember":
        first += [f"'text {number}'", f"key={step['key']!r}"]
    elif op in ("put",):
        first += [repr(step["key"]), f"{{'content': 'text {number}'}}"]
    elif op == "supersede":
        first += [repr(step["key"]), f"'text {number}'"]
    elif "key" in step:
        first.append(repr(step["key"]))
    elif op == "alias":
        first += [repr(step["canonical"]), repr(step["name"])]
    elif op == "unalias":
        first.append(repr(step["name"]))
    elif op == "end_run":
        first = ["()" if step["everywhere"] else repr(place), repr(step["run"])]
    if op == "wait":
        return "pass"
    name = {"undo": "undo_supersede", "sweep": "sweep_ttl"}.get(op, op)
    return f"warm.{name}({', '.join(([] if op == 'sweep' else first) + said)})"
