from tierscope.benchmark.node_storage import why_no_room


def test_parts_of_nodes_that_share_a_file_system_are_summed():
    shared = [(("a", 1), 60, 100), (("a", 1), 60, 100)]
    assert why_no_room(shared) == (
        "needs 120 bytes for the files of 2 nodes on a, but only 100 are free."
    )
    assert why_no_room([(("a", 1), 60, 100), (("b", 1), 60, 100)]) is None


def test_node_without_room_is_named():
    assert why_no_room([(("a", 1), 60, 100), (("b", 1), 60, 50)]) == (
        "needs 60 bytes for the files of a node on b, but only 50 are free."
    )
