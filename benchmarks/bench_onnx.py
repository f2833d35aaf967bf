"""How long a model file takes on its way to a plan, and what a large graph takes of memory.

Writes a ResNet-152 as ONNX (sizes of weights only), then times its reading, its costs, its plan for 16 processors and
the search of other orders of its layers, with the time that onnx itself needs apart; and the same of a synthetic graph
of 10,000 nodes, without a plan.

    python benchmarks/bench_onnx.py

Exit status 1 if a limit is missed.
"""

import resource
import sys
import tempfile
import time
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from lpkit.costs import costs
from lpkit.interop.onnx import read_onnx
from lpkit.network_graph import layer_graph
from lpkit.networks import Add, BatchNorm, Conv, Dense, Flatten, GlobalPool, Pool, network
from lpkit.partition import plan
from lpkit.plan_order import has_orders, order_found

WHOLE_LIMIT, OWN_LIMIT = 3.0, 0.5  # seconds from file to plan, and of these without onnx
LARGE_LIMIT, MEMORY_LIMIT = 20.0, 1024  # seconds and MB for 10,000 nodes


def as_onnx(net):
    """A built-in network as ONNX, with weights of which only the sizes are there."""
    nodes, weights = [], []
    for node in net.nodes:
        kind, sizes, options = written(node.op, net.shapes[node.inputs[0]])
        names = [f"{node.name}.{part}" for part, _ in sizes]
        weights += [TensorProto(name=n, data_type=TensorProto.FLOAT, dims=dims) for n, (_, dims) in zip(names, sizes)]
        nodes.append(helper.make_node(kind, [*node.inputs, *names], [node.name], name=node.name, **options))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)
              for name, sizes in (("input", ["batch", *net.input_shape]), (net.nodes[-1].name, None))]
    graph = helper.make_graph(nodes, net.name, values[:1], values[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def written(op, shape):
    """(operator, [(weight, sizes)], attributes) of an operation that reads a tensor of `shape`."""
    if isinstance(op, Conv):
        sizes = [("weight", (op.out_channels, shape[0] // op.groups, *op.kernel))]
        sizes += [("bias", (op.out_channels,))] * op.bias
        return "Conv", sizes, {"strides": op.stride, "pads": op.padding * 2, "group": op.groups}
    if isinstance(op, Dense):
        sizes = [("weight", (op.out_features, shape[0])), ("bias", (op.out_features,))]
        return "Gemm", sizes, {"transB": 1}
    if isinstance(op, BatchNorm):
        return "BatchNormalization", [(part, shape[:1]) for part in ("scale", "shift", "mean", "variance")], {}
    if isinstance(op, Pool):
        return "MaxPool", [], {"kernel_shape": op.kernel, "strides": op.stride, "pads": op.padding * 2}
    return {Add: "Add", Flatten: "Flatten", GlobalPool: "GlobalAveragePool"}.get(type(op), "Relu"), [], {}


def large(blocks=2000):
    """A graph of five nodes a block, with a skip around each."""
    nodes = []
    for i in range(blocks):
        before = f"t{i - 1}" if i else "x"
        nodes += [helper.make_node("Conv", [before, "w"], [f"c{i}"], pads=[1] * 4),
                  helper.make_node("Relu", [f"c{i}"], [f"r{i}"]), helper.make_node("Sigmoid", [f"r{i}"], [f"s{i}"]),
                  helper.make_node("Mul", [f"r{i}", f"s{i}"], [f"m{i}"]),
                  helper.make_node("Add", [f"m{i}", before], [f"t{i}"])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)
              for name, sizes in (("x", [1, 8, 16, 16]), (f"t{blocks - 1}", None))]
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=(8, 8, 3, 3))
    graph = helper.make_graph(nodes, "large", values[:1], values[1:], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def timed(function, *arguments, **options):
    """(seconds, result)."""
    start = time.perf_counter()
    result = function(*arguments, **options)
    return time.perf_counter() - start, result


def inference(path):
    """What onnx itself needs: parse the file and infer its shapes."""
    return onnx.shape_inference.infer_shapes(onnx.load(path, load_external_data=False), data_prop=True)


def main():
    """Print one line a measurement; True if all limits are kept."""
    path = Path(tempfile.mkdtemp()) / "resnet152.onnx"
    path.write_bytes(as_onnx(network("resnet152")).SerializeToString())
    read_onnx(path)  # imports, once
    alone = min(timed(inference, path)[0] for _ in range(3))
    reading, net = min((timed(read_onnx, path) for _ in range(3)), key=lambda pair: pair[0])
    assert net.parameters == network("resnet152").parameters
    costing, found = timed(costs, net, "128x128", batch=32)
    planning, best = timed(plan, found, 16)
    ordering, order = timed(lambda: order_found(best, layer_graph(net, found)))
    whole = reading + costing + planning + ordering
    print(f"resnet152.onnx: read {reading:.2f} s (onnx alone {alone:.2f} s), costs {costing:.2f} s, "
          f"plan for 16 {planning:.2f} s, orders {ordering:.2f} s, in all {whole:.2f} s; "
          f"period {best.period}, {order['text']}")
    kept = whole < WHOLE_LIMIT and whole - alone < OWN_LIMIT
    reading, net = timed(read_onnx, large())
    costing, found = timed(costs, net, "32x32", batch=4)
    ordering, graph = timed(layer_graph, net, found)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{len(net.nodes):,} nodes, {len(found):,} layers: read {reading:.2f} s, costs {costing:.2f} s, "
          f"graph {ordering:.2f} s ({'several orders' if has_orders(graph) else 'one order'}); "
          f"peak memory of the process {memory:.0f} MB")
    return kept and reading + costing + ordering < LARGE_LIMIT and memory < MEMORY_LIMIT


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
