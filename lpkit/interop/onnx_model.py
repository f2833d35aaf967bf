"""An ONNX file as a small model to look at: checked, without weights, functions written out, its nodes in order.

Nothing is executed, no other file is opened, and no memory is asked for on the word of a size in the file: weights
keep their name, type and sizes only. Source: the ONNX specification, "Open Neural Network Exchange IR".
"""

import math
import os
from pathlib import Path, PurePosixPath, PureWindowsPath

from lpkit.checks import is_file, not_installed, shown
from lpkit.interop.onnx_order import MOST_NODES, child_graphs, sort_nodes

__all__ = ["first_line", "load_model", "onnx_package"]

LARGEST_FILE = 2**31 - 1  # bytes; what one message of the format can hold
MOST_KEPT = 4096  # numbers of a tensor whose values are kept: sizes for reshaping and the like
MOST_CALLS = 100  # of a function in a function
STANDARD = ("", "ai.onnx")
PACKED = {b"PK": "a zip archive", b"\x1f\x8b": "a gzip file", b"7z": "a 7z archive", b"BZ": "a bzip2 file"}


def onnx_package():
    """The package onnx, or a sentence that says how to get it.

    Raises
    ------
    ValueError
        If it is not installed.

    Examples
    --------
    >>> onnx_package().__name__
    'onnx'
    """
    try:
        import onnx
        import onnx.inliner
        import onnx.shape_inference
    except ImportError:
        raise not_installed("onnx", "onnx") from None
    return onnx


def load_model(source):
    """The model in a file, or a ModelProto (which stays as it is), without weights and ready for shape inference.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, it is no ONNX model, is cut off, newer than the installed onnx, cyclic, or refers to
        files outside of its folder.

    Examples
    --------
    >>> onnx = onnx_package()
    >>> relu = onnx.helper.make_node("Relu", ["x"], ["y"])
    >>> [x, y] = (onnx.helper.make_tensor_value_info(name, 1, [1, 3]) for name in "xy")
    >>> model = onnx.helper.make_model(onnx.helper.make_graph([relu], "g", [x], [y]))
    >>> [node.op_type for node in load_model(model).graph.node]
    ['Relu']
    """
    onnx = onnx_package()
    model = source if isinstance(source, onnx.ModelProto) else _parsed(source, onnx)
    _check_text(model)
    _check_versions(model, onnx)
    light = _light(model, onnx)
    if light.functions:
        _check_expansion(light)
        light = _inlined(light, onnx)
    sort_nodes(light.graph)
    return light


def _parsed(path, onnx):
    content = _content(path)
    kind = next((name for start, name in PACKED.items() if content.startswith(start)), None)
    if kind:
        raise ValueError(f"{str(path)!r} is {kind}, not an ONNX file; unpack it and give the .onnx file in it")
    try:
        return onnx.ModelProto.FromString(content)
    except Exception:  # DecodeError of the protobuf package, and RecursionError
        raise ValueError(f"{str(path)!r} is not an ONNX model, or it was cut off; export it again") from None


def _content(path):
    try:
        path = Path(path)
        if not is_file(path) and not os.path.exists(path):
            raise FileNotFoundError(f"there is no file {shown(str(path), 200)}; check the path")
        if not path.is_file():
            raise ValueError(f"{str(path)!r} is a {'folder' if path.is_dir() else 'pipe or a device'}; give a file")
        if (size := path.stat().st_size) > LARGEST_FILE:
            raise ValueError(f"{str(path)!r} has {size:,} bytes; an ONNX file has at most {LARGEST_FILE:,}, larger "
                             "weights stand in files of their own")
        content = path.read_bytes()
    except TypeError:
        raise ValueError(f"the model is {shown(path)}; give the path of an ONNX file, or a ModelProto") from None
    except OSError as error:
        if isinstance(error, FileNotFoundError) and error.errno is None:
            raise
        raise ValueError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    if not content:
        raise ValueError(f"{str(path)!r} is empty; it may have been cut off")
    return content


def _check_text(model):
    """Refuse names that are no text: the protobuf package hands them out as bytes, which nothing here expects."""
    for text in (*_texts(model.graph), *(o.domain for o in model.opset_import),
                 *(text for f in model.functions for text in (f.name, f.domain, *f.input, *f.output, *_node_texts(f)))):
        if not isinstance(text, str):
            raise ValueError(f"the model holds the name {shown(text)}, which is not text; the file is damaged")


def _texts(graph):
    tensors = (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer))
    values = (*graph.input, *graph.output, *graph.value_info)
    return (graph.name, *(text for tensor in tensors for text in _tensor_texts(tensor)),
            *(value.name for value in values), *_node_texts(graph),
            *(dim.dim_param for value in values for dim in value.type.tensor_type.shape.dim))


def _tensor_texts(tensor):
    return (tensor.name, *(text for entry in tensor.external_data for text in (entry.key, entry.value)))


def _node_texts(graph):
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for a in node.attribute:
            yield from (a.name, *_tensor_texts(a.t))
        for child in child_graphs(node):
            yield from _texts(child)


def _check_versions(model, onnx):
    if not model.graph.node:
        raise ValueError("the model has no graph or no node in it; it is not an ONNX model, or was cut off")
    versions = {opset.domain or "ai.onnx": opset.version for opset in model.opset_import}
    if "ai.onnx" not in versions:
        raise ValueError("the model does not say which version of the ONNX operators it uses; it may have been cut off")
    newest = onnx.defs.onnx_opset_version()
    if not 1 <= versions["ai.onnx"] <= newest:
        raise ValueError(f"the model uses version {versions['ai.onnx']} of the ONNX operators, and the installed onnx "
                         f"knows 1 to {newest}; update onnx, or export for a version it knows")
    if model.ir_version > onnx.IR_VERSION:
        raise ValueError(f"the model is of form (IR version) {model.ir_version}, and the installed onnx knows at most "
                         f"{int(onnx.IR_VERSION)}; update onnx")


def _light(model, onnx):
    """A copy without weights; constants too large for sizes become initializers."""
    light = onnx.ModelProto(ir_version=max(4, model.ir_version), opset_import=model.opset_import,
                            functions=model.functions)
    graph, kept = light.graph, []
    graph.name = model.graph.name or "model"
    initializers = list(model.graph.initializer)
    for node in model.graph.node:
        value = next((a.t for a in node.attribute if a.name == "value" and a.HasField("t")), None)
        if node.op_type == "Constant" and value is not None and node.output and _is_large(value):
            initializers.append((node.output[0], value))
        else:
            kept.append(node)
    graph.node.extend(kept)
    for item in initializers:
        name, tensor = item if isinstance(item, tuple) else (item.name, item)
        graph.initializer.append(_light_tensor(name, tensor, onnx))
    graph.initializer.extend(onnx.TensorProto(name=sparse.values.name, data_type=sparse.values.data_type,
                                              dims=_sizes(sparse.values.name, sparse.dims))
                             for sparse in model.graph.sparse_initializer)
    constant = {tensor.name for tensor in graph.initializer}
    graph.input.extend(value for value in model.graph.input if value.name not in constant)
    graph.output.extend(model.graph.output)
    graph.value_info.extend(model.graph.value_info)
    return light


def _is_large(tensor):
    return tensor.data_location == tensor.EXTERNAL or math.prod(tensor.dims) > MOST_KEPT or tensor.ByteSize() > 2**16


def _light_tensor(name, tensor, onnx):
    _sizes(name, tensor.dims)
    for entry in tensor.external_data:
        if entry.key == "location":
            _check_location(name, entry.value)
    if _is_large(tensor):
        return onnx.TensorProto(name=name, data_type=tensor.data_type, dims=tensor.dims)
    copy = onnx.TensorProto()
    copy.CopyFrom(tensor)
    copy.name = name
    return copy


def _sizes(name, dims):
    if any(not 0 <= n < 2**62 for n in dims):
        raise ValueError(f"weight {shown(name)} has the sizes {shown(list(dims))}; sizes are whole numbers from 0")
    return dims


def _check_location(name, location):
    """The file is never opened here; but a model that points elsewhere is not one to trust."""
    outside = any(kind(location).is_absolute() or kind(location).drive or ".." in kind(location).parts
                  for kind in (PurePosixPath, PureWindowsPath))
    if outside or "\0" in location:
        raise ValueError(f"weight {shown(name)} refers to the file {shown(location)} outside of the model's folder; "
                         "do not trust this model, or store its weights beside it")


def _check_expansion(model):
    """Refuse functions that call themselves, or that grow past bounds when they are written out."""
    functions = {(f.domain, f.name): f for f in model.functions}
    sizes = {}

    def size(key, inside):
        if key in inside or len(inside) > MOST_CALLS:
            raise ValueError(f"function {shown(key[1])} of the model calls itself, or stands more than {MOST_CALLS} "
                             "calls deep; a model has no recursion")
        if key not in sizes:
            sizes[key] = sum(cost(node, (*inside, key)) for node in functions[key].node)
        return sizes[key]

    def cost(node, inside):
        key = (node.domain, node.op_type)
        below = sum(cost(n, inside) for graph in child_graphs(node) for n in graph.node)
        return below + (size(key, inside) if key in functions else 1)

    total = sum(cost(node, ()) for node in model.graph.node)
    if total > MOST_NODES:
        raise ValueError(f"the functions of the model write out to {shown(total)} nodes; at most {MOST_NODES:,} are "
                         "read")


def _inlined(model, onnx):
    try:
        return onnx.inliner.inline_local_functions(model)
    except Exception as error:  # the package raises what its C++ raises
        raise ValueError(f"the functions of the model cannot be written out: {first_line(error)}") from None


def first_line(error):
    """The first line of a message of another package, cut.

    Examples
    --------
    >>> first_line(ValueError("[ShapeInferenceError] bad\\n==> Context: ..."))
    '[ShapeInferenceError] bad'
    """
    text = " ".join("".join(s if s.isprintable() else " " for s in str(error).strip().split("\n")[0]).split())
    return text[:160] + "..." * (len(text) > 160)
