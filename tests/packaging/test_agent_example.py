"""The agent example, run as a reader runs it."""

from pathlib import Path

from tests.packaging.test_examples import run_example

OUTPUT = """\
Monday
  user         Hi! I live in Shanghai. I'm allergic to peanuts.
  agent        OK.
  - remember   I live in Shanghai.                      new: nothing known is about it
  - remember   I'm allergic to peanuts.                 new: nothing known is about it
  user         I need to book the train to Beijing.
  agent        OK.
  - remember   I need to book the train to Beijing.     new: nothing known is about it
  user         Where do I live?
  agent        You told me: I live in Shanghai.
Thursday
  user         Actually, I moved to Hangzhou.
  - supersede  I live in Hangzhou.                      called by the model, in the middle of its loop
  agent        I have put that right: I live in Hangzhou.
  - merge      Actually, I moved to Hangzhou.           duplicate: slot user/home_city says so already
  user         My card number is 4111 1111 1111 1111.
  agent        OK.
  - refuse     My card number is [card].                sensitive: card
  user         I think I might like jazz.
  agent        OK.
  - remember   I think I might like jazz.               new: nothing known is about it; kept as a guess
  user         Booking the train to Beijing is done.
  agent        OK.
  - archive    I need to book the train to Beijing.     done: it is about that
A week later
  user         Where do I live?
  agent        You told me: I live in Hangzhou.
  user         What do I need to book?
  agent        I know nothing about that.
  user         What am I allergic to?
  agent        You told me: I'm allergic to peanuts.
  user         Please forget my allergy.
  agent        OK.
  - forget     (erased)                                 asked: it is about that
  user         What am I allergic to?
  agent        I know nothing about that.
What is left
               I think I might like jazz.               hypothesis, active
               I live in Hangzhou.                      identity, active
               I need to book the train to Beijing.     task, archived
               I live in Shanghai.                      identity, superseded
"""


def test_the_agent_example_tells_its_decisions(tmp_path: Path) -> None:
    assert run_example("agent.py", tmp_path, warnings="error") == OUTPUT
    assert len(OUTPUT.splitlines()) < 45
