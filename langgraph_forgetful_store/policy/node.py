"""The `MemoryPolicy` node."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import convert_to_messages
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.config import get_stream_writer
from langgraph.errors import GraphBubbleUp

from langgraph_forgetful_store.model.checks import check_kind, check_stage
from langgraph_forgetful_store.model.documented import twin_of
from langgraph_forgetful_store.model.labels import check_template
from langgraph_forgetful_store.policy.apply import carry_out, check_decisions, namespace_of
from langgraph_forgetful_store.policy.candidates import Candidate, Decision, decision_id, no_answers
from langgraph_forgetful_store.policy.codes import Action, Code
from langgraph_forgetful_store.policy.config import PolicySettings
from langgraph_forgetful_store.policy.deliberate import Setting, clean, deliberate, proposed
from langgraph_forgetful_store.policy.extraction import AnyExtractor, Extraction, exchange_of
from langgraph_forgetful_store.policy.judges import AnyJudge, RulesJudge
from langgraph_forgetful_store.policy.places import level_of, occasion_of, place_of
from langgraph_forgetful_store.policy.scope import Scope, check_store, find_store
from langgraph_forgetful_store.policy.screening import find_sensitive, warn_if_incomplete
from langgraph_forgetful_store.policy.state import consumed, pending, read_state
from langgraph_forgetful_store.policy.steps import Consult, Steps, arun, run
from langgraph_forgetful_store.policy.stores import LifecycleStore

Emit = Callable[[Decision], None]
EVENT = "memory_decision"
_KIND = re.compile(r"[A-Z]\w{0,60}(?:Error|Exception)\b")
_ANSWERED = "memory_answered_recall_id"
_QUEUES = ("memory_candidates", "memory_actions")
_READ = ("messages", *_QUEUES)


@dataclass(slots=True)
class _Taken:
    """What one invocation works on."""

    candidates: list[Any]
    actions: list[Any]
    from_state: tuple[list[Any], list[Any]]
    seen: str | None = None
    error: str | None = None


class MemoryPolicy(Runnable[Any, dict[str, Any]]):
    """Decides, mid-loop, what becomes a memory, what it replaces, and what is forgotten: a node for a graph.

    It reads ``memory_candidates`` and ``memory_actions`` from the state, and what its extractor finds in the new
    ``messages``; decides about each (see `Decision`); carries the decisions out in the graph's store; writes
    ``memory_decisions``; takes out of the state what it has dealt with; and streams one custom event a decision,
    ``{"memory_decision": decision}``. `MemoryPolicyState` has these keys.

    A decision is carried out once, also where a run is resumed, and made again where the memory it was made on has
    changed since. A model that fails loses nothing: what it was asked about stays in the state.

    Feedback is about ``memory_answered_recall_id``, what was recalled before the message that gives it, unless the
    action names a ``recall_id`` itself; and every decision tells by ``recall_id`` which recall came before it.

    Args:
        namespace: Where memories go; names between braces are filled in from the runtime's context, then from
            ``config["configurable"]``.
        extractor: Finds candidates and actions in messages: `RulesExtractor`, `LLMExtractor`, an object with
            ``extract`` or ``aextract``, or a function; ``None``: only what the state holds is looked at.
        judge: Says how something new relates to what is known: `RulesJudge` (the default), `LLMJudge`, an object with
            ``judge`` or ``ajudge``, or a function.
        settings: The stages and strategies, and what they go by.
        store: A `ForgetfulStore`, where the graph is compiled with none, or for use outside of a graph.

    Raises:
        ConfigurationError: An argument is unusable.
    """

    def __init__(
        self,
        namespace: Sequence[str] = ("memories", "{user_id}"),
        *,
        extractor: AnyExtractor | None = None,
        judge: AnyJudge | None = None,
        settings: PolicySettings | None = None,
        store: LifecycleStore | None = None,
    ) -> None:
        check_stage(extractor, "extractor", "extract", "LLMExtractor")
        check_stage(judge, "judge", "judge", "LLMJudge")
        check_kind(settings, "settings", PolicySettings, optional=True)
        check_store(store)
        self._namespace = check_template(namespace)
        self._extractor = extractor
        self._judge = RulesJudge() if judge is None else judge
        self._settings = PolicySettings() if settings is None else settings
        self._store = store
        if (
            self._settings.screen
            and self._settings.screener is find_sensitive
            and "screen" not in self._settings.replaced
        ):
            warn_if_incomplete()

    def __repr__(self) -> str:
        stages = [type(one).__name__ for one in (self._extractor, self._judge)]
        return (
            f"MemoryPolicy({self._namespace!r}, extractor={'None' if self._extractor is None else stages[0]},"
            f" judge={stages[1]}, settings={self._settings!r}, store={self._store!r})"
        )

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        """Decide, and carry out; returns the update of the state.

        Outside of a graph each call is a request of its own. In a graph a step that is resumed is the same one.

        Args:
            input: The state: a mapping, or an object with attributes.
            config: The run's config, which fills in the namespace; in a graph it is the graph's.
            **kwargs: What a `Runnable` may be given; none of it is used.

        Raises:
            ValueError: `input` is no state.
            ConfigurationError: There is no store, or the namespace can't be filled in.
            redis.exceptions.RedisError: The server is down or refuses.
        """
        scope = self._scope(config)
        return run(self._process(input, self._setting(input, scope), scope), scope.store)

    @twin_of(invoke)
    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        """The async twin of `invoke`."""
        scope = self._scope(config)
        return await arun(self._process(input, self._setting(input, scope), scope), scope.store)

    def decide(self, input: Any, config: RunnableConfig | None = None) -> list[Decision]:
        """Return the decisions that `invoke` would make about a state, and write nothing.

        Args:
            input: The state: a mapping, or an object with attributes.
            config: The run's config, which fills in the namespace; in a graph it is the graph's.
        """
        scope = self._scope(config)
        return run(self._decided(input, self._setting(input, scope)), scope.store)

    @twin_of(decide)
    async def adecide(self, input: Any, config: RunnableConfig | None = None) -> list[Decision]:
        """The async twin of `decide`."""
        scope = self._scope(config)
        return await arun(self._decided(input, self._setting(input, scope)), scope.store)

    def apply(self, decisions: Sequence[Decision], config: RunnableConfig | None = None) -> list[Decision]:
        """Carry out decisions that `decide` made.

        One that was made on a memory which has changed since is made again; so what is returned are the decisions that
        were carried out, which may be others than those given.

        Args:
            decisions: What `decide` returned; they tell which namespace they are about.
            config: Whose memories they may be about, where somebody else has had the decisions in the meantime: the
                namespace that is filled in from it is the only one. ``None``: they are trusted.

        Raises:
            ValueError: They are no decisions, or about another namespace; nothing is done then.
        """
        store = find_store(self._store)
        return run(self._applied(self._checked(decisions, config), store), store)

    @twin_of(apply)
    async def aapply(self, decisions: Sequence[Decision], config: RunnableConfig | None = None) -> list[Decision]:
        """The async twin of `apply`."""
        store = find_store(self._store)
        return await arun(self._applied(self._checked(decisions, config), store), store)

    def _scope(self, config: RunnableConfig | None) -> Scope:
        return Scope.find(self._namespace, self._store, config)

    def _checked(self, decisions: Any, config: RunnableConfig | None) -> list[Decision]:
        return check_decisions(decisions, None if config is None else self._scope(config).namespace)

    def _setting(self, state: Any, scope: Scope) -> Setting:
        if not isinstance(state, Mapping) and not any(hasattr(state, name) for name in _READ):
            raise ValueError(f"input must be a state, with any of {', '.join(_READ)}, got {type(state).__name__}")
        recall, answered = read_state(state, "memory_recall_id"), read_state(state, _ANSWERED)
        # A state without a node that recalls may tell of a recall of the caller's own.
        has_answered = _ANSWERED in state if isinstance(state, Mapping) else hasattr(state, _ANSWERED)
        return Setting(
            scope.namespace,
            self._settings,
            self._judge,
            scope.store.memory_types,
            scope.store.reserved_key,
            occasion_of(scope),
            _text(recall),
            _text(answered if has_answered else recall),
        )

    def _take(self, state: Any) -> Steps[_Taken]:
        """Take what waits in the state, and what the extractor finds."""
        held = pending(read_state(state, "memory_candidates")), pending(read_state(state, "memory_actions"))
        taken = _Taken(list(held[0]), list(held[1]), held)
        try:
            messages = convert_to_messages(read_state(state, "messages") or [])
        except (TypeError, ValueError, NotImplementedError) as error:
            raise ValueError(f"messages of the state must be a list of messages: {type(error).__name__}") from error
        if self._extractor is None or not messages:
            return taken
        exchange = exchange_of(messages, read_state(state, "memory_seen"), read_state(state, "memory_summary"))
        if not exchange.latest:
            return taken
        try:
            found = yield Consult(self._extractor, "extract", (exchange,))
            if not isinstance(found, Extraction):
                raise TypeError(f"an extractor returns an Extraction, not {type(found).__name__}")
        except GraphBubbleUp:
            # It may ask the user, and is asked again with the answer.
            raise
        except Exception as error:
            found = Extraction(error=type(error).__name__)
        taken.candidates += found.candidates
        taken.actions += found.actions
        taken.error = found.error
        # Where it failed, the same messages are looked at again the next time, and those that come until then.
        taken.seen = messages[-1].id if found.error is None else exchange.after
        return taken

    def _decided(self, state: Any, setting: Setting) -> Steps[list[Decision]]:
        taken = yield from self._take(state)
        pairs = yield from deliberate(setting, taken.candidates, taken.actions)
        return [*_once(clean(decision, self._settings) for _, decision in pairs), *_extraction_failed(taken, setting)]

    def _process(self, state: Any, setting: Setting, scope: Scope) -> Steps[dict[str, Any]]:
        emit, place = _emitter(), place_of(scope)
        taken = yield from self._take(state)
        pairs = yield from deliberate(setting, taken.candidates, taken.actions)
        done: dict[str, Decision] = {}
        for given, decision in pairs:
            if decision["id"] not in done:
                again = self._again(given, setting)
                done[decision["id"]] = yield from carry_out(decision, again, self._settings)
                emit(done[decision["id"]])
        results = list(done.values())
        for decision in _extraction_failed(taken, setting):
            results.append(decision)
            emit(decision)
        # What nothing could be decided about stays in the state.
        left = [given for given, one in pairs if done[one["id"]]["action"] == Action.ABSTAIN]
        update: dict[str, Any] = {"memory_decisions": results}
        looked_at = zip(_QUEUES, taken.from_state, (taken.candidates, taken.actions), strict=True)
        for name, held, both in looked_at:
            stays = [one for one in both if any(one is other for other in left)]
            # A model's candidate is no plain JSON yet.
            plain = [one.to_json() if isinstance(one, Candidate) else one for one in stays]
            if dealt := consumed(held, plain, level=level_of(place), by=place):
                update[name] = dealt
        if taken.seen is not None:
            update["memory_seen"] = taken.seen
        return update

    def _again(self, given: Any, setting: Setting) -> Callable[[Decision], Steps[Decision]]:
        """Return what makes a decision once more: it looks at the memory as it is by then."""

        def again(decision: Decision) -> Steps[Decision]:
            is_action = isinstance(given, Mapping) and "action" in given
            once_more = replace(setting, again=decision["id"])
            pairs = yield from deliberate(once_more, [] if is_action else [given], [given] if is_action else [])
            same = [one for _, one in pairs if one["key"] == decision["key"]] or [one for _, one in pairs]
            return _named(same[0], decision["id"])

        return again

    def _applied(self, decisions: Sequence[Decision], store: Any) -> Steps[list[Decision]]:
        emit, results = _emitter(), []
        for decision in decisions:
            setting = Setting(
                namespace_of(decision),
                self._settings,
                self._judge,
                store.memory_types,
                store.reserved_key,
                recall_id=_text(decision["candidate"].get("recall_id")),
            )
            again = self._again(proposed(decision), setting)
            results.append((yield from carry_out(decision, again, self._settings)))
            emit(results[-1])
        return results


def _named(decision: Decision, name: str) -> Decision:
    """Return a decision under the name of the one that it replaces, so that it is done once."""
    key = name if decision["key"] == decision["id"] else decision["key"]
    return {**decision, "id": name, "key": key}


def _once(decisions: Any) -> list[Decision]:
    return list({decision["id"]: decision for decision in decisions}.values())


def _extraction_failed(taken: _Taken, setting: Setting) -> list[Decision]:
    if taken.error is None:
        return []
    # Only what kind of error it was: parsers repeat what they were given.
    found = _KIND.match(taken.error)
    kind = found[0] if found else "error"
    return [
        Decision(
            id=decision_id({"extraction": kind}, setting.namespace, setting.occasion),
            candidate={"namespace": list(setting.namespace)},
            relation=None,
            action=str(Action.ABSTAIN),
            key=None,
            supersedes=None,
            reason=Code.EXTRACTION_FAILED.because(f"{kind}; the messages are looked at again the next time"),
            scores={},
            answers=no_answers(),
        )
    ]


def _text(given: Any) -> str | None:
    return given if isinstance(given, str) else None


def _emitter() -> Emit:
    try:
        write = get_stream_writer()
    except (RuntimeError, KeyError):
        return lambda decision: None
    return lambda decision: write({EVENT: decision})
