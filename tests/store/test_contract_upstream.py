"""The contract run over LangGraph's own `InMemoryStore`: what it does not keep is listed, and why; nothing else fails.

So a test that is wrong about LangGraph shows itself, and a change of LangGraph's shows too: a listed test that passes
is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from langgraph.store.memory import InMemoryStore

from langgraph_forgetful_store.testing import StoreContract

pytestmark = pytest.mark.exhaustive

ORDER = "contract 21, ours: it lists in the order of first writes"
EXPECTED = {
    # Batches
    "test_one_bad_op_and_nothing_of_the_batch_is_written": "contract 7, ours: it checks little of an op",
    "test_an_embedder_that_answers_nonsense_writes_nothing": "contract 7, ours: it does not look at vectors",
    "test_wrong_dimensions_are_named_with_both_numbers": "contract 7, ours: it does not look at vectors",
    # Items
    "test_a_re_put_keeps_created_at_and_moves_updated_at": "contract 9, ours: a re-put sets created_at anew",
    "test_values_are_copied_in": "contract 11: it keeps what is inside of the value that was passed",
    "test_values_are_copied_out": "contract 11: it returns the very item that it keeps",
    "test_a_tuple_comes_back_a_list": "contract 13: it keeps Python objects, not JSON",
    "test_any_mapping_is_accepted_inside_a_value": "contract 13: it keeps Python objects, not JSON",
    "test_what_is_not_json_is_refused": "contract 13, ours: it keeps any Python object",
    "test_numbers_that_json_lacks_are_refused": "contract 13, ours: it keeps any Python object",
    "test_a_value_that_holds_itself_is_refused": "contract 13, ours: it keeps any Python object",
    "test_a_value_that_is_no_mapping_is_refused": "contract 13, ours: it passes anything to dict()",
    # Namespaces
    "test_what_is_no_label_is_refused_in_raw_ops": "contract 14: only its methods check labels, not batch",
    "test_a_list_as_a_prefix_is_coerced_to_a_tuple": "contract 16: no tuple equals a list",
    "test_impossible_numbers_are_refused": "contract 19, ours: negative numbers count from the end",
    "test_a_namespace_is_listed_while_it_holds_an_item": "contract 20: it lists a namespace after its last delete",
    "test_reads_and_deletes_never_create_a_namespace": "contract 20: a get creates one",
    # Search
    "test_the_latest_write_comes_first": ORDER,
    "test_a_re_put_comes_first": ORDER,
    "test_writes_of_one_batch_are_in_the_order_they_were_made": ORDER,
    "test_the_order_is_one_over_all_namespaces": ORDER,
    "test_a_filter_does_not_change_the_order": ORDER,
    "test_of_equally_similar_items_the_latest_write_comes_first": ORDER,
    "test_thousands_of_items_are_paged_exactly": ORDER + "; 31: it takes no text twice",
    "test_the_whole_value_may_be_named_beside_other_paths": "contract 28: in a put's list '$' is a field's name to it",
    "test_a_re_put_drops_every_old_vector": "contract 29, ours: vectors of paths that are not written again stay",
    "test_items_without_a_vector_are_paged_after_the_others_latest_first": "contract 30: every page repeats them",
    "test_a_batch_is_embedded_in_one_call_of_distinct_texts": "contract 31: a text in two items raises",
    "test_one_text_in_several_items_and_fields_makes_a_vector_for_each": "contract 31: a text in two items raises",
    # Filters
    "test_membership": "contract 24, ours: it has no $in, $nin and $contains",
    "test_logic_under_a_field": "contract 24, ours: it has no $and, $or and $not",
    "test_logic_at_the_top": "contract 24, ours: it has no $and, $or and $not",
    "test_an_unknown_operator_is_refused_wherever_it_stands": "contract 24: it reads an operator when it compares",
    "test_an_operand_of_the_wrong_kind_is_refused": "contract 24, ours: it has none of these operators",
    "test_true_is_not_one": "contract 25, ours: in Python it is",
    "test_dicts_in_a_list_compare_exactly": "contract 25: it matches them deeply",
    "test_a_missing_field_is_no_null": "contract 26, ours: to it a missing field is None",
    "test_ranges_compare_like_with_like": "contract 26: it makes a float of everything",
    "test_a_missing_field_never_raises": "contract 26: it makes a float of everything",
}


class TestInMemoryStore(StoreContract):
    supports_clock = False
    expected_failures: ClassVar[dict[str, str]] = EXPECTED

    @pytest.fixture
    def make_store(self) -> Callable[..., Any]:
        return InMemoryStore
