"""What decisions are told by: actions, and why one was taken. Decisions hold the values, as plain JSON."""

from __future__ import annotations

from enum import StrEnum


class Action(StrEnum):
    """What is done about a candidate, or with a memory."""

    REMEMBER = "remember"
    SUPERSEDE = "supersede"
    MERGE = "merge"
    RETIRE = "retire"
    ARCHIVE = "archive"
    RESTORE = "restore"
    FORGET = "forget"
    PIN = "pin"
    UNPIN = "unpin"
    CONFIRM = "confirm"
    DENY = "deny"
    END_RUN = "end_run"
    FEEDBACK = "feedback"
    REFUSE = "refuse"
    ASK = "ask"
    ABSTAIN = "abstain"


class Code(StrEnum):
    """Why: the first word of a decision's reason, by which it is audited.

    A stage or a request may have codes of its own.
    """

    ASKED = "asked"
    CHANGED = "changed"
    CONFIRMED = "confirmed"
    CONFLICT = "conflict"
    CONTRADICTED = "contradicted"
    DONE = "done"
    DUPLICATE = "duplicate"
    ENRICHED = "enriched"
    EXTRACTION_FAILED = "extraction_failed"
    INVALID = "invalid"
    LOW_CONFIDENCE = "low_confidence"
    NEGATED = "negated"
    NEW = "new"
    NO_RECALL = "no_recall"
    NOT_ADMITTED = "not_admitted"
    NOT_FOUND = "not_found"
    NOT_POSSIBLE = "not_possible"
    NOT_USEFUL = "not_useful"
    NOTHING_DENIED = "nothing_denied"
    OLD_WINS = "old_wins"
    SENSITIVE = "sensitive"
    STAGE_FAILED = "stage_failed"
    SUPPLEMENT = "supplement"
    UNCLEAR = "unclear"
    UNSUPPORTED = "unsupported"
    UPDATED = "updated"

    def because(self, text: str) -> str:
        """Return a decision's reason.

        Args:
            text: Why, for people.
        """
        return f"{self.value}: {text}"


def code_of(reason: str) -> str:
    """Return the code of a decision's reason: one of `Code`, or a stage's or request's own."""
    return reason.partition(":")[0]
