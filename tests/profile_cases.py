"""A small branched profile that the tests of PipeDream's format share."""

from lpkit.interop.pipedream import Graph, Operation


def small(*operations):
    return Graph("small", tuple(operations), "made up")


BRANCH = small(
    Operation("n1", "Input", 5, 0, 7, 0),
    Operation("n2", "Conv2d(1)", 1, 4, 10, 100, ("n1",)),
    Operation("n3", "ReLU", 1, 1, 10, 0, ("n2",)),
    Operation("n4", "Conv2d(2)", 2, 6, 20, 200, ("n3",)),
    Operation("n5", "BatchNorm2d", 1, 1, 20, 8, ("n4",)),
    Operation("n6", "Add", 0, 0, 30, 0, ("n5", "n3")),
    Operation("n7", "Linear", 3, 2, 40, 300, ("n6",)),
)
