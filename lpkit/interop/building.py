"""A network put together node by node while a model is read, and what of its work no layer stands for."""

import math
import re
import warnings
from dataclasses import dataclass, field, replace

from lpkit.checks import short, shown
from lpkit.graph import INPUT
from lpkit.interop.lowering import Sample, unique_name
from lpkit.networks import Carried, Network, Node, output_shape

__all__ = ["Builder", "missing_work", "module_of", "report_missing", "title_of"]

MOST_LISTED = 8


@dataclass
class Builder:
    """Nodes so far, their shapes, and what is known of the tensors of the model by their keys."""

    sample: Sample
    nodes: list = field(default_factory=list)
    shapes: dict = field(default_factory=dict)  # of the nodes of the network
    node_of: dict = field(default_factory=dict)  # tensor -> node of the network
    fixed: dict = field(default_factory=dict)  # tensor that is a weight, or made of weights alone -> the weight
    counted: set = field(default_factory=set)  # weights already counted as parameters
    tables: dict = field(default_factory=dict)  # of these, weights that no layer has counted -> (place of node, size)
    taken: dict = field(default_factory=dict)  # names of nodes

    def append(self, wanted, op, inputs, shape):
        """Add a node; returns the name it has got."""
        name = unique_name(wanted, self.taken)
        self.nodes.append(Node(name, op, tuple(inputs)))
        self.shapes[name] = shape
        return name

    def begin(self, inputs):
        """The inputs [(name, key, sizes)]: the first is the network's own, the others hang on it."""
        for number, (name, key, sizes) in enumerate(inputs):
            shape = self.sample.shape(sizes)
            self.node_of[key] = self.append(name, Carried("Input", shape), (INPUT,), shape) if number else INPUT
            self.shapes.setdefault(INPUT, shape)

    def layer(self, wanted, op, keys, sizes, weights):
        """Add a matrix product that reads the tensors `keys` and makes one of `sizes`, with `weights` (names).

        Raises
        ------
        ValueError
            If the operation makes another number of elements.
        """
        inputs = [self.node_of[key] for key in keys]
        if len(inputs) == 1 and getattr(op, "weights", True) is False:
            inputs *= 2  # a tensor times itself
        for weight in weights:
            self._take_over(weight)
        stated, shape = self.sample.shape(sizes), output_shape(op, *(self.shapes[name] for name in inputs))
        if math.prod(stated) != math.prod(shape):
            raise ValueError(f"it makes {shown(shape)}, but the model states {shown(stated)}")
        module = next((module for module in map(module_of, weights) if module), None)
        return self.append(module or wanted, op, inputs, shape)

    def learned(self, weight, size):
        """How many numbers of a weight the next node adds to the parameters: `size`, but none of one counted before."""
        if weight in self.counted:
            return 0
        self.counted.add(weight)
        self.tables[weight] = (len(self.nodes), size)
        return size

    def _take_over(self, weight):
        """Count a weight with the layer to come, and no longer with an operation that shares it, such as a look-up."""
        self.counted.add(weight)
        place, size = self.tables.pop(weight, (None, 0))
        if size and isinstance(op := self.nodes[place].op, Carried):
            self.nodes[place] = replace(self.nodes[place], op=replace(op, parameters=op.parameters - size))

    def attention(self, wanted, ops, inputs):
        """Add scores = query x key, their softmax (which reads any further inputs), and its product with value."""
        (scores, mix), (query, key, value, *others) = ops, inputs
        made = self.append(f"{wanted}.scores", scores, (query, key), scores.shape)
        made = self.append(f"{wanted}.softmax", Carried("Softmax", scores.shape), (made, *others), scores.shape)
        return self.append(wanted, mix, (made, value), mix.shape)

    def network(self, name):
        """The finished network.

        Raises
        ------
        ValueError
            If nothing was added.
        """
        if not self.nodes:
            raise ValueError(f"nothing in model {shown(name)} depends on its input; there is no network in it")
        return Network(name, self.shapes[INPUT], tuple(self.nodes))


def title_of(text):
    """A name for a network: printable, without commas.

    Examples
    --------
    >>> title_of("my, model\\n"), title_of("")
    ('my model', 'model')
    """
    return " ".join("".join(s if s.isprintable() and s != "," else " " for s in str(text)).split()) or "model"


def module_of(weight):
    """The module a weight belongs to, by the custom of its name (torch, Keras, Caffe2); empty if it does not say.

    Examples
    --------
    >>> module_of("layer1.0.conv1.weight"), module_of("attention.in_proj_weight"), module_of("fire2/squeeze1x1_w_0")
    ('layer1.0.conv1', 'attention.in_proj', 'fire2/squeeze1x1')
    >>> module_of("weights"), module_of("onnx::Conv_193")
    ('', '')
    """
    found = re.fullmatch(r"(.+?)(?:\.weight|\.kernel|_weight|[._]w_\d+)", weight, re.DOTALL)
    return found[1] if found else ""


def missing_work(network):
    """The nodes of a network that multiply, but are no layers: (name, kind, share of all multiply-accumulates).

    Returns
    -------
    tuple of (str, str, float or None)
        A share is None where nobody knows the work; it is left out of the whole.

    Examples
    --------
    >>> from lpkit.networks import Carried, Dense, Network, Node
    >>> lstm = Node("lstm", Carried("LSTM", (8, 1, 1), missing_macs=300), "input")
    >>> missing_work(Network("n", (10, 1, 1), (lstm, Node("fc", Dense(10), "input"))))
    (('lstm', 'LSTM', 0.75),)
    """
    carried = [node for node in network.nodes if isinstance(node.op, Carried) and node.op.missing_macs != 0]
    known = sum(node.op.missing_macs or 0 for node in carried)
    whole = sum(layer.macs() for layer in network.layers) + known
    return tuple((node.name, node.op.kind, None if node.op.missing_macs is None else node.op.missing_macs / whole)
                 for node in carried)


def report_missing(network, strict):
    """Warn of `missing_work`, or refuse it.

    Raises
    ------
    ValueError
        If `strict` and there is any.
    """
    missing = missing_work(network)
    if not missing:
        return
    works = ("unknown work" if share is None else f"{100 * share:.3g} % of the MACs" for _, _, share in missing)
    shares = (f"{shown(name)} ({short(kind)}, {work})" for (name, kind, _), work in zip(missing[:MOST_LISTED], works))
    more = f" and {len(missing) - MOST_LISTED} more" if len(missing) > MOST_LISTED else ""
    text = f"model {shown(network.name)} has operators whose work is not counted: {', '.join(shares)}{more}"
    if strict:
        raise ValueError(f"{text}; leave strict out to plan without them")
    warnings.warn(text, stacklevel=3)
