"""The layers of a network as a graph: which come after which, who reads whose output, and what crosses a cut.

A `Costs` lists the layers in one order. A `LayerGraph` knows every other topological order as well and gives the costs
in it, with the bytes that cross each cut, skip tensors included, and the first reader of each output. It is made from
edges, from a network (`lpkit.network_graph`) or from a profile (`lpkit.interop.pipedream_layers`).
Source: LayerPipe (ICCAD 2021), section IV, for what a cut sends; the graph of layers of `lpkit.graph`.
"""

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import accumulate

import numpy as np

from lpkit.checks import shown, whole_number
from lpkit.costs import Costs

__all__ = ["LayerGraph", "Tensor", "members"]


@dataclass(frozen=True)
class Tensor:
    """A tensor that may cross cuts; sets of layers are whole numbers whose bit l - 1 stands for layer l.

    It is made with the last of the layers `made` (none: it is there from the start) and kept until the last of `read`.
    """

    made: int
    read: int
    bytes: Fraction


@dataclass(frozen=True, eq=False)
class LayerGraph:
    """Costs of L layers and the graph behind them; sets of layers are whole numbers whose bit l - 1 stands for layer l.

    Attributes
    ----------
    costs : Costs
        In one topological order, which numbers the layers 1..L.
    before : tuple of int, length L
        The layers that must come before each layer.
    readers : tuple of int, length L
        The layers that read each one's output, through joins and layers that are not costed: its error is the sum of
        what they send back.
    tensors : tuple of Tensor

    Examples
    --------
    >>> fork = LayerGraph.from_edges(Costs.from_times([1, 2, 3, 4], 0, 0, unit="cycles", output_bytes=10),
    ...                              [(1, 2), (1, 3), (2, 4), (3, 4)])
    >>> fork.costs.cut_bytes.tolist(), fork.costs.first_consumer.tolist()
    ([10, 20, 20], [2, 4, 4, 5])
    >>> fork.reordered([1, 3, 2, 4]).F.tolist()
    [1, 3, 2, 4]
    """

    costs: Costs
    before: tuple
    readers: tuple
    tensors: tuple = field(repr=False)

    def __len__(self):
        return len(self.costs)

    def __repr__(self):
        return f"LayerGraph of {self.costs!r}\n{sum(mask.bit_count() for mask in self.before)} edges"

    @classmethod
    def from_edges(cls, costs, edges):
        """The graph with an edge from each layer to each that reads its output.

        A layer reads all its inputs as they are (each crosses until its last reader); layers with the same inputs read
        the same tensor; those without an edge into them read the network's input. The first consumers, shared inputs
        and bytes of cuts that `costs` holds are replaced.

        Parameters
        ----------
        costs : Costs
            L layers in a topological order.
        edges : iterable of (int, int)
            Layers from 1 to L, the lower first.

        Raises
        ------
        ValueError
            If an edge names no layer, or leads to a layer that is not after its source.

        Examples
        --------
        >>> LayerGraph.from_edges(Costs.from_times([1, 2], 0, 0, unit="cycles"), [(2, 1)])
        Traceback (most recent call last):
        ...
        ValueError: edge 2 -> 1 leads back; list the layers so that each comes after all it reads (no cycle is allowed)
        """
        before, readers = [0] * len(costs), [0] * len(costs)
        if not np.iterable(edges):
            raise ValueError(f"edges is {shown(edges)}; it must be a sequence of pairs of layers, as in [(1, 2)]")
        for source, target in (_edge(given, len(costs)) for given in edges):
            before[target - 1] |= 1 << source - 1
            readers[source - 1] |= 1 << target - 1
        first = sum(1 << layer for layer, sources in enumerate(before) if not sources)
        tensors = [Tensor(0, first, Fraction(max(costs.input_bytes[layer].item() for layer in members(first))))]
        sizes = costs.output_bytes.tolist()
        tensors += [Tensor(1 << layer, read, Fraction(size)) for layer, (read, size) in enumerate(zip(readers, sizes))]
        told = replace(costs, shared_input=_shared(before, readers))
        graph = cls(told, tuple(before), tuple(readers), tuple(tensors))
        return replace(graph, costs=graph.reordered(range(1, len(costs) + 1)))

    def reordered(self, order):
        """The costs with the layers in another topological order.

        Parameters
        ----------
        order : sequence of int, length L
            Each layer of 1..L once, after all that come before it.

        Raises
        ------
        ValueError
            If it is no such order.
        """
        order = self._checked(order)
        chosen = [layer - 1 for layer in order]
        place = [0] * len(self)
        for position, layer in enumerate(chosen, 1):
            place[layer] = position
        first = [min((place[r] for r in members(self.readers[layer])), default=len(self) + 1) for layer in chosen]
        names = ("F", "G", "delta", "weight_bytes", "input_bytes", "output_bytes", "shared_input")
        return replace(self.costs, layers=tuple(self.costs.layers[layer] for layer in chosen), first_consumer=first,
                       cut_bytes=self._cut_bytes(place), **{name: getattr(self.costs, name)[chosen] for name in names})

    def crossing(self, downset):
        """Bytes that cross, in one direction, the cut after the layers of `downset`, which holds all before them."""
        return math.ceil(sum(t.bytes for t in self.tensors if not t.made & ~downset and t.read & ~downset))

    def _checked(self, order):
        if not np.iterable(order):
            raise ValueError(f"order is {shown(order)}; it must hold each layer from 1 to {len(self)} once")
        order, seen = [whole_number(layer, "layer of the order", most=len(self)) for layer in order], 0
        if sorted(order) != list(range(1, len(self) + 1)):
            raise ValueError(f"order is {shown(order)}; it must hold each layer from 1 to {len(self)} once")
        for layer in order:
            if missing := members(self.before[layer - 1] & ~seen):
                raise ValueError(f"order has layer {layer} before layer {missing[0] + 1}, which must come first")
            seen |= 1 << layer - 1
        return order

    def _cut_bytes(self, place):
        """Bytes across each cut where layer l (from 0) stands at `place[l]`."""
        change = [Fraction(0)] * (len(self) + 1)
        for tensor in self.tensors:
            made, last = (max((place[layer] for layer in members(mask)), default=0)
                          for mask in (tensor.made, tensor.read))
            if made < last:
                change[made] += tensor.bytes
                change[last] -= tensor.bytes
        return np.array([math.ceil(size) for size in accumulate(change)][1 : len(self)], np.int64)


def members(mask):
    """Numbers of the bits of a set, from 0, in order.

    Examples
    --------
    >>> members(0b1101)
    [0, 2, 3]
    """
    found = []
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return found


def _edge(edge, layers):
    """Source and target of an edge, checked."""
    if not (isinstance(edge, (tuple, list)) or (isinstance(edge, np.ndarray) and edge.ndim)) or len(edge) != 2:
        raise ValueError(f"edge is {shown(edge)}; it must be two layers from 1 to {layers}, as in (1, 2)")
    source, target = (whole_number(layer, "layer of an edge", most=layers) for layer in edge)
    if source >= target:
        raise ValueError(f"edge {source} -> {target} leads back; list the layers so that each comes after all it reads "
                         "(no cycle is allowed)")
    return source, target


def _shared(before, readers):
    """Whether the tensor each layer reads has another reader: its one input is read elsewhere, or all are the same."""
    same = Counter(before)
    return [same[sources] > 1 or (sources.bit_count() == 1 and readers[sources.bit_length() - 1].bit_count() > 1)
            for sources in before]
