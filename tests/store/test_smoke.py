def test_a_put_value_can_be_got_searched_listed_and_deleted(make_store, face):
    store = face(make_store())
    store.put(("a", "b"), "k", {"x": 1})
    assert store.get(("a", "b"), "k").value == {"x": 1}
    assert [item.key for item in store.search(("a",))] == ["k"]
    assert store.list_namespaces() == [("a", "b")]
    store.delete(("a", "b"), "k")
    assert store.get(("a", "b"), "k") is None
    assert store.list_namespaces() == []
